/* A library with one function, NAME, whose frame has SIZE bytes.
 *
 * In: a function, and its argument. Out: a call of it. */
long NAME(long (*function)(long), long argument) {
    char array[SIZE];
    long result;
    __asm__ volatile("" : : "r"(array) : "memory");
    result = function(argument);
    __asm__ volatile("" : : "r"(array) : "memory");
    return result;
}
