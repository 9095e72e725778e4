#define _GNU_SOURCE
// Launches work on a GPU and waits for it, ROUNDS times, with the libraries of stub.c; prints how
// often and how long by its own clock.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct dimensions { unsigned x, y, z; };
int cudaLaunchKernel(const void *, struct dimensions, struct dimensions, void **, size_t, void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
int cudaStreamSynchronize(void *);
int cudaDeviceSynchronize(void);
int cudaGraphAddMemcpyNode(void);

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void compute(long ns) {
    for (long end = now_ns() + ns; now_ns() < end;) {}
}

__attribute__((noinline)) void launch_one(void) {
    struct dimensions one = {1, 1, 1};
    cudaLaunchKernel((void *)now_ns, one, one, NULL, 0, NULL);
    __asm__ volatile("");
}

__attribute__((noinline)) void launch_many(int launches) {
    for (int i = 0; i < launches; i++) launch_one();
    __asm__ volatile("");
}

static int rounds;
static long stream_ns, device_ns, copy_ns, work_ns, life_ns;

static void *trainer(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "trainer");
    static char buffer[4096];
    long born = now_ns();
    for (int i = 0; i < rounds; i++) {
        cudaMemcpyAsync(buffer, buffer, 1000, 1, NULL);
        cudaGraphAddMemcpyNode();
        long begin = now_ns();
        launch_many(3);
        compute(2000000);
        long before = now_ns();
        cudaStreamSynchronize(NULL);
        long end = now_ns();
        stream_ns += end - before;
        work_ns += end - begin;
        before = now_ns();
        launch_many(1);
        cudaDeviceSynchronize();
        end = now_ns();
        device_ns += end - before;
        work_ns += end - before;
        cudaMemcpy(buffer, buffer, 4096, 2);
        copy_ns += now_ns() - end;
    }
    life_ns = now_ns() - born;
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc;
    rounds = atoi(argv[1]);
    puts("ready");
    fflush(stdout);
    getchar();
    pthread_t thread;
    if (pthread_create(&thread, NULL, trainer, NULL) || pthread_join(thread, NULL)) return 1;
    printf("rounds %d\nlaunches %d\nstream_ns %ld\ndevice_ns %ld\ncopy_ns %ld\nwork_ns %ld\nlife_ns %ld\n", rounds, 4 * rounds,
           stream_ns, device_ns, copy_ns, work_ns, life_ns);
    printf("asynchronous_bytes %d\nbytes %d\nwaiting_ns %ld\n", 1000 * rounds, 4096 * rounds, stream_ns + device_ns + copy_ns);
    return 0;
}
