/* A program that calls three functions of a library (with LIBRARY: that library). */
#ifdef LIBRARY
int one(int number) { return number + 1; }
int two(int number) { return number + 2; }
int three(int number) { return number + 3; }
#else
int one(int), two(int), three(int);

int main(void) {
  int sum = 0;
  for (int round = 0; round < 5; round++)
    sum += one(round) + two(round) + three(round);
  return sum == 0;
}
#endif
