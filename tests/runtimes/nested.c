// Locks whose functions call each other, as musl's do: pthread_mutex_lock jumps to
// pthread_mutex_timedlock, which calls pthread_mutex_trylock. There is no pthread_mutex_clocklock.
// Waits for a line, then takes a lock a thousand times while it is free, and five times while another
// thread has it. Prints how often it was taken, and how often a thread slept for it. Ends with its
// input.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORD(lock) ((int *)(lock))

__attribute__((noinline)) int pthread_mutex_trylock(pthread_mutex_t *lock)
{
	return __sync_bool_compare_and_swap(WORD(lock), 0, 1) ? 0 : EBUSY;
}

__attribute__((noinline)) int pthread_mutex_timedlock(pthread_mutex_t *lock, const struct timespec *time)
{
	if (pthread_mutex_trylock(lock) == 0)
		return 0;
	while (__sync_lock_test_and_set(WORD(lock), 2) != 0)
		syscall(SYS_futex, WORD(lock), FUTEX_WAIT_PRIVATE, 2, time, NULL, 0);
	return 0;
}

__attribute__((noinline)) int pthread_mutex_lock(pthread_mutex_t *lock)
{
	return pthread_mutex_timedlock(lock, NULL);
}

__attribute__((noinline)) int pthread_mutex_unlock(pthread_mutex_t *lock)
{
	if (__sync_lock_test_and_set(WORD(lock), 0) == 2)
		syscall(SYS_futex, WORD(lock), FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return 0;
}

static pthread_mutex_t shared;

static void *other(void *unused)
{
	pthread_mutex_lock(&shared);
	pthread_mutex_unlock(&shared);
	return unused;
}

int main(void)
{
	pthread_t thread;

	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&shared);
		pthread_mutex_unlock(&shared);
	}
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&shared);
		pthread_create(&thread, NULL, other, NULL);
		while (*(volatile int *)WORD(&shared) != 2)
			usleep(1000);
		usleep(20000);
		pthread_mutex_unlock(&shared);
		pthread_join(thread, NULL);
	}
	printf("pid %d\nacquired 1010\nslept 5\n", getpid());
	fflush(stdout);
	getchar();
	return 0;
}
