/* Calls a function of a library whose file is no longer at its path.
 *
 * In: `before` or `after`, the path of the library and of the file that replaces it, which may be
 * the library itself, and the limit of the first phase in milliseconds. Out: calls of `leaf` from
 * the library's function `odd_one` with the ids 1 and 2; then it waits to be killed. `leaf` closes
 * the descriptor 1000000 + ID, which is not open.
 * Guarantee: the file is replaced before or after the first phase and the call with id 1. In that
 * phase calls have id 0, until SIGUSR1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile sig_atomic_t is_warm;

static void on_warm(int signal) { is_warm = signal; }

NOINLINE long leaf(long id) { return syscall(SYS_close, 1000000 + id) + 1; }

NOINLINE long call(long (*function)(long (*)(long), long), long id) { return function(leaf, id) + 1; }

int main(int count, char **arguments) {
    long (*function)(long (*)(long), long);
    void *library;
    int ms, is_before;
    if (count < 5 || !(library = dlopen(arguments[2], RTLD_NOW)))
        return 1;
    if (!(function = (long (*)(long (*)(long), long))dlsym(library, "odd_one")))
        return 1;
    is_before = !strcmp(arguments[1], "before");
    if (is_before && rename(arguments[3], arguments[2]))
        return 1;
    signal(SIGUSR1, on_warm);
    for (ms = atoi(arguments[4]); ms > 0 && !is_warm; ms--) {
        call(function, 0);
        usleep(1000);
    }
    call(function, 1);
    if (!is_before && rename(arguments[3], arguments[2]))
        return 1;
    call(function, 2);
    for (;;)
        pause();
}
