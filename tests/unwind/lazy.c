/* A program whose call the dynamic linker completes when it is made, and its library.
 *
 * In: `LIBRARY`; the program's argument is the limit of the first phase in milliseconds. Out: a line
 * `chain 1 choose`: the library's function that the dynamic linker calls closes the descriptor
 * 1000001, which is not open.
 * Guarantee: descriptor 1000000 is closed before, until SIGUSR1. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef LIBRARY
static long own(long value) { return value + 1; }

/* It runs before libc may be called. */
static long (*choose(void))(long) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_close), "D"(1000001L) : "rcx", "r11", "memory");
    return own;
}

long chosen(long value) __attribute__((ifunc("choose")));
#else
long chosen(long value);

static volatile sig_atomic_t is_warm;

static void on_warm(int signal) { is_warm = signal; }

__attribute__((noinline)) long call_chosen(long value) { return chosen(value) + 1; }

int main(int count, char **arguments) {
    int ms;
    signal(SIGUSR1, on_warm);
    printf("chain 1 choose\n");
    for (ms = count > 1 ? atoi(arguments[1]) : 0; ms > 0 && !is_warm; ms--) {
        syscall(SYS_close, 1000000L);
        usleep(1000);
    }
    return call_chosen(count) != 4;
}
#endif
