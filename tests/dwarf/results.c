/* Functions with results of many types. */

#include <stdbool.h>
#include <stdint.h>

#define KEPT __attribute__((noinline, noclone))

enum state { IDLE, OPEN = 5, CLOSING = -2 };
typedef int32_t status;

struct conn {
    int fd;
};

static struct conn conn = {3};
static int numbers[2] = {-5, 6};
static char text[] = "text";

KEPT int8_t give_int8(void) { return -8; }
KEPT uint16_t give_uint16(void) { return 65535; }
KEPT status give_int32(void) { return -70000; }
KEPT int64_t give_int64(void) { return -(1LL << 40); }
KEPT bool give_bool(void) { return true; }
KEPT enum state give_enum(void) { return CLOSING; }
KEPT struct conn *give_struct(void) { return &conn; }
KEPT int *give_ints(void) { return numbers; }
KEPT const char *give_text(void) { return text; }
KEPT void *give_null(void) { return 0; }

int main(void) {
    /* Reads the variables, so that their page is in memory. */
    volatile long sum = conn.fd + numbers[0] + text[0];
    sum += give_int8() + give_uint16() + give_int32() + give_int64() + give_bool() + give_enum();
    sum += give_struct()->fd + *give_ints() + *give_text() + (give_null() != 0);
    return 0;
}
