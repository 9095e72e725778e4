extern volatile long touched;

static inline __attribute__((always_inline)) long tripled(long value) {
    touched += value; // inlined: 10
    return value * 3;
}
