"""``ironic-lite-status compare``: with this service on both sides, with Ironic, and with liars."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import pty
import re
import stat
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compare import contents, services
from tests.compare.identity import Identity
from tests.support import service
from tests.support.service import SCRIPTS, Service

pytestmark = pytest.mark.feature("move_in")

IRONIC = pathlib.Path("/tmp/ironic")
"""A virtual environment with Ironic 39."""
MAXIMUM = "X-OpenStack-Ironic-API-Maximum-Version"


def run(settings: pathlib.Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Run a command of ironic-lite-status; return its exit status, output and errors."""
    done = subprocess.run(
        [str(SCRIPTS / "ironic-lite-status"), "--config-file", str(settings), *words],
        env=service.environment(**variables),
        capture_output=True,
        text=True,
        timeout=service.PATIENCE,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def compare(settings: pathlib.Path, *words: str, **variables: str) -> tuple[int, str, str]:
    """Run the command compare."""
    return run(settings, "compare", *words, **variables)


def fill(found: Service) -> None:
    """Start a service, and put the same node with a child, a port and a target into it."""
    found.start()
    found.up()
    ident = contents.uuid_of(1)
    found.create("r7-01", uuid=ident, extra={"rack": "a"}, driver_info={"x_password": "s3cret"})
    found.create("r7-02", uuid=contents.uuid_of(2), parent_node=ident)
    port = {"uuid": contents.PORT, "node_uuid": ident, "address": "52:54:00:00:00:01"}
    target = {"node_uuid": ident, "volume_type": "iscsi", "volume_id": "v", "boot_index": 0}
    chap = {"uuid": contents.TARGET, "properties": {"auth_password": "s3cret"}}
    for path, body in (("ports", port), ("volume/targets", target | chap)):
        answer = found.ask("POST", f"/v1/{path}", body)
        assert answer.status_code == 201, answer.text


def test_changes_of_one_side_are_found_also_from_a_saved_file(tmp_path: pathlib.Path) -> None:
    with service.service() as theirs, service.service() as ours:
        for one in (theirs, ours):
            fill(one)
        file = tmp_path / "before.jsonl"
        status, told, said = compare(ours.settings, "--ironic", theirs.url, "--save", str(file))
        assert (status, said) == (0, ""), told
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "s3cret" not in file.read_text(encoding="utf-8")
        assert [one.name for one in tmp_path.iterdir()] == [file.name]
        change = [{"op": "replace", "path": "/extra/rack", "value": "b"}]
        assert ours.ask("PATCH", "/v1/nodes/r7-01", change).ok
        assert ours.ask("DELETE", f"/v1/ports/{contents.PORT}").ok
        for source in (str(file), theirs.url):
            status, told, said = compare(ours.settings, "--ironic", source, "-f", "json")
            document = json.loads(told)
            assert (status, document["exit"], said) == (1, 1, ""), told
            found = {one["path"]: one["examples"] for one in document["differences"]}
            assert found["nodes.extra.rack"][0]["there"] == "a"
            assert found["nodes.extra.rack"][0]["here"] == "b"
            assert "here" not in found["ports"][0]
            assert "links" in {one["rule"] for one in document["expected"]}
        file.write_bytes(file.read_bytes()[:-20])
        status, told, said = compare(ours.settings, "--ironic", str(file))
        assert (status, told, "cut off" in said) == (2, "", True)


def test_all_pages_of_a_history_are_read(tmp_path: pathlib.Path) -> None:
    with service.service("[api]\nmax_limit = 1\n") as found:
        found.start()
        found.up()
        found.create("r7-01", driver_info={"fake_fail_power": "no answer"})
        found.session.headers["Prefer"] = "wait=50"
        for _ in range(3):
            path = "/v1/nodes/r7-01/states/provision"
            assert found.ask("PUT", path, {"target": "manage"}).status_code == 424
        page = found.get("/v1/nodes/r7-01/history")
        assert (len(page["history"]), "next" in page) == (1, True)
        file = tmp_path / "before.jsonl"
        status, told, said = compare(found.settings, "--ironic", found.url, "--save", str(file))
        assert (status, said) == (0, ""), told
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    (history,) = (one["objects"] for one in lines if one.get("of") == "nodes/history")
    assert len(history) == 3


def test_progress_is_shown_on_a_terminal_alone() -> None:
    with service.service() as found:
        fill(found)
        command = [str(SCRIPTS / "ironic-lite-status"), "--config-file", str(found.settings)]
        words = [*command, "compare", "--ironic", found.url]
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            words, env=service.environment(), stdout=subprocess.DEVNULL, stderr=theirs
        ) as process:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # at the end of the program
                while piece := os.read(ours, 4096):
                    shown += piece
        os.close(ours)
    assert process.returncode == 0
    assert re.match(rb"\r\x1b\[KIronic: \d+ requests, now /v1/", shown)
    assert shown.endswith(b"\r\x1b[K")


def test_service_equals_itself() -> None:
    with service.service() as found:
        fill(found)
        status, told, said = compare(found.settings, "--ironic", found.url)
        assert (status, said) == (0, ""), told
        assert told.splitlines()[-1].startswith("No unexpected difference. Compared: 2 nodes, ")
        off = compare(found.settings, "--ironic", found.url, OS_FEATURES__ENABLED="")
        assert (off[0], "needs the feature move_in" in off[2]) == (2, True)


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serving(handler: type[QuietHandler]) -> Iterator[str]:
    """Serve requests by a handler, and yield the URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def liar(status: int, body: bytes, maximum: str) -> type[QuietHandler]:
    """Return the handler with one answer for each path but /v1/."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            root = self.path == "/v1/"
            self.send_response(200 if root else status)
            self.send_header(MAXIMUM, maximum)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(b"{}" if root else body)

    return Handler


@pytest.mark.parametrize(
    ("status", "body", "maximum", "reason"),
    [
        (401, b"{}", "1.115", "IRONIC_USERNAME"),
        (503, b"{}", "1.115", "with 503"),
        (200, b"<html>", "1.115", "JSON object"),
        (200, b"[]", "1.115", "JSON object"),
        (200, b"{}", "1.115", "without a list nodes"),
        (200, b'{"nodes": ' + b"[" * 900 + b"]" * 900 + b"}", "1.115", "without a list nodes"),
        (200, b'{"nodes": [{"uuid": "a"}], "next": "x"}', "1.115", "does not end its list"),
        (200, b"{}", "1.80", "Upgrade Ironic"),
        (200, b"{}", "", "no Ironic API"),
    ],
)
def test_service_that_cannot_be_read_is_status_2(
    tmp_path: pathlib.Path, status: int, body: bytes, maximum: str, reason: str
) -> None:
    settings, file = tmp_path / "test.conf", tmp_path / "saved"
    settings.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n", encoding="utf-8")
    with serving(liar(status, body, maximum)) as url:
        found = compare(settings, "--ironic", url, "--save", str(file))
    assert (found[0], found[1], reason in found[2]) == (2, "", True), found
    assert list(tmp_path.iterdir()) == [settings]


def test_ironic_is_read_and_compared(tmp_path: pathlib.Path) -> None:
    if not (IRONIC / "bin/ironic").exists():
        pytest.skip(f"NOT TESTED: no Ironic 39 in {IRONIC}; install ironic there to run this test")
    with contextlib.ExitStack() as opened:
        identity = Identity()
        opened.callback(identity.close)
        pair = []
        for name in ("theirs", "ours"):
            folder = tmp_path / name
            folder.mkdir()
            made = services.reference(IRONIC, folder) if name == "theirs" else services.ours(folder)
            opened.callback(made.stop)
            made.start(identity.url, services.REFERENCE_SETTINGS if name == "theirs" else "")
            contents.fill(made)
            pair.append(made)
        urls = [f"http://127.0.0.1:{one.port}" for one in pair]
        words = ("--ironic", urls[0], "--url", urls[1], "-f", "json")
        settings = tmp_path / "test.conf"
        settings.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n", encoding="utf-8")
        tokens = {"IRONIC_TOKEN": "admin", "OS_TOKEN": "admin"}
        status, told, said = compare(settings, *words, **tokens)
        document = json.loads(told)
        print(told)
        assert (status, said, document["compared"]["nodes"]) == (1, "", len(contents.NODES))
        # Both were filled by requests, so only times and entries of the history differ.
        paths = {one["path"] for one in document["differences"]}
        named = {one for one in paths if not one.endswith("_at") and "history" not in one}
        assert named <= UNALIKE, told


UNALIKE: set[str] = set()
"""Paths that two services filled by the same requests do not share."""
