/* A program with known calls of the allocator, and known waits for a lock, a condition and a semaphore.
 * In: any line on the standard input; then the end of the input. Out: `ready`, and after the line its own counts.
 * Guarantee: all of its threads exist and have allocated before it is ready. Between the two outputs its calls are
 * those that it counts, and each wait sleeps in futex() once: the other side waits until it does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 400, WAITS = 20, FREE_LOCKS = 1000 };

/* What a thread did. `kept` are the blocks that it did not free. */
struct counts { long calls, bytes, frees, kept, kept_bytes; };
static struct counts counts[THREADS];
static sem_t begun, ready, wanted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, of_condition = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int is_set;
/* The thread that is about to wait, the waits that have ended, and how often main has taken the lock. */
static long sleeper, done, taken;

static void say(const char *format, ...)
{
	char line[256];
	va_list values;
	va_start(values, format);
	int size = vsnprintf(line, sizeof line, format, values);
	va_end(values);
	if (write(1, line, size) != size)
		_exit(1);
}

/* A caller of its own for each function: the compiler does not remove a pair of malloc and free. */
static void *volatile last;
static void *called(struct counts *own, void *block, long bytes)
{
	if (block == NULL)
		_exit(1);
	memset(block, 1, 16);
	own->calls++;
	own->bytes += bytes;
	last = block;
	return block;
}
static void freed(struct counts *own, void *block)
{
	own->frees++;
	free(block);
}
static void keep(struct counts *own, long bytes)
{
	own->kept++;
	own->kept_bytes += bytes;
}

static void allocate(struct counts *own, int round)
{
	long size = 100 + round * 37;
	void *block = called(own, malloc(size), size);
	/* Larger, smaller, and to a place of its own: musl allocates, copies and frees for that. */
	block = called(own, realloc(block, 3 * size), 3 * size);
	block = called(own, realloc(block, size / 2), size / 2);
	block = called(own, realloc(block, 200000 + size), 200000 + size);
	freed(own, block);
	block = called(own, realloc(NULL, size), size);
	if (round % 4 == 0)
		keep(own, size);
	else
		freed(own, block);
	block = called(own, calloc(3, size), 3 * size);
	if (round % 5 == 0)
		keep(own, 3 * size);
	else
		freed(own, block);
	if (posix_memalign(&block, 256, size) != 0)
		_exit(1);
	called(own, block, size);
	if (round % 2 == 0)
		keep(own, size);
	else
		freed(own, block);
	freed(own, called(own, aligned_alloc(64, 64 * round + 64), 64 * round + 64));
	freed(own, called(own, memalign(4096, size), size));
#ifdef HAS_VALLOC
	freed(own, called(own, valloc(size), size));
#endif
}

static void *work(void *own)
{
	struct counts warm = { 0 };
	allocate(&warm, 1);
	sem_post(&ready);
	while (sem_wait(&begun) != 0)
		;
	for (int round = 0; round < ROUNDS; round++)
		allocate(own, round);
	sem_post(&ready);
	for (;;)
		pause();
}

/* Waits until the other thread sleeps in futex(), and returns the address of the word. */
static uint64_t until_it_sleeps(void)
{
	char path[64], text[256];
	for (;;) {
		long thread = __atomic_load_n(&sleeper, __ATOMIC_SEQ_CST);
		snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", thread);
		int file = open(path, O_RDONLY);
		ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
		close(file);
		text[size > 0 ? size : 0] = 0;
		if (strncmp(text, "202 0x", 6) == 0) {
			/* It is in the call, but may not sleep yet. */
			usleep(2000);
			return strtoull(text + 4, NULL, 16);
		}
		usleep(100);
	}
}
/* What the other thread says: that it is about to wait, and that it has. */
static void step(void) { __atomic_store_n(&sleeper, syscall(SYS_gettid), __ATOMIC_SEQ_CST); }
static void stepped(void)
{
	__atomic_store_n(&sleeper, 0, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
}
static void until(long *count, long value)
{
	while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < value)
		usleep(100);
}

static void *wait_often(void *unused)
{
	(void)unused;
	sem_post(&ready);
	while (sem_wait(&begun) != 0)
		;
	for (int i = 0; i < WAITS; i++) {
		until(&taken, i + 1);
		step();
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		stepped();
	}
	for (int i = 0; i < WAITS; i++) {
		pthread_mutex_lock(&of_condition);
		step();
		while (!is_set)
			pthread_cond_wait(&condition, &of_condition);
		is_set = 0;
		pthread_mutex_unlock(&of_condition);
		stepped();
	}
	for (int i = 0; i < WAITS; i++) {
		step();
		while (sem_wait(&wanted) != 0)
			;
		stepped();
	}
	for (int i = 0; i < FREE_LOCKS; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	sem_post(&ready);
	for (;;)
		pause();
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	if (pthread_create(thread, NULL, run, argument) != 0)
		_exit(1);
	while (sem_wait(&ready) != 0)
		;
}

int main(void)
{
	pthread_t thread;
	char line[16];
	uint64_t word = 0;
	struct counts all = { 0 };
	sem_init(&begun, 0, 0);
	sem_init(&ready, 0, 0);
	sem_init(&wanted, 0, 0);
	for (int i = 0; i < THREADS; i++)
		start(&thread, work, &counts[i]);
	start(&thread, wait_often, NULL);
	say("ready\n");
	if (read(0, line, sizeof line) <= 0)
		return 1;
	/* The allocators work at the same time. */
	for (int i = 0; i <= THREADS; i++)
		sem_post(&begun);
	for (int i = 0; i < WAITS; i++) {
		pthread_mutex_lock(&lock);
		__atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
		word = until_it_sleeps();
		pthread_mutex_unlock(&lock);
		until(&done, i + 1);
	}
	for (int i = 0; i < WAITS; i++) {
		until_it_sleeps();
		pthread_mutex_lock(&of_condition);
		is_set = 1;
		pthread_cond_signal(&condition);
		pthread_mutex_unlock(&of_condition);
		until(&done, WAITS + i + 1);
	}
	for (int i = 0; i < WAITS; i++) {
		until_it_sleeps();
		sem_post(&wanted);
		until(&done, 2 * WAITS + i + 1);
	}
	for (int i = 0; i <= THREADS; i++)
		while (sem_wait(&ready) != 0)
			;
	for (int i = 0; i < THREADS; i++) {
		all.calls += counts[i].calls;
		all.bytes += counts[i].bytes;
		all.frees += counts[i].frees;
		all.kept += counts[i].kept;
		all.kept_bytes += counts[i].kept_bytes;
	}
	say("allocations %ld\nbytes %ld\nfrees %ld\nkept %ld\nkept_bytes %ld\n", all.calls, all.bytes, all.frees, all.kept, all.kept_bytes);
	say("lock %lu\nword %lu\nacquired %d\nwaits %d\n", (unsigned long)&lock, (unsigned long)word, 2 * WAITS + FREE_LOCKS, WAITS);
	say("condition %lu\nsemaphore %lu\ndone 1\n", (unsigned long)&condition, (unsigned long)&wanted);
	while (read(0, line, sizeof line) > 0)
		;
	return 0;
}
