"""Runs statements in SQLite. Argument: the file of a new database."""

import sqlite3
import sys
import time

print("ready", flush=True)
sys.stdin.readline()
connection = sqlite3.connect(sys.argv[1])
connection.execute("create table t (id integer primary key, n int)")
with connection:
    for i in range(500):
        connection.execute("insert into t values (?, ?)", (i, i % 50))
rows = 0
for i in range(20):
    rows += len(connection.execute("select id from t where n < ?", (i,)).fetchall())
spent = 0
for i in range(5):
    start = time.perf_counter_ns()
    connection.execute("select count(*) from t a, t b where a.n < b.n + ?", (i,)).fetchone()
    spent += time.perf_counter_ns() - start
print("rows", rows)
print("spent_ns", spent)
