extern volatile long touched;

__attribute__((noinline)) void first(long value) {
    touched += value; // same
}
