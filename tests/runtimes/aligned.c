// Allocates memory by the functions for aligned memory, keeps a part of it, and says how much.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

static void *kept[32];
static int count;
static long bytes;

static void keep(void *block, long size) {
    kept[count++] = block;
    bytes += size;
}

__attribute__((noinline)) static void allocate(void) {
    void *block;
    for (int i = 0; i < 5; i++) {
        if (posix_memalign(&block, 64, 30000 + i) == 0) keep(block, 30000 + i);
    }
    for (int i = 0; i < 3; i++) keep(valloc(40000), 40000);
    for (int i = 0; i < 2; i++) keep(pvalloc(40000), 40000);
    for (int i = 0; i < 2; i++) keep(memalign(32, 42000), 42000);
    for (int i = 0; i < 4; i++) keep(aligned_alloc(64, 43008), 43008);
    for (int i = 0; i < 6; i++) {
        if (posix_memalign(&block, 128, 50000) == 0) free(block);
    }
    // An alignment that is no power of two is an error, without a block.
    block = NULL;
    if (posix_memalign(&block, 24, 60000) == 0) free(block);
}

int main(void) {
    puts("ready");
    fflush(stdout);
    getchar();
    allocate();
    printf("kept %d\nkept_bytes %ld\n", count, bytes);
    return kept[count - 1] == NULL;
}
