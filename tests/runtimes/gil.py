"""Holds the GIL for a long call while another thread wants it, then collects garbage seven times."""

import gc
import sys
import threading
import time

gc.disable()
kept = [[] for _ in range(100000)]
is_over = False


def wants():
    while not is_over:
        time.sleep(0.001)


other = threading.Thread(target=wants)
other.start()
print("ready", flush=True)
sys.stdin.readline()
before = gc.get_stats()[2]["collections"]
longest = 0
for _ in range(5):
    start = time.perf_counter_ns()
    # One call into C code, which does not give up the lock.
    sum(range(3000000))
    longest = max(longest, time.perf_counter_ns() - start)
    time.sleep(0.005)
is_over = True
other.join()
collected = 0
for _ in range(7):
    start = time.perf_counter_ns()
    gc.collect()
    collected += time.perf_counter_ns() - start
print("longest_ns", longest)
print("collected_ns", collected)
print("collections", gc.get_stats()[2]["collections"] - before, flush=True)
