/* Twenty calls of vfork through a chain of functions. */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) int launch(int number) {
  pid_t child = vfork();
  if (child == 0)
    _exit(number);
  int status;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status) + 1;
}

__attribute__((noinline)) int jobs(int number) { return launch(number) + 2; }

int main(void) {
  int sum = 0;
  for (int round = 0; round < 20; round++)
    sum += jobs(3);
  return sum == 0;
}
