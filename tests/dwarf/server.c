/* Functions with parameters of many types. The program prints each call as the tests' scripts do. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define KEPT __attribute__((noinline, noclone))

enum state { IDLE, OPEN = 5, CLOSING = -2 };

typedef struct {
    int32_t x;
    int16_t y;
} point;

struct address {
    uint16_t port;
    uint8_t bytes[4];
};

struct conn {
    uint64_t id;
    const char *name;
    char label[8];
    struct address peer;
    int counts[3];
    unsigned low : 3;
    int high : 5;
    struct conn *next;
    enum state state;
    bool secure;
    union {
        int64_t whole;
        int32_t half[2];
    };
    point corners[2];
    double ratio;
};

struct pair {
    int64_t first, second;
};

struct large {
    int64_t parts[5];
};

static volatile int64_t sink;

KEPT int integers(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f) {
    printf("integers %d %d %d %d %d %u\n", a, b, c, d, e, f);
    return -a;
}

KEPT long wide(int64_t a, uint64_t b, bool c, enum state d, char e) {
    printf("wide %ld %lu %d %d %d\n", (long)a, (unsigned long)b, c, d, e);
    return (long)a;
}

KEPT int many(int a, int b, int c, int d, int e, int f, int8_t g, int h, const char *i) {
    printf("many %d %d %d %d %d %d %d %d %s\n", a, b, c, d, e, f, g, h, i);
    return h;
}

KEPT struct conn *handle_request(struct conn *conn, int len, const char *text) {
    printf("request %d %lu %s %s %d %d %d %d %d %d %lu %d %d %d %d %s\n", len, (unsigned long)conn->id, conn->name,
           conn->label, conn->peer.port, conn->peer.bytes[2], conn->counts[0], conn->counts[2], conn->low, conn->high,
           (unsigned long)conn->next->id, conn->state, conn->secure, conn->half[1], conn->corners[1].y, text);
    return conn->next;
}

KEPT int mixed(int a, double b, int c, struct pair d, int e, struct large f, int g) {
    printf("mixed %d %d %d\n", a, c, e);
    sink = (int64_t)b + d.first + f.parts[4] + g;
    return a;
}

KEPT void one_alike(struct conn *conn, short n) { printf("alike %d %d\n", conn->peer.port, n); }

KEPT void two_alike(struct conn *conn, short n) {
    printf("alike %d %d\n", conn->peer.port, n);
    sink = n;
}

KEPT struct large make(int a, int b) {
    struct large result = {{a, b}};
    printf("make %d %d\n", a, b);
    return result;
}

KEPT int overwritten(int a, int b) {
    int *volatile place = &a;
    *place = b + 1;
    printf("overwritten %d\n", b);
    return a;
}

#ifdef WITH_CLONE
/* With the same `a` in all calls, GCC makes a function without it. */
static __attribute__((noinline)) int cloned(int a, int b) {
    printf("cloned %d\n", b);
    return a * b;
}
#endif

KEPT void nothing(void) { printf("nothing\n"); }

int main(void) {
    struct conn last = {.id = 99, .name = "last"};
    struct conn conn = {.id = 1ULL << 40,
                        .name = "first one",
                        .label = "label",
                        .peer = {.port = 8080, .bytes = {10, 0, 200, 1}},
                        .counts = {-1, 2, -3},
                        .low = 5,
                        .high = -7,
                        .next = &last,
                        .state = CLOSING,
                        .secure = true,
                        .half = {1, -9},
                        .corners = {{1, 2}, {3, -4}},
                        .ratio = 0.5};
    setvbuf(stdout, NULL, _IOLBF, 0);
    integers(-8, 200, -3000, 60000, -70000, 4000000000u);
    wide(-(1LL << 40), UINT64_MAX, true, OPEN, 'x');
    many(1, -2, 3, -4, 5, -6, -7, 8, "nine");
    printf("returned %lu %s\n", (unsigned long)handle_request(&conn, -5, "hello")->id, last.name);
    mixed(1, 2.5, -3, (struct pair){4, 5}, 6, (struct large){{7, 8, 9, 10, 11}}, 12);
    one_alike(&conn, 1);
    two_alike(&last, -2);
    sink = make(21, -22).parts[1];
    sink = overwritten(31, 32);
    nothing();
#ifdef WITH_CLONE
    sink = cloned(7, (int)sink) + cloned(7, -5);
#endif
    return 0;
}
