/* Two source files, each with a function of its own that has the same name. */
#ifdef SECOND
static __attribute__((noinline)) int helper(int number) {
  asm volatile("" ::: "memory");
  return number + 2;
}
int second(int number) { return helper(number) + 2; }
#else
static __attribute__((noinline)) int helper(int number) {
  asm volatile("" ::: "memory");
  return number + 1;
}
int second(int number);

int main(void) {
  int sum = helper(1);
  for (int round = 0; round < 2; round++)
    sum += second(10 + round);
  return sum == 0;
}
#endif
