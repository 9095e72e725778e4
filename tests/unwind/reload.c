/* Loads two libraries in turn, which take each other's addresses.
 *
 * In: for each library its path, then the number of loads, the time between a load and its call, and
 * the limit of the first phase, both in milliseconds. Out: lines `chain ID NAME`: the function, `odd_one` or `even_one`, from which
 * `leaf(ID)` was called. `leaf` closes the descriptor 1000000 + ID, which is not open.
 * Guarantee: odd ids are those of the first library. Calls with id 0 come first, until SIGUSR1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile sig_atomic_t is_warm;
/* How long the tracer has to notice a mapping. */
static int settle_ms;

NOINLINE long leaf(long id) { return syscall(SYS_close, 1000000 + id) + 1; }

static void on_warm(int signal) { is_warm = signal; }

NOINLINE int call(const char *path, const char *name, long id) {
    void *library = dlopen(path, RTLD_NOW);
    long (*function)(long (*)(long), long);
    if (!library || !(function = (long (*)(long (*)(long), long))dlsym(library, name)))
        return 1;
    printf("chain %ld %s\n", id, name);
    usleep(settle_ms * 1000);
    function(leaf, id);
    return dlclose(library);
}

int main(int count, char **arguments) {
    long id, loads;
    int ms;
    if (count < 6)
        return 1;
    loads = atol(arguments[3]);
    settle_ms = atoi(arguments[4]);
    signal(SIGUSR1, on_warm);
    for (ms = atoi(arguments[5]); ms > 0 && !is_warm; ms--) {
        leaf(0);
        usleep(1000);
    }
    for (id = 1; id <= loads; id++) {
        int is_odd = id % 2;
        if (call(arguments[is_odd ? 1 : 2], is_odd ? "odd_one" : "even_one", id))
            return 1;
    }
    return 0;
}
