// Collects garbage and lets threads wait for a monitor, as often and as long as it says.
//
//   java Held.java
//
// It prints "ready", reads a line, and prints what it did.

import java.lang.management.ManagementFactory;

public class Held {
    static final int COLLECTIONS = 10;
    static final int WAITS = 20;
    static final Object LOCK = new Object();

    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        System.in.read();
        long before = collections();
        for (int i = 0; i < COLLECTIONS; i++) System.gc();
        System.out.println("collections " + (collections() - before));
        long heldNs = 0;
        for (int i = 0; i < WAITS; i++) {
            Thread waiter = new Thread(() -> { synchronized (LOCK) { } }, "waiter");
            synchronized (LOCK) {
                waiter.start();
                while (waiter.getState() != Thread.State.BLOCKED) Thread.sleep(1);
                long start = System.nanoTime();
                Thread.sleep(10);
                heldNs += System.nanoTime() - start;
            }
            waiter.join();
        }
        System.out.println("waits " + WAITS);
        System.out.println("held_ns " + heldNs);
    }

    static long collections() {
        long sum = 0;
        for (var bean : ManagementFactory.getGarbageCollectorMXBeans()) sum += bean.getCollectionCount();
        return sum;
    }
}
