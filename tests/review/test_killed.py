"""A real server process that is killed in the middle of decisions, and one that ends as asked."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from tests.cli.trained import asked
from tests.review.served import Client, served
from tests.suspects.made import made_run


@pytest.fixture
def folder(tmp_path):
    made_run(tmp_path / "runs" / "somewhere", samples=2000)
    return tmp_path / "runs" / "somewhere"


@contextmanager
def started(folder, *words):
    """Start `tnlpad review`; yield its process and a client."""
    command = [sys.executable, "-m", "tnlpad", "review", str(folder), "--no-browser", *words]
    environment = os.environ | {"COLUMNS": "200"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), process.stderr.read()
        yield process, Client(address)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def log_of(folder):
    return [json.loads(line) for line in (folder / "review" / "review.jsonl").read_bytes().splitlines()]


def table_of(folder):
    with open(folder / "review" / "review.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def decide_until_killed(client, worker, acknowledged, some):
    """Decide on other samples than all other workers until the server is gone."""
    for turn in range(400):
        at, key = 5 * turn + worker, f"{worker} {turn}"
        entries = [{"at": at, "choice": "given", "label": None, "key": key}]
        try:
            status, _ = client.post("decide", {"decisions": entries})
        except (OSError, ValueError, EOFError):
            return
        assert status == 200
        acknowledged[key] = at
        if len(acknowledged) > 40:
            some.set()


def test_a_killed_server_has_kept_what_it_acknowledged(folder):
    acknowledged, some = {}, Event()
    with started(folder) as (process, client):
        workers = [
            Thread(target=decide_until_killed, args=(Client(f"http://127.0.0.1:{client.port}/{client.token}/"), *each))
            for each in ((worker, acknowledged, some) for worker in range(5))
        ]
        for each in workers:
            each.start()
        some.wait(60)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for each in workers:
            each.join()
    assert len(acknowledged) > 40
    with open(folder / "review" / "review.jsonl", "ab") as file:
        file.write(b'{"key": "half')
    with started(folder) as (process, again):
        assert (again.port, again.token) == (client.port, client.token)
        kept = {line["key"] for line in log_of(folder)}
        assert acknowledged.keys() <= kept
        # Each worker may have one decision on disk whose answer was lost. It sends that again.
        assert len(kept) <= len(acknowledged) + 5
        entries = [{"at": at, "choice": "given", "label": None, "key": key} for key, at in acknowledged.items()]
        assert again.post("decide", {"decisions": entries})[0] == 200
        assert len(log_of(folder)) == len(kept)
        assert {row["id"] for row in table_of(folder)} == {line["id"] for line in log_of(folder)}
        found = again.document("decisions?since=0")["decisions"]
        assert {each["at"] for each in found} >= set(acknowledged.values())
        assert len(found) == len(kept)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_asked_to_end_says_what_to_do_next(folder, number):
    with started(folder) as (process, client):
        for at in range(3):
            client.decide(at, "exclude")
        with socket.create_connection(("127.0.0.1", client.port)) as waiting:  # a tab must not hold it up
            request = f"GET /{client.token}/decisions?since=4&wait=30 HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n\r\n"
            waiting.sendall(request.encode())
            process.send_signal(number)
            out, said = process.communicate(timeout=60)
        assert process.returncode == 0
    table = folder / "review" / "review.csv"
    assert out == ""  # after the address
    assert f"3 decisions: {table}" in said
    assert f"tnlpad clean {folder} --out cleaned.csv" in said
    assert len(table_of(folder)) == 3


def test_a_second_server_of_a_run_is_refused(folder):
    with served(folder) as client:
        result = asked("review", folder, "--no-browser")
    assert (result.exit_code, result.stdout) == (3, "")
    assert client.review.address in result.stderr


def test_a_port_that_is_taken_is_named(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = asked("review", folder, "--no-browser", "--port", port)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--port {port}" in result.stderr
