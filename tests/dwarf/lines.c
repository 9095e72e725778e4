/* Lines whose number of executions is known. */

#include "lines.h"

struct conn {
    int fd;
    long id;
};

volatile long touched;

void first(long value);
void second(long value);

__attribute__((noinline, noclone)) long work(struct conn *conn, int len) {
    long total = 0;
    for (int i = 0; i < len; i++) {
        touched += conn->fd; // body: 10
    }
    // no code

    total += tripled(len) + conn->id; // first call: 5
    touched = total;
    return total + tripled(total); // second call: 5
}

int main(void) {
    struct conn conn = {.fd = 7, .id = 9};
    for (int i = 0; i < 5; i++)
        work(&conn, i);
    first(1);
    second(2);
    second(3);
    return 0;
}
