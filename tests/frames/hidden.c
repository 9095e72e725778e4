/* Functions that are in no dynamic symbol table. */
#include <unistd.h>

volatile int sink;

static __attribute__((noinline)) void hidden_leaf(int number) {
  sink += number;
  getppid();
  sink++;
}

static __attribute__((noinline)) void hidden_middle(int number) {
  hidden_leaf(number);
  sink++;
}

__attribute__((noinline)) void visible(int number) {
  hidden_middle(number);
  sink++;
}

int main(void) {
  for (int round = 0; round < 3; round++)
    visible(round);
  return 0;
}
