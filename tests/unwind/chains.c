/* Functions that call each other in random order, and print which of them were active.
 *
 * In: a seed, a number of chains, and the limit of the first phase in milliseconds. Out: lines
 * `chain ID NAME...`, innermost first, one for each call of `leaf`, which closes the descriptor
 * 1000000 + ID, which is not open.
 * `WITH_JUMPS` adds functions whose last instruction is a call, which a jump leaves; `WITH_STORED`
 * one that keeps its caller's stack pointer in memory, as OpenSSL's assembly does.
 * Guarantee: all functions named `chain_...` have frames of their own. Calls with id 0 come first,
 * until SIGUSR1. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define INLINE static inline __attribute__((always_inline))
#define USE(value) __asm__ volatile("" : : "r"(value) : "memory")

static const char *active[64];
static volatile int depth;
static unsigned long state, left, leaf_id;
static volatile sig_atomic_t is_warm;

INLINE void onward(void);

NOINLINE long leaf(long id) {
    int at;
    if (id) {
        printf("chain %ld", id);
        for (at = depth; at > 0; at--)
            printf(" %s", active[at - 1]);
        printf("\n");
    }
    return syscall(SYS_close, 1000000 + id) + 1;
}

/* A function of the chain: the statement after the call keeps its frame. */
#define CONTINUE()                 \
    do {                           \
        int own = depth;           \
        active[own] = __func__;    \
        depth = own + 1;           \
        onward();                  \
        depth = own;               \
    } while (0)

NOINLINE void chain_small(void) { CONTINUE(); }

NOINLINE void chain_array(void) {
    char array[700];
    USE(array);
    CONTINUE();
    USE(array);
}

NOINLINE void chain_large(void) {
    char array[40000];
    USE(array);
    CONTINUE();
    USE(array);
}

/* A frame whose size is not known in advance. */
NOINLINE void chain_variable(void) {
    char array[state % 500 + 1];
    USE(array);
    CONTINUE();
    USE(array);
}

/* Its frame is aligned, and has a size that is not known in advance. */
NOINLINE void chain_aligned(void) {
    alignas(64) char array[64];
    char other[state % 300 + 1];
    USE(array);
    USE(other);
    CONTINUE();
    USE(array);
    USE(other);
}

/* More values than the registers that a call preserves. */
NOINLINE void chain_values(void) {
    unsigned long a = state * 3, b = state * 5, c = state * 7, d = state * 11;
    unsigned long e = state * 13, f = state * 17, g = state * 19, h = state * 23;
    USE(a); USE(b); USE(c); USE(d); USE(e); USE(f); USE(g); USE(h);
    CONTINUE();
    USE(a); USE(b); USE(c); USE(d); USE(e); USE(f); USE(g); USE(h);
}

NOINLINE long with_arguments(long a, long b, long c, long d, long e, long f, long g, long h, long i) {
    onward();
    return a + b + c + d + e + f + g + h + i;
}

NOINLINE void chain_arguments(void) {
    int own = depth;
    active[own] = __func__;
    depth = own + 1;
    USE(with_arguments(own, 2, 3, 4, own, 6, 7, own, 9));
    depth = own;
}

static int compare(const void *key, const void *value) {
    USE(value);
    onward();
    return key == 0;
}

/* libc calls the rest of the chain. */
NOINLINE void chain_search(void) {
    int own = depth;
    active[own] = __func__;
    depth = own + 1;
    USE(bsearch(&state, &state, 1, sizeof(state), compare));
    depth = own;
}

#ifdef WITH_STORED
NOINLINE __attribute__((used)) void continue_stored(void) {
    int own = depth;
    active[own] = "chain_stored";
    depth = own + 1;
    onward();
    depth = own;
}

void chain_stored(void);
/* The expression: rsp + 152, what is stored there, and 8 more. */
__asm__(".text\n.globl chain_stored\n.type chain_stored, @function\n"
        "chain_stored:\n.cfi_startproc\n"
        "mov %rsp, %rax\n.cfi_def_cfa_register %rax\n"
        "push %rbp\n.cfi_offset %rbp, -16\n"
        "sub $256, %rsp\nand $-64, %rsp\nmov %rax, 152(%rsp)\n"
        ".cfi_escape 0x0f, 0x06, 0x77, 0x98, 0x01, 0x06, 0x23, 0x08\n"
        "mov $1, %ebp\n"
        "call continue_stored\n"
        "mov 152(%rsp), %rsi\n.cfi_def_cfa %rsi, 8\n"
        "mov -8(%rsi), %rbp\n"
        "lea (%rsi), %rsp\n.cfi_def_cfa_register %rsp\n.cfi_restore %rbp\n"
        "ret\n.cfi_endproc\n.size chain_stored, . - chain_stored\n");
#endif

#ifdef WITH_JUMPS
static jmp_buf *back;

/* The end of the function that calls it: the address after the call belongs to another one. */
NOINLINE __attribute__((noreturn)) void chain_leaves(void) {
    CONTINUE();
    longjmp(*back, 1);
}

NOINLINE __attribute__((noreturn)) void chain_last(void) {
    active[depth++] = __func__;
    chain_leaves();
}

NOINLINE void after_the_last(void) { USE(active); }

NOINLINE void chain_jump(void) {
    jmp_buf own;
    jmp_buf *volatile outer = back;
    volatile int at = depth;
    active[depth++] = __func__;
    back = &own;
    if (!setjmp(own))
        chain_last();
    after_the_last();
    back = outer;
    depth = at;
}
#endif

static void (*const functions[])(void) = {
    chain_small, chain_array, chain_large, chain_variable, chain_aligned, chain_values, chain_arguments, chain_search,
#ifdef WITH_STORED
    chain_stored,
#endif
#ifdef WITH_JUMPS
    chain_jump,
#endif
};

INLINE void onward(void) {
    if (left == 0) {
        if (leaf_id)
            USE(leaf(leaf_id));
        return;
    }
    left--;
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    functions[(state >> 33) % (sizeof(functions) / sizeof(*functions))]();
}

static void on_warm(int signal) { is_warm = signal; }

int main(int count, char **arguments) {
    long id, chains;
    int ms;
    if (count < 4)
        return 1;
    state = strtoul(arguments[1], 0, 10);
    chains = atol(arguments[2]);
    signal(SIGUSR1, on_warm);
    for (ms = atoi(arguments[3]); ms > 0 && !is_warm; ms--) {
        USE(leaf(0));
        usleep(1000);
    }
    for (id = 1; id <= chains; id++) {
        leaf_id = id;
        left = 1 + (state >> 20) % 12;
        onward();
    }
    return 0;
}
