/* Functions that are always called with the same number, which the compiler therefore leaves out. */
volatile int sink;

static __attribute__((noinline)) int scaled(int value, int factor, unsigned char more) {
  sink += value;
  asm volatile("" ::: "memory");
  return value * factor + more;
}

int main(int count, char **words) {
  (void)words;
  int sum = 0;
  for (int round = 0; round < 3; round++)
    sum += scaled(count + round, -4, 200);
  return sum == 0;
}
