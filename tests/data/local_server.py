"""A web server on this machine that misbehaves on demand."""

import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Behaviour:
    """What the server holds and how it treats requests; `requests` records what was asked."""

    def __init__(self, files):
        self.files = files
        self.ranges = True  # whether it honours Range
        self.cut_after = []  # each request takes one entry: so many bytes, then the connection ends
        self.announce = True  # whether it says how long the file is
        self.redirect = {}
        self.status = {}
        self.shift = 0  # a Range is answered from so many bytes further on
        self.stall = None  # an Event to wait for in the middle of a file
        self.requests = []


def _handler(behaviour):
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            with suppress(BrokenPipeError, ConnectionResetError):  # whoever asked has gone
                self.answer()

        def answer(self):
            name = self.path.lstrip("/")
            wanted = self.headers.get("Range")
            behaviour.requests.append((name, wanted))
            if name in behaviour.status:
                self.send_error(behaviour.status[name])
                return
            if name in behaviour.redirect:
                self.send_response(302)
                self.send_header("Location", behaviour.redirect[name])
                self.end_headers()
                return
            if name not in behaviour.files:
                self.send_error(404)
                return
            self.send_file(behaviour.files[name], wanted)

        def send_file(self, content, wanted):
            start = 0
            if wanted and behaviour.ranges:
                start = int(wanted.removeprefix("bytes=").split("-")[0]) + behaviour.shift
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            body = content[start:]
            if behaviour.announce:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if behaviour.cut_after:
                body = body[: behaviour.cut_after.pop(0)]
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if behaviour.stall is not None:
                behaviour.stall.wait(20)
            self.wfile.write(body[len(body) // 2 :])

    return Handler


@contextmanager
def serving(files):
    """The base address of a server with these files, and its behaviour."""
    behaviour = Behaviour(files)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(behaviour))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", behaviour
    finally:
        server.shutdown()
        server.server_close()
