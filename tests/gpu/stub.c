// Two libraries with functions of CUDA's names, which sleep or compute instead of a GPU: with
// -DRUNTIME libcudart, whose functions call those of libcuda, as CUDA's do.
#define _GNU_SOURCE
#include <stddef.h>
#include <time.h>

#ifdef RUNTIME
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuMemcpyHtoD_v2(unsigned long long, const void *, size_t);
int cuMemcpyHtoDAsync_v2(unsigned long long, const void *, size_t, void *);
int cuStreamSynchronize(void *);
int cuCtxSynchronize(void);

struct dimensions { unsigned x, y, z; };

int cudaLaunchKernel(const void *kernel, struct dimensions grid, struct dimensions block, void **args, size_t shared, void *stream) {
    (void)shared;
    return cuLaunchKernel((void *)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream, args, NULL);
}
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    (void)kind;
    return cuMemcpyHtoD_v2((unsigned long long)to, from, bytes);
}
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    (void)kind;
    return cuMemcpyHtoDAsync_v2((unsigned long long)to, from, bytes, stream);
}
int cudaStreamSynchronize(void *stream) { return cuStreamSynchronize(stream); }
int cudaDeviceSynchronize(void) { return cuCtxSynchronize(); }
// Not a copy.
int cudaGraphAddMemcpyNode(void) { return 0; }
#else
static void rest(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time)) {}
}

int cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared, void *stream, void **args, void **more) {
    (void)kernel, (void)x, (void)y, (void)z, (void)a, (void)b, (void)c, (void)shared, (void)stream, (void)args, (void)more;
    return 0;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes) {
    (void)to, (void)from, (void)bytes;
    rest(5000);
    return 0;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
    (void)to, (void)from, (void)bytes, (void)stream;
    return 0;
}
int cuStreamSynchronize(void *stream) {
    (void)stream;
    rest(10000);
    return 0;
}
// As CUDA's by default: it asks the GPU again and again until it is done.
int cuCtxSynchronize(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long end = now.tv_sec * 1000000000 + now.tv_nsec + 10000000;
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec * 1000000000 + now.tv_nsec < end);
    return 0;
}
#endif
