"""A child program as bad as it is told to be: `fake_server.py BEHAVIOUR PID_FILE [server arguments]`.

Understands the arguments of the real one; writes its own pid to PID_FILE.
"""

import http.server
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: object) -> None:
        pass


def serve() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("fake model loaded", file=sys.stderr, flush=True)
    say(event="ready", url=f"http://127.0.0.1:{server.server_address[1]}")


def until_stdin_ends() -> None:
    while os.read(0, 100):
        pass


behaviour, pid_file = sys.argv[1:3]
Path(pid_file + ".part").write_text(str(os.getpid()))
Path(pid_file + ".part").rename(pid_file)  # whoever sees the file sees the whole number
match behaviour:
    case "good":
        serve()
        until_stdin_ends()
    case "ignores-term-and-stdin":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        serve()
        time.sleep(600)
    case "never-ready":
        print("still loading", file=sys.stderr, flush=True)
        time.sleep(600)
    case "never-healthy":
        Handler.status = 503
        serve()
        time.sleep(600)
    case "dies-at-once":
        print("\x1b[31mggml: illegal instruction\x1b[0m", file=sys.stderr, flush=True)
        os._exit(7)
    case "prints-garbage":
        print("Welcome to the llama!", flush=True)
        time.sleep(600)
    case "prints-without-end":
        while True:
            os.write(1, b"x" * 4096)
    case "logs-without-end":
        serve()
        while True:
            os.write(2, b"noise " * 100 + b"\n")
    case "reports-error":
        print("the reason is here", file=sys.stderr, flush=True)
        say(event="error", kind="start", message="llama.cpp did not start: bad weights")
        sys.exit(1)
    case "shows-environment":
        print("environment", json.dumps(dict(os.environ)), file=sys.stderr, flush=True)
        sys.exit(1)
    case "forever-elsewhere":
        say(event="ready", url="http://192.0.2.1:80")
        time.sleep(600)
    case unknown:
        sys.exit(f"no behaviour {unknown}")
