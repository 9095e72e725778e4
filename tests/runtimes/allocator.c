// An allocator whose functions call each other, as musl's and tcmalloc's do, and a program that uses
// it, keeps a part of the memory, and says how much.
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Alignas(4096) char memory[16 << 20];
static size_t used;

// Blocks are not used again. Each begins with its size.
__attribute__((noinline)) void *malloc(size_t size) {
    size_t *block = (size_t *)(memory + used);
    used += (size + 63) / 64 * 64 + 64;
    *block = size;
    return (char *)block + 64;
}
__attribute__((noinline)) void free(void *block) { __asm__ volatile("" : : "r"(block)); }
__attribute__((noinline)) void *calloc(size_t count, size_t size) {
    void *block = malloc(count * size);
    return memset(block, 0, count * size);
}
__attribute__((noinline)) void *aligned_alloc(size_t alignment, size_t size) {
    char *block = malloc(size + alignment);
    return block + alignment - (size_t)block % alignment;
}
__attribute__((noinline)) int posix_memalign(void **place, size_t alignment, size_t size) {
    *place = aligned_alloc(alignment, size);
    return *place == NULL;
}
// Without a size it is free, but does not call it.
__attribute__((noinline)) void *realloc(void *old, size_t size) {
    if (old == NULL) return malloc(size);
    if (size == 0) return NULL;
    void *block = malloc(size);
    memcpy(block, old, size < 100 ? size : 100);
    free(old);
    return block;
}

int main(void) {
    char line[128];
    void *block;
    long calls = 0, bytes = 0, frees = 0, kept = 0, kept_bytes = 0;
    if (write(1, "ready\n", 6) != 6 || read(0, line, sizeof line) <= 0) return 1;
    for (int i = 0; i < 7; i++) {
        long size = 30000 + i;
        block = calloc(2, size);
        kept++, kept_bytes += 2 * size;
        if (posix_memalign(&block, 256, size) != 0) return 1;
        kept++, kept_bytes += size;
        if (posix_memalign(&block, 512, size) != 0) return 1;
        free(block);
        block = realloc(NULL, size);
        block = realloc(block, 2 * size);
        kept++, kept_bytes += 2 * size;
        calls += 5, bytes += 7 * size, frees++;
    }
    for (int i = 0; i < 3; i++) {
        // One is made too small for the filter, the other is gone.
        block = realloc(malloc(40000), 100);
        block = realloc(malloc(40000), 0);
        calls += 2, bytes += 80000;
    }
    for (int i = 0; i < 2000; i++) block = calloc(1, 1000);
    int size = snprintf(line, sizeof line, "calls %ld\nbytes %ld\nfrees %ld\nkept %ld\nkept_bytes %ld\n", calls, bytes, frees, kept, kept_bytes);
    if (write(1, line, size) != size) return 1;
    return read(0, line, sizeof line) != 0;
}
