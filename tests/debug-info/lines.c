// Calls through inlined functions, forever. A comment at the end of a line names it for the test.

#include <unistd.h>

#define FUNCTION __attribute__((noinline))
#define INLINED static inline __attribute__((always_inline))

static volatile int sink;

// On one line, because the address of its start may belong to either line.
FUNCTION void target(int number) { sink = number; } // target

INLINED int innermost(int number)
{
	target(number); // innermost
	return number + sink;
}

INLINED int middle(int number)
{
	return innermost(number + 1) * 3; // middle
}

FUNCTION int outer(int number)
{
	int result = middle(number); // outer
	return result + sink;
}

static FUNCTION int plain(int number)
{
	int result = outer(number); // plain
	return result + sink;
}

int main(void)
{
	for (int number = 0;; number++) {
		sink = plain(number); // main
		usleep(1000);
	}
}
