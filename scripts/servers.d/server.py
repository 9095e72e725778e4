"""A threaded HTTP/1.1 server that answers after SECONDS; /count returns the number of requests so far.

Arguments: PORT SECONDS [locked]. `locked`: one request at a time, by a lock.
"""

import contextlib
import http.server
import sys
import threading
import time

SECONDS = float(sys.argv[2])
lock = threading.Lock()
gate = threading.Lock() if sys.argv[3:] == ["locked"] else contextlib.nullcontext()
count = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise an answer in two segments waits for the client's delayed acknowledgement.
    disable_nagle_algorithm = True

    def do_GET(self):
        global count
        with lock:
            count += 1
            body = str(count).encode()
        if self.path != "/count":
            with gate:
                time.sleep(SECONDS)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
