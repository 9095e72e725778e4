/** Uses a CPU in methods that are compiled soon, until it is killed. */
public class Hot {
    static long hotInner(long rounds) {
        long sum = 0;
        for (long i = 0; i < rounds; i++) {
            sum = sum * 31 + (i ^ (sum >>> 7));
        }
        return sum;
    }

    static long hotOuter(long times) {
        long sum = 0;
        for (long i = 0; i < times; i++) {
            sum += hotInner(100_000);
        }
        return sum;
    }

    public static void main(String[] arguments) {
        System.out.println("ready");
        long sum = 0;
        while (sum != 42) {
            sum += hotOuter(100);
        }
    }
}
