/* A chain of calls; its frames have no size that is known when it is compiled. */
#include <unistd.h>

volatile int sink;

__attribute__((noinline)) void target(int number) { sink += number; }

__attribute__((noinline)) int inner(int number) {
  char bytes[number + 8];
  bytes[0] = number;
  sink += bytes[0];
  target(number);
  return sink + bytes[0];
}

__attribute__((noinline)) int middle(int number, int more) { return inner(number + more) + more; }

__attribute__((noinline)) int outer(int number) { return middle(number, 1) + middle(number, 2); }

int main(void) { return outer(5) == 0; }
