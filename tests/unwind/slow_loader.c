// A dynamic loader that sleeps for four seconds and ends with 3, instead of loading anything: the
// program that names it never leaves its loader.
static long call(long number, long a, long b)
{
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return result;
}

void _start(void)
{
	volatile long sleep[2];
	sleep[0] = 4;
	sleep[1] = 0;
	call(35, (long)sleep, 0);
	call(231, 3, 0);
	for (;;)
		;
}
