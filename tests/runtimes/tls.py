"""Sends and receives by TLS over the loopback device. Argument: a directory for key and certificate."""

import socket
import ssl
import subprocess
import sys
import threading

directory = sys.argv[1]
files = ["-keyout", f"{directory}/key", "-out", f"{directory}/cert"]
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, "-subj", "/CN=localhost"], check=True, capture_output=True)
ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
ours.load_cert_chain(f"{directory}/cert", f"{directory}/key")
theirs = ssl.create_default_context()
theirs.check_hostname, theirs.verify_mode = False, ssl.CERT_NONE
listener = socket.create_server(("127.0.0.1", 0))
received = 0


def serve():
    global received
    for _ in range(3):
        connection = ours.wrap_socket(listener.accept()[0], server_side=True)
        while data := connection.recv(20000):
            received += len(data)
            connection.sendall(b"x" * 10)


print("ready", flush=True)
sys.stdin.readline()
server = threading.Thread(target=serve)
server.start()
sent = answered = 0
for _ in range(3):
    with theirs.wrap_socket(socket.create_connection(listener.getsockname())) as connection:
        for _ in range(40):
            connection.sendall(b"y" * 1000)
            sent += 1000
            answered += len(connection.recv(100))
server.join()
print("sent", sent + answered)
print("received", received + answered)
