import http.client
import json
import os
import shlex
import socket
import stat
from threading import Thread

import numpy as np
import pytest

from tests.cli.trained import asked
from tests.data.own.test_shards import write_shards
from tests.data.own_files import class_folders
from tests.review.own_run import own_run
from tests.review.served import Client, served
from tests.suspects.made import made_run
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.review import routes
from tnlpad.review.opened import open_review
from tnlpad.review.server import HEADERS, MAX_BODY_BYTES
from tnlpad.suspects.listing import rank_run

HOSTILE = ("</script><script>alert(1)</script>", "\"quoted' \\", "line\u2028separators\u2029 and \U0001f600")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "runs" / "somewhere"
    made_run(folder, names=HOSTILE)
    return folder


@pytest.fixture(scope="module")
def client(folder):
    with served(folder) as client:
        yield client


@pytest.fixture
def log(client):
    """The log, which must not change."""
    path = client.review.log.path
    before = path.read_bytes() if path.exists() else None
    yield path
    assert (path.read_bytes() if path.exists() else None) == before


def addresses_of_this_machine():
    found = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            found.add(probe.getsockname()[0])
        except OSError:  # without a network
            pass
    return found - {"127.0.0.1"}


def test_it_listens_on_this_machine_alone(client):
    assert client.review.server.socket.getsockname()[0] == "127.0.0.1"
    others = ["127.0.0.2", *addresses_of_this_machine()]
    for address in others:
        with pytest.raises(OSError), socket.create_connection((address, client.port), timeout=5):  # noqa: PT011
            pass


@pytest.mark.parametrize("token", ["", "wrong", "%00", "..", "static"])
@pytest.mark.parametrize("path", ["", "about", "columns", "static/index.html"])
def test_another_token_gets_nothing(client, token, path):
    for wrong in {token, client.token[:-1], client.token + "x", client.token.swapcase()}:
        status, headers, content = client.request("GET", path, token=wrong)
        assert (status, content) == (403, b"")
        assert headers["Content-Security-Policy"]
    assert (
        client.request("POST", "decide", "{}", {"Content-Type": "application/json"}, token=token.strip("é"))[0] == 403
    )


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost:0", ""])
def test_another_host_gets_nothing(client, host):
    status, _, content = client.request("GET", "about", headers={"Host": host.format(port=client.port)})
    assert (status, content) == (403, b"")


def test_the_name_localhost_is_fine_and_two_names_are_not(client):
    assert client.request("GET", "about", headers={"Host": f"localhost:{client.port}"})[0] == 200
    request = f"GET /{client.token}/about HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nHost: evil\r\n\r\n"
    assert raw(client, request.encode()).startswith(b"HTTP/1.1 403")
    absolute = f"GET http://evil.example/{client.token}/about HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n\r\n"
    assert raw(client, absolute.encode()).startswith(b"HTTP/1.1 403")
    assert raw(client, f"GET /{client.token}/about HTTP/1.1\r\n\r\n".encode()).startswith(b"HTTP/1.1 403")


def raw(client, content):
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(content)
        return connection.recv(4096)


ONE = {"decisions": [{"at": 0, "choice": "given", "label": None, "key": "foreign"}]}


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}"])
def test_another_page_cannot_decide(client, log, origin):
    assert client.post("decide", ONE, Origin=origin.format(port=client.port)) == (403, None)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_form_cannot_decide(client, log, kind):
    assert client.request("POST", "decide", json.dumps(ONE), {"Content-Type": kind})[0] == 415


@pytest.mark.parametrize(
    "path",
    [
        "static/../routes.py",
        "static/..%2froutes.py",
        "static/%2e%2e/routes.py",
        "static//etc/passwd",
        "static/",
        "static/routes.py",
        "static/index.html%00.js",
        "../about",
        "about/x",
        "picture/../about",
        "decide",
        "nothing",
    ],
)
def test_there_is_nothing_at_other_paths(client, path):
    status, _, content = client.request("GET", path)
    assert status in (400, 404)
    assert b"import" not in content


def test_every_answer_carries_the_policy(client):
    cases = [("GET", "about"), ("GET", "columns"), ("GET", "nothing"), ("GET", "samples?at=x"), ("POST", "decide")]
    cases += [("DELETE", "about"), ("OPTIONS", "decide"), ("HEAD", "about"), ("GET", "picture/0")]
    for method, path in cases:
        status, headers, _ = client.request(method, path)
        assert {name: headers[name] for name in HEADERS} == HEADERS, (method, path, status)
        assert headers["Access-Control-Allow-Origin"] is None
    assert raw(client, b"nonsense\r\n\r\n") == b""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        (b"\xff\xfe", 400),
        ("[" * 100_000, 400),
        ("[]", 400),
        ('{"decisions": [{"at": 0, "choice": "other", "label": "unknown", "key": "k"}]}', 400),
        ('{"decisions": [{"at": 600, "choice": "given", "key": "k"}]}', 400),
        ('{"decisions": [{"at": 0, "choice": "given", "key": "k"}, {"at": -1, "choice": "given", "key": "l"}]}', 400),
        (" " * (MAX_BODY_BYTES + 1), 413),
    ],
)
def test_a_wrong_request_stores_nothing(client, log, body, status):
    found, answer = client.post("decide", body)
    assert found == status
    assert answer["error"]


def test_the_length_must_be_known(client, log):
    headers = f"Host: 127.0.0.1:{client.port}\r\nContent-Type: application/json\r\n"
    for length in ("", "Content-Length: -1\r\n", "Content-Length: x\r\n", "Transfer-Encoding: chunked\r\n"):
        answer = raw(client, f"POST /{client.token}/decide HTTP/1.1\r\n{headers}{length}\r\n0\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 411"), length
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(f"POST /{client.token}/decide HTTP/1.1\r\n{headers}Content-Length: 100\r\n\r\n{{".encode())
    client.get("about")  # a client that goes away does no harm


@pytest.mark.parametrize("path", ["samples", "samples?at=", "samples?at=600", "samples?at=-1", "samples?at=1,x"])
def test_a_position_must_be_one(client, path):
    status, _, content = client.request("GET", path)
    assert status == 400
    assert "position" in json.loads(content)["error"]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("samples?at=" + ",".join(["1"] * 201), "201"),
        ("decisions?since=x", "since='x'"),
        ("decisions?since=0&wait=-1", "wait='-1'"),
        ("map?kind=t-sne", "kind='t-sne'"),
        ("picture/600", "'600'"),
        ("picture/x", "'x'"),
        ("search?q=" + "x" * 1001, "1001"),
        ("about?" + "&".join(["a=1"] * 11), "10 fields"),
    ],
)
def test_a_wrong_value_is_named(client, path, named):
    status, _, content = client.request("GET", path)
    assert status == 400
    assert named in json.loads(content)["error"]


def test_names_come_through_as_data(client):
    about = client.document("about")
    assert about["classes"] == list(HOSTILE)
    given = client.columns()["given"][0]
    (sample,) = client.document("samples?at=0")
    assert HOSTILE[given] in sample["why"]
    third = HOSTILE[3 - given - client.columns()["suggested"][0]]
    client.decide(0, "other", third)
    assert {"at": 0, "choice": "other", "label": third, "by": "review"} in client.document("decisions?since=0")[
        "decisions"
    ]


def test_a_connection_serves_many_requests(client):
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.connect()
    used = connection.sock
    for path in ("about", "columns", "samples?at=1", "nothing", "about"):
        connection.request("GET", f"/{client.token}/{path}")
        connection.getresponse().read()
        assert connection.sock is used
    connection.close()


def test_clients_at_the_same_time_lose_nothing(client):
    before = client.document("about")["version"]
    acknowledged = {}

    def decide(worker):
        own = Client(client.review.address)
        for turn in range(20):
            at = 100 + 6 * turn + worker
            acknowledged[at] = own.decide(at, "given", key=f"{worker} {turn}")

    workers = [Thread(target=decide, args=(worker,)) for worker in range(6)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert sorted(acknowledged.values()) == list(range(before + 1, before + 121))
    found = client.document(f"decisions?since={before}")
    assert [each["at"] for each in found["decisions"]] == list(range(100, 220))


def test_a_tab_waits_for_the_decisions_of_another(client):
    version = client.document("about")["version"]
    seen = []
    waiting = Thread(target=lambda: seen.append(client.document(f"decisions?since={version}&wait=30")))
    waiting.start()
    client.decide(300, "exclude", key="of another tab")
    waiting.join()
    assert seen == [
        {"version": version + 1, "decisions": [{"at": 300, "choice": "exclude", "label": None, "by": "review"}]}
    ]


def test_an_unexpected_failure_is_reported_and_survived(client, monkeypatch):
    monkeypatch.setattr(client.review.server.routes.samples, "columns", lambda: 1 / 0)
    status, _, content = client.request("GET", "columns")
    assert status == 500
    assert "ZeroDivisionError" in json.loads(content)["error"]
    assert "ZeroDivisionError" in client.said[-1]


def test_files_of_the_page_are_served_by_name(tmp_path, folder, monkeypatch):
    static = tmp_path / "static"
    static.mkdir()
    for name in ("index.html", "page.js", "look.css", "secret.py"):
        (static / name).write_text(name)
    monkeypatch.setattr(routes, "STATIC", static)
    made_run(tmp_path / "runs" / "other")
    with served(tmp_path / "runs" / "other") as client:
        assert client.get("") == b"index.html"
        status, headers, content = client.request("GET", "static/page.js")
        assert (status, headers["Content-Type"], content) == (200, "text/javascript; charset=utf-8", b"page.js")
        assert client.request("GET", "static/secret.py")[0] == 404


def test_open_tabs_find_the_next_server(tmp_path):
    made_run(tmp_path / "runs" / "again")
    folder = tmp_path / "runs" / "again"
    with served(folder) as client:
        client.decide(0, "given")
        file = folder / "review" / "server.json"
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        with pytest.raises(RecordError, match=client.review.address), served(folder):
            pass
    with served(folder) as again:
        assert again.review.address == client.review.address
        assert client.document("decisions?since=0")["version"] == 2
    with socket.create_server(("127.0.0.1", client.port)), served(folder) as other:  # another program has the port
        assert (other.port == client.port, other.token == client.token) == (False, False)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        open_review(rank_run(RunFolder(folder)), port=taken.getsockname()[1], warn=print).__enter__()


def test_tabs_do_not_go_on_with_old_positions(tmp_path):
    made_run(tmp_path / "runs" / "again")
    folder = tmp_path / "runs" / "again"
    with served(folder) as client:
        client.post("audit", {"sample": 20})
        for at in client.document("audit")["positions"]:
            client.decide(at, "given")
    with served(folder) as again:  # the audit has changed the order
        assert again.port != client.port or again.token != client.token
        assert again.document("about")["sentences"][0].startswith("Share of wrong labels, by the 20 that you checked")
        assert np.isfinite(again.columns()["confidence"]).all()


@pytest.mark.parametrize("data", ["shards", "images that lie elsewhere", "photos.v2"])
def test_the_next_command_can_be_run_as_it_is(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if data == "shards":
        own_run(tmp_path / "run", write_shards(tmp_path / "shards.v2", ["ant", "bee"] * 10))
    elif data == "photos.v2":
        own_run(tmp_path / "run", class_folders(tmp_path / data, ["ant", "bee"], 10))
    else:
        files = sorted(class_folders(tmp_path / "photos", count=10).glob("*/*"))
        rows = [f"{file.relative_to(tmp_path)},{file.parent.name}" for file in files]
        (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
        own_run(tmp_path / "run", tmp_path / "list.csv")
        (tmp_path / "list.csv").unlink()
    with served(tmp_path / "run") as client:
        client.decide(0, "given")
    result = asked(*shlex.split(client.review.command)[1:])
    assert result.exit_code == 0, result.output


def test_the_next_command_writes_to_a_name_that_is_free(tmp_path, monkeypatch):
    """As in a second round, whose data are what the first one wrote."""
    monkeypatch.chdir(tmp_path)
    own_run(tmp_path / "my runs" / "second", class_folders(tmp_path / "cleaned", ["ant", "bee"], 4))
    with served(tmp_path / "my runs" / "second") as client:
        about = client.document("about")
    folder = f"'{tmp_path}/my runs/second'"
    assert about["command"] == f"tnlpad clean {folder} --out cleaned2"
    assert about["run"] == folder  # so that `tnlpad review` finds it
