import java.lang.management.ManagementFactory;

/** Collects garbage seven times, then three threads take a monitor for 100 ms each. */
public class Pauses {
    static final Object LOCK = new Object();

    static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Collections so far. */
    static long collections() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream().mapToLong(b -> b.getCollectionCount()).sum();
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        System.in.read();
        byte[][] kept = new byte[3000][];
        for (int i = 0; i < kept.length; i++) {
            kept[i] = new byte[1000];
        }
        long before = collections();
        long start = System.nanoTime();
        for (int i = 0; i < 7; i++) {
            System.gc();
        }
        System.out.println("collected_ns " + (System.nanoTime() - start));
        System.out.println("collections " + (collections() - before));
        Thread[] threads = new Thread[3];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                synchronized (LOCK) {
                    sleep(100);
                }
            });
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
