/* Three functions that end in an illegal instruction, one directly after the other: the handler is
 * called as if from the first byte of the first two, and from the second one of the third. */
#define _GNU_SOURCE
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

volatile int sink;

__attribute__((noinline)) void target(int number) { sink += number; }

static void handler(int number, siginfo_t *info, void *context) {
  (void)info;
  target(number);
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

asm(".text\n"
    ".type first, @function\nfirst: .cfi_startproc\n ud2\n ret\n .cfi_endproc\n.size first, .-first\n"
    ".type second, @function\nsecond: .cfi_startproc\n ud2\n ret\n .cfi_endproc\n.size second, .-second\n"
    ".type third, @function\nthird: .cfi_startproc\n push %rbx\n .cfi_def_cfa_offset 16\n"
    " .cfi_offset 3, -16\n ud2\n pop %rbx\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n"
    ".size third, .-third\n");
void first(void), second(void), third(void);

__attribute__((noinline)) int fault(volatile int *nowhere) {
  sink = 1;
  int value = *nowhere; /* fault */
  sink = 2;
  return value;
}

static void end(int number, siginfo_t *info, void *context) {
  (void)info;
  (void)context;
  target(number);
  _exit(0);
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGILL, &action, 0);
  first();
  sink++;
  second();
  sink++;
  third();
  sink++;
  action.sa_sigaction = end;
  sigaction(SIGSEGV, &action, 0);
  return fault(0);
}
