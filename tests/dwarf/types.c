/* Types and global variables that scripts name. `struct file` is not the kernel's. */

#include <stdbool.h>
#include <stdint.h>

enum colour { RED, GREEN = 5 };

struct file {
    int16_t number;
    const char *name;
    struct file *next;
};

union either {
    int64_t whole;
    int32_t half[2];
};

typedef struct {
    enum colour colour;
    union either either;
    struct file file;
} thing;

struct client {
    int fd;
};

struct server {
    struct client *clients;
    long count;
};

/* In the other source file, this is another type. */
struct twice {
    int here;
};

/* Nothing reads most of them. */
#define KEPT __attribute__((used))

KEPT struct client client = {-4};
KEPT struct server server = {&client, 3};
KEPT struct server *chosen = &server;
KEPT int32_t counter = -7;
KEPT static int8_t small = -3;
KEPT char label[16] = "a label";
KEPT uint16_t table[3] = {1, 2, 65535};
KEPT double ratio = 0.5;
KEPT bool flag = true;
KEPT struct twice only = {6};

void in_other(void *opaque);

__attribute__((noinline, noclone)) void use(void *opaque, long colour, void *twice) {
    __asm__ volatile("" : : "r"(opaque), "r"(colour), "r"(twice) : "memory");
}

int main(void) {
    /* Texts that are in memory: a probe cannot bring pages of a file there. */
    char last_name[] = "last", first_name[] = "first";
    struct file last = {-2, last_name, 0};
    thing all = {GREEN, {.half = {-1, -9}}, {-300, first_name, &last}};
    use(&all, GREEN, &only);
    in_other(&all);
    /* Brings the page of the variables into memory. */
    return *(volatile int32_t *)&counter + 7;
}
