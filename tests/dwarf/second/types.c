struct twice {
    long there;
    long and_there;
};

struct apart {
    short value;
};

__attribute__((used)) struct twice other = {1, 2};
__attribute__((used)) struct apart apart = {11};

__attribute__((noinline, noclone)) void in_other(void *opaque) {
    __asm__ volatile("" : : "r"(opaque) : "memory");
}
