/* Reads the clock in a loop, which calls into the vDSO: first in the main thread, then in another.
 *
 * In: the CPU time of each loop and the limit of the first phase, both in milliseconds. Out: CPU
 * time in `read_in_main` and `read_in_thread`.
 * Guarantee: descriptor 1000000 is closed before, until SIGUSR1. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile sig_atomic_t is_warm;
static volatile long sink;
static long spin_ms;

static void on_warm(int signal) { is_warm = signal; }

static inline long now_ms(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static inline __attribute__((always_inline)) void read_clock(void) {
    long end = now_ms(CLOCK_THREAD_CPUTIME_ID) + spin_ms;
    int reads;
    while (now_ms(CLOCK_THREAD_CPUTIME_ID) < end)
        for (reads = 0; reads < 10000; reads++)
            sink = now_ms(CLOCK_MONOTONIC);
}

NOINLINE void read_in_main(void) {
    read_clock();
    sink = 0;
}

NOINLINE void *read_in_thread(void *argument) {
    read_clock();
    return argument;
}

int main(int count, char **arguments) {
    pthread_t thread;
    int ms;
    if (count < 3)
        return 1;
    spin_ms = atol(arguments[1]);
    signal(SIGUSR1, on_warm);
    for (ms = atoi(arguments[2]); ms > 0 && !is_warm; ms--) {
        syscall(SYS_close, 1000000L);
        usleep(1000);
    }
    read_in_main();
    return pthread_create(&thread, 0, read_in_thread, 0) || pthread_join(thread, 0);
}
