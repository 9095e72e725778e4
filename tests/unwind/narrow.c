/* A 32-bit program without a libc.
 *
 * In: nothing. Out: 200 calls of `leaf`, at 5 ms intervals. */
static long call(long number, const void *first, const void *second) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second) : "memory");
    return result;
}

__attribute__((noinline, noclone)) void leaf(void) { __asm__ volatile("" : : : "memory"); }

__attribute__((force_align_arg_pointer)) void _start(void) {
    const long time[2] = {0, 5000000};
    int calls;
    for (calls = 0; calls < 200; calls++) {
        leaf();
        call(162, time, 0);
    }
    call(1, 0, 0);
}
