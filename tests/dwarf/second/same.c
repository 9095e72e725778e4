extern volatile long touched;

__attribute__((noinline)) void second(long value) {
    touched -= value; // same
}
