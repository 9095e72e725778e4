/* A function that runs on a stack which makecontext has made. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <ucontext.h>

volatile int sink;
ucontext_t whole, part;

__attribute__((noinline)) void target(int number) { sink += number; }

__attribute__((noinline)) void coroutine(void) {
  for (int round = 0; round < 40; round++) {
    target(round);
    sink++;
  }
}

int main(void) {
  getcontext(&part);
  part.uc_stack.ss_sp = malloc(65536);
  part.uc_stack.ss_size = 65536;
  part.uc_link = &whole;
  makecontext(&part, coroutine, 0);
  swapcontext(&whole, &part);
  return 0;
}
