"""A review that is served in this process, and a client that speaks to it as a browser would, or as an attacker."""

import http.client
import json
from contextlib import contextmanager
from threading import Thread
from urllib.parse import urlsplit

import numpy as np

from tnlpad.records.store import RunFolder
from tnlpad.review.opened import open_review
from tnlpad.suspects.listing import rank_run


class Client:
    def __init__(self, address):
        parts = urlsplit(address)
        self.port, self.token = parts.port, parts.path.strip("/")

    def request(self, method, path, body=None, headers=None, token=None):
        """Return status, headers and content of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            address = f"/{self.token if token is None else token}/{path}"
            connection.request(method, address, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path):
        status, _, content = self.request("GET", path)
        assert status == 200, (status, content)
        return content

    def document(self, path):
        return json.loads(self.get(path))

    def post(self, path, document, **headers):
        """Return status and document of the answer."""
        body = document if isinstance(document, (bytes, str)) else json.dumps(document)
        status, _, content = self.request("POST", path, body, {"Content-Type": "application/json"} | headers)
        return status, json.loads(content) if content else None

    def decide(self, at, choice, label=None, key=None):
        """Store one decision and return the version."""
        entry = {"at": at, "choice": choice, "label": label, "key": key or f"{at} {choice} {label}"}
        status, answer = self.post("decide", {"decisions": [entry]})
        assert status == 200, answer
        return answer["version"]

    def columns(self):
        samples, content = self.document("about")["samples"], self.get("columns")
        kinds = {"given": "<u4", "suggested": "<u4", "confidence": "<f4", "row": "<u4", "part": "u1"}
        found, start = {}, 0
        for name, kind in kinds.items():
            found[name] = np.frombuffer(content, kind, samples, start)
            start += found[name].nbytes
        assert start == len(content)
        return found


@contextmanager
def served(folder, **options):
    """Serve the review of a run folder; yield a client, whose `review` is the open review."""
    said = []
    with open_review(rank_run(RunFolder(folder)), warn=said.append, **options) as review:
        thread = Thread(target=review.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            client = Client(review.address)
            client.review, client.said = review, said
            yield client
        finally:
            review.server.shutdown()
            thread.join()
