"""The HTTP server of a review, on this machine alone.

Other people on the machine, and other pages in the browser, must not read the data or decide on labels. So the server
listens on 127.0.0.1 only, and

- every path begins with a random token. Any other path gets 403, without a hint.
- the `Host` header must name this address. A page whose name was redirected to 127.0.0.1 has another one.
- a POST must have JSON as its content type, which a form of another page cannot send, and no foreign `Origin`.
- the page may load and send nothing except from and to this server (`POLICY`), and no other page may embed it.
"""

import hmac
import json
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tnlpad.json_text import parse_json
from tnlpad.records.store import RecordError
from tnlpad.review.routes import JSON, Answer, BadRequest, Query, Routes
from tnlpad.review.session import HOST

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
MAX_BODY_BYTES = 1 << 20
MAX_DISCARDED_BYTES, READ_BYTES = 1 << 26, 1 << 16
MAX_FIELDS = 10  # of a query
IDLE_SECONDS = 120  # after which a connection without requests is closed
MAX_WAITING_CONNECTIONS = 64


class ReviewServer(ThreadingHTTPServer):
    """Serves one review.

    Args:
        port: The port; 0 for any that is free.
        token: First part of every path.
        routes: Answers the requests.
        warn: Called with a sentence if a request fails unexpectedly.

    Raises:
        OSError: The port is not free.
    """

    daemon_threads = True
    request_queue_size = MAX_WAITING_CONNECTIONS

    def __init__(self, port: int, token: str, routes: Routes, warn: Callable[[str], None]) -> None:
        super().__init__((HOST, port), _Handler)
        self.token, self.routes, self.warn = token, routes, warn
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def server_bind(self) -> None:
        """Bind the port, without the reverse lookup of the host's name that `HTTPServer` makes."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.socket.getsockname()[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away is no error, and `_Handler` reports all others."""


class _Refused(Exception):
    """A request is refused with this answer, and its connection is closed."""

    def __init__(self, status: int, reason: str | None = None) -> None:
        super().__init__(reason)
        self.answer = Answer(status=status) if reason is None else _error(status, reason)


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tnlpad", ""
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def _respond(self, answer: Callable[[], Answer]) -> None:
        try:
            found = answer()
        except _Refused as refused:
            found = refused.answer
            self._discard_body()
            self.close_connection = True
        except BadRequest as error:
            found = _error(400, str(error))
        except RecordError as error:
            found = _error(503, str(error))
        except (ConnectionError, TimeoutError):  # the client is gone
            self.close_connection = True
            return
        except Exception as error:
            self.server.warn(f"A request failed: {error!r}.")
            found = _error(500, f"The server failed: {error!r:.200}.")
        self._send(found)

    def _get(self) -> Answer:
        path, query = self._path()
        answer = self.server.routes.get(path, query)
        return _error(404, "There is nothing at this address.") if answer is None else answer

    def _post(self) -> Answer:
        path, _ = self._path()
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.server.hosts}:
            raise _Refused(403)
        if self.headers.get_content_type() != JSON:
            raise _Refused(415, "Send JSON, with the content type application/json.")
        answer = self.server.routes.post(path, self._document())
        return _error(404, "There is nothing at this address.") if answer is None else answer

    def _path(self) -> tuple[str, Query]:
        """Return the path after the token and the query, if the request comes from a page of ours."""
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            raise _Refused(403)
        parts = urlsplit(self.path)
        _, token, *rest = parts.path.split("/", 2) if parts.path.startswith("/") else ("", "", "")
        if parts.netloc or not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            raise _Refused(403)
        if not rest:
            raise _Refused(404)
        try:
            fields = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except ValueError as error:
            raise _Refused(400, f"A query may have {MAX_FIELDS} fields.") from error
        return unquote(rest[0]), dict(fields)

    def _document(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            raise _Refused(411, "Send the length of the content.")
        if int(length[:20]) > MAX_BODY_BYTES:
            raise _Refused(413, f"The content has {length[:20]} bytes. At most {MAX_BODY_BYTES} are allowed.")
        content = self.rfile.read(int(length))
        if len(content) < int(length):
            raise ConnectionError("the client is gone")
        try:
            return parse_json(content)
        except ValueError as error:
            raise BadRequest(f"The content is not JSON: {error}.") from error

    def _discard_body(self) -> None:
        """Read the body of a refused request: a client that cannot send it would not read the answer."""
        length = self.headers.get("Content-Length", "")
        left = min(int(length[:20]), MAX_DISCARDED_BYTES) if length.isascii() and length.isdigit() else 0
        with suppress(ConnectionError, TimeoutError):
            while left > 0 and (part := self.rfile.read(min(left, READ_BYTES))):
                left -= len(part)

    def _send(self, answer: Answer) -> None:
        with suppress(ConnectionError, TimeoutError):
            self.send_response(answer.status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.send_header("Cache-Control", answer.cache)
            if answer.content:
                self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.content)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(answer.content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is not HTTP, or has another method."""
        self.close_connection = True
        self._send(Answer(status=code))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the address has the token."""


def _error(status: int, reason: str) -> Answer:
    return Answer(content=json.dumps({"error": reason}).encode(), status=status)
