import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicLong;

/** Collects garbage seven times, then three threads take a monitor for 200 ms each. */
public class Pauses {
    static final Object LOCK = new Object();
    static final byte[][] KEPT = new byte[150000][];
    static final AtomicLong WAITED_NS = new AtomicLong();

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
        for (int i = 0; i < KEPT.length; i++) {
            KEPT[i] = new byte[40];
        }
        System.out.println("ready");
        System.in.read();
        long before = collections();
        for (int i = 0; i < 7; i++) {
            System.gc();
        }
        System.out.println("collections " + (collections() - before));
        Thread[] threads = new Thread[3];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                long start = System.nanoTime();
                synchronized (LOCK) {
                    WAITED_NS.addAndGet(System.nanoTime() - start);
                    sleep(200);
                }
            });
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("waited_ns " + WAITED_NS);
    }
}
