/* Templates and exceptions.
 *
 * In: any word, the number of rounds, and the limit of the first phase in milliseconds. Out: lines
 * `chain ID NAME...`, innermost first, one for each call of `leaf`, which closes the descriptor
 * 1000000 + ID, which is not open.
 * Guarantee: `leaf` is called below all levels, in destructors while an exception passes, and where
 * it is caught. Calls with id 0 come first, until SIGUSR1. */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

static std::vector<std::string> active;
static long next_id;
static volatile sig_atomic_t is_warm;

extern "C" __attribute__((noinline)) long leaf(long id) {
    if (id) {
        std::string line = "chain " + std::to_string(id);
        for (auto name = active.rbegin(); name != active.rend(); ++name)
            line += " " + *name;
        puts(line.c_str());
    }
    return syscall(SYS_close, 1000000 + id) + 1;
}

template <int N> struct Guard {
    char bytes[N * 24 + 8];
    Guard() { active.push_back("level<" + std::to_string(N) + ">"); }
    __attribute__((noinline)) ~Guard() {
        active.push_back("Guard<" + std::to_string(N) + ">");
        __asm__ volatile("" : : "r"(bytes), "r"(leaf(++next_id)) : "memory");
        active.pop_back();
        active.pop_back();
    }
};

template <int N, typename T> __attribute__((noinline)) T level(T value) {
    Guard<N> guard;
    __asm__ volatile("" : : "r"(guard.bytes) : "memory");
    if constexpr (N == 0) {
        value += leaf(++next_id);
        throw value;
    } else if constexpr (N % 3 == 0) {
        try {
            return level<N - 1>(value) + 1;
        } catch (const T &caught) {
            value += caught + leaf(++next_id);
            if (value < 1000000)
                throw;
        }
        return value;
    } else {
        return level<N - 1>(value) + 1;
    }
}

static void on_warm(int signal) { is_warm = signal; }

int main(int count, char **arguments) {
    if (count < 4)
        return 1;
    signal(SIGUSR1, on_warm);
    for (int ms = atoi(arguments[3]); ms > 0 && !is_warm; ms--) {
        __asm__ volatile("" : : "r"(leaf(0)));
        usleep(1000);
    }
    for (int round = atoi(arguments[2]); round > 0; round--) {
        try {
            level<8>(round);
        } catch (int caught) {
            leaf(++next_id);
        }
    }
}
