"""The servers that scripts/servers starts, with their clients and their own counts of requests.

In: nginx, Redis, PostgreSQL, Node.js, Java, wrk and the other clients from PATH; a directory per server.
Out: SERVERS. Guarantee: each server has its own loopback port, and keeps all its files in its directory.
"""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
CLIENTS = 8
# Service time in seconds of the servers that let us choose it: far more than the client's own work per request.
SERVICE = 0.005


class Server:
    """A server, the client that loads it, and its own count of requests."""

    name = ""
    uid = None
    # The system call in which workers wait for the one lock.
    waits_in = "futex"

    def __init__(self, directory):
        self.directory = Path(directory)
        self.process = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def run(self, command, **options):
        log = open(self.directory / "log", "ab")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, user=self.uid, group=self.uid, **options
        )

    def start(self):
        raise NotImplementedError

    def wait_until_it_answers(self):
        for _ in range(600):
            try:
                self.count()
                return
            except (OSError, ValueError, subprocess.CalledProcessError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        sys.exit(f"{self.name} does not answer:\n{(self.directory / 'log').read_text()}")

    def stop(self):
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGTERM)
                self.process.wait(20)
            except ProcessLookupError:
                pass
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def pids(self):
        """PIDs of the server: all processes of its session."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:
                found.append(entry.parent.name)
        return found

    def count(self):
        """Requests so far, from the server's statistics; may include this query."""
        return int(self.get("/count"))

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return answer.read().decode()

    def client(self, seconds):
        return ["wrk", "-t1", f"-c{CLIENTS}", f"-d{seconds}s", "--timeout", "10s", f"http://127.0.0.1:{self.port}/"]

    def client_says(self, text):
        """Requests per second and mean latency in milliseconds, as reported by the client."""
        latency = re.search(r"Latency\s+([\d.]+)(us|ms|s)\b", text)
        rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
        return float(rate[1]), float(latency[1]) * {"us": 0.001, "ms": 1, "s": 1000}[latency[2]]


class Nginx(Server):
    name = "nginx"

    def start(self):
        # The rate limit delays requests in the server, which gives it a latency of its own.
        (self.directory / "nginx.conf").write_text(f"""
daemon off; worker_processes 2; pid {self.directory}/pid; error_log {self.directory}/log; user nobody nogroup;
events {{}}
http {{
  access_log off; keepalive_requests 1000000; limit_req_zone $server_addr zone=all:1m rate=800r/s;
  client_body_temp_path {self.directory}/b; proxy_temp_path {self.directory}/p; fastcgi_temp_path {self.directory}/f;
  uwsgi_temp_path {self.directory}/u; scgi_temp_path {self.directory}/s;
  server {{
    listen 127.0.0.1:{self.port};
    location /count {{ stub_status; }}
    location / {{ root {self.directory}/www; limit_req zone=all burst=100; }}
  }}
}}
""")
        (self.directory / "www").mkdir()
        (self.directory / "www/index.html").write_text("hello\n")
        self.directory.chmod(0o755)
        self.run(["nginx", "-c", str(self.directory / "nginx.conf"), "-p", str(self.directory)])

    def count(self):
        return int(re.search(r"\n\s*\d+ \d+ (\d+)", self.get("/count"))[1])


class Redis(Server):
    name = "redis"

    def start(self):
        self.run(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.directory)])

    def count(self):
        command = ["redis-cli", "-p", str(self.port), "info", "stats"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return int(re.search(r"total_commands_processed:(\d+)", text)[1])

    def client(self, seconds):
        # Adds work to the server's only thread. The client takes a number of requests, not a time, so a short run
        # determines the rate first.
        work = "local n = 0; for i = 1, 150000 do n = n + i % 7 end; return n"
        command = lambda requests: ["redis-benchmark", "-p", str(self.port), "-c", str(CLIENTS), "-n", str(requests), "--csv", "eval", work, "0"]
        rate, _ = self.client_says(subprocess.run(command(500), capture_output=True, text=True, check=True).stdout)
        return command(round(rate * seconds * 1.1))

    def client_says(self, text):
        fields = text.strip().splitlines()[-1].rsplit(",", 7)
        return float(fields[1].strip('"')), float(fields[2].strip('"'))


class PostgreSQL(Server):
    name = "postgresql"

    def start(self):
        user = pwd.getpwnam("postgres")
        self.uid = user.pw_uid
        self.bin = Path(shutil.which("postgres", path=":".join(map(str, Path("/usr/lib/postgresql").glob("*/bin"))))).parent
        self.directory.parent.chmod(0o755)
        os.chown(self.directory, user.pw_uid, user.pw_gid)
        self.data = self.directory / "data"
        command = [str(self.bin / "initdb"), "-D", str(self.data), "-A", "trust", "-N"]
        subprocess.run(command, check=True, capture_output=True, user=self.uid, cwd=self.directory)
        settings = f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n"
        settings += "shared_preload_libraries = 'pg_stat_statements'\nfsync = off\n"
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.write(settings)
        self.run([str(self.bin / "postgres"), "-D", str(self.data)], cwd=self.directory)
        for _ in range(300):
            try:
                self.query("create extension if not exists pg_stat_statements")
                return
            except subprocess.CalledProcessError:
                time.sleep(0.1)

    def pids(self):
        # Each of its processes has its own session.
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [str(self.process.pid), *children]

    def query(self, text):
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-Atc", text]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def count(self):
        return int(self.query("select coalesce(sum(calls), 0) from pg_stat_statements where query like '%pg_sleep%' and query not like '%calls%'"))

    def client(self, seconds):
        script = self.directory / "script.sql"
        script.write_text(f"select pg_sleep({SERVICE});\n")
        return ["pgbench", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-n", "-c", str(CLIENTS), "-T", str(seconds), "-f",
                str(script), "postgres"]

    def client_says(self, text):
        rate, latency = re.search(r"tps = ([\d.]+)", text), re.search(r"latency average = ([\d.]+) ms", text)
        return float(rate[1]), float(latency[1])


class Python(Server):
    name = "python"

    def start(self):
        self.run([sys.executable, str(SOURCES / "server.py"), str(self.port), str(SERVICE)])


class Node(Server):
    name = "node"

    def start(self):
        self.run(["node", str(SOURCES / "server.js"), str(self.port), str(SERVICE)])


class Java(Server):
    name = "java"

    def start(self):
        command = ["java", "-Xmx256m", "-Dsun.net.httpserver.nodelay=true", str(SOURCES / "Server.java"), str(self.port), str(SERVICE)]
        self.run(command, cwd=self.directory)


class LockedPython(Python):
    """Threads that share one `threading.Lock`."""

    name = "python, one lock"

    def start(self):
        self.run([sys.executable, str(SOURCES / "server.py"), str(self.port), str(SERVICE), "locked"])


class LockedJava(Java):
    """A pool that shares one monitor."""

    name = "java, one monitor"

    def start(self):
        command = ["java", "-Xmx256m", "-Dsun.net.httpserver.nodelay=true", str(SOURCES / "Server.java"), str(self.port), str(SERVICE), "locked"]
        self.run(command, cwd=self.directory)


class LockedMusl(Server):
    """Threads that share one mutex of musl."""

    name = "musl, one mutex"
    compiler = ["musl-gcc"]

    def start(self):
        program = self.directory / "server"
        subprocess.run([*self.compiler, "-O2", "-pthread", "-o", str(program), str(SOURCES / "server.c")], check=True)
        self.run([str(program), str(self.port), str(round(SERVICE * 1e6))])


class LockedStaticMusl(LockedMusl):
    name = "musl, static, one mutex"
    compiler = ["musl-gcc", "-static"]


class LockedStatic(LockedMusl):
    """The same with glibc in the program's own file."""

    name = "glibc, static, one mutex"
    compiler = ["cc", "-static"]


class LockedPostgreSQL(PostgreSQL):
    """Clients that update one row. The wait is for an event that the holder sends."""

    name = "postgresql, one row"
    waits_in = "epoll_wait"

    def start(self):
        super().start()
        self.query("create table work (done int)")
        self.query("insert into work values (0)")

    def client(self, seconds):
        command = super().client(seconds)
        (self.directory / "script.sql").write_text(f"begin;\nupdate work set done = done + 1;\nselect pg_sleep({SERVICE});\ncommit;\n")
        return command


SERVERS = [Nginx, Redis, PostgreSQL, Python, Node, Java]
# Eight workers, of which one works and seven wait for a lock.
LOCKED = [LockedPython, LockedJava, LockedMusl, LockedStaticMusl, LockedStatic, LockedPostgreSQL]
