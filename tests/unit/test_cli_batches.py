"""The commands for batches without a network: what they send, and what they print."""

from __future__ import annotations

import argparse
import io
import urllib.parse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ironicclient import exc

from ironic_lite.api.resources import queries
from ironic_lite.features.batches import api as batches_api
from ironic_lite_cli import commands, watching

Json = dict[str, Any]
STATES = ("pending", "starting", "running", "done", "failed", "aborted", "refused", "skipped")


def batch(state: str = "running", ended: bool = False, **counts: int) -> Json:
    """Return a batch as the API shows it."""
    return {
        "uuid": "b1",
        "name": "reset",
        "state": state,
        "wave": 1,
        "waves": [1, 20, 179],
        "counts": {**dict.fromkeys(STATES, 0), **counts},
        "paused_by": "failures" if state == "paused" else None,
        "requester": "ann",
        "created_at": "2030-01-01T00:00:00+00:00",
        "ended_at": "2030-01-01T00:01:00+00:00" if ended else None,
    }


class Service:
    """Answers in place of the HTTP client, and records the requests."""

    def __init__(self, *answers: Json) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self._answers = list(answers)

    def json_request(self, method: str, url: str, **more: Any) -> tuple[Any, Any]:
        """Return the next answer."""
        self.asked.append((method, url, more.get("body")))
        if method != "GET":
            assert more["headers"]["Idempotency-Key"]
        return SimpleNamespace(headers={}), self._answers.pop(0)


def take(service: Service, kind: Any, *words: str) -> tuple[Any, str, str]:
    """Run a command; return its result and what it has printed."""
    output, fault = io.StringIO(), io.StringIO()
    manager = SimpleNamespace(baremetal=SimpleNamespace(http_client=service))
    app = SimpleNamespace(client_manager=manager, stdout=output, stderr=fault)
    one = kind(app, None)
    result = one.take_action(one.get_parser("baremetal").parse_args(list(words)))
    return result, output.getvalue(), fault.getvalue()


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (
            ("manage", "--node", "a", "--node", "b"),
            {"nodes": ["a", "b"], "request": {"target": "manage"}},
        ),
        (("power off", "--node", "a"), {"nodes": ["a"], "request": {"power": "power off"}}),
        (("reboot", "--node", "a"), {"nodes": ["a"], "request": {"power": "reboot"}}),
        (
            ('{"target": "rebuild", "configdrive": "x"}', "--node", "a"),
            {"nodes": ["a"], "request": {"target": "rebuild", "configdrive": "x"}},
        ),
        (
            ("rebuild", "--filter", "owner=x", "--filter", "driver=y=z", "--expect", "4"),
            {
                "nodes": {"owner": "x", "driver": "y=z"},
                "request": {"target": "rebuild"},
                "expect": 4,
            },
        ),
        (
            (
                *("clean", "--node", "a", "--leave-out", "--clean-steps"),
                '[{"interface": "raid", "step": "x"}]',
            ),
            {
                "nodes": ["a"],
                "request": {"target": "clean", "clean_steps": [{"interface": "raid", "step": "x"}]},
                "unfit": "leave out",
            },
        ),
        *(
            (
                ("manage", "--node", "a", "--leave-out", "--expect-fit", text),
                {
                    "nodes": ["a"],
                    "request": {"target": "manage"},
                    "unfit": "leave out",
                    "expect_fit": read,
                },
            )
            for text, read in (
                *(("12", 12), ("0f" * 8, "0f" * 8)),
                ("1234567890123456", "1234567890123456"),  # a digest of digits
            )
        ),
        (
            ("retry", "--failed-of", "b1", "--expect", "1"),
            {
                "nodes": {"batch": "b1", "result": "failed"},
                "request": {"target": "retry"},
                "expect": 1,
            },
        ),
        (
            (
                *("manage", "--node", "a", "--waves", "1, 10%,100%", "--max-failures", "5%"),
                *("--concurrency", "8", "--on-failures", "abort", "--pause-between-waves"),
                *("--name", "gpu bios"),
            ),
            {
                "nodes": ["a"],
                "request": {"target": "manage"},
                "waves": [1, "10%", "100%"],
                "max_failures": "5%",
                "concurrency": 8,
                "on_failures": "abort",
                "between_waves": "pause",
                "name": "gpu bios",
            },
        ),
    ],
)
def test_create_sends_the_batch(words: tuple[str, ...], body: Json) -> None:
    service = Service(batch())
    (names, values), _, _ = take(service, commands.CreateBatch, *words)
    assert service.asked == [("POST", "/v1/batches", body)]
    shown = dict(zip(names, values, strict=True))
    assert {**shown, "counts": shown["counts"].machine_readable()} == batch()


@pytest.mark.parametrize(
    ("words", "asked", "answer"),
    [
        (
            ("--filter", "owner=x"),
            "/v1/nodes?owner=x&fields=uuid&limit=1000",
            {"nodes": [{"uuid": "1"}, {"uuid": "2"}]},
        ),
        (
            ("--failed-of", "b1"),
            "/v1/batches/b1/nodes?result=failed&limit=1000",
            {"nodes": [{"uuid": "1"}, {"uuid": "2"}]},
        ),
    ],
)
def test_plan_of_a_filter_expects_the_present_number(
    words: tuple[str, ...], asked: str, answer: Json
) -> None:
    service = Service(answer, batch())
    take(service, commands.CreateBatch, "manage", *words, "--plan")
    assert service.asked[0] == ("GET", asked, None)
    assert service.asked[1][1] == "/v1/batches?plan=true"
    assert service.asked[1][2]["expect"] == 2


class Typed(io.StringIO):
    """Standard input of a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("typed", ["y\n", "yes\n", "n\n", "", "\n"])
def test_terminal_is_asked_before_a_filter_begins_a_batch(
    monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr("sys.stdin", Typed(typed))
    service = Service({"nodes": [{"uuid": "1"}]}, batch())
    words = ("manage", "--filter", "owner=x")
    if not typed.startswith("y"):
        with pytest.raises(exc.CommandError, match="not begun"):
            take(service, commands.CreateBatch, *words)
        assert len(service.asked) == 1
        return
    _, _, said = take(service, commands.CreateBatch, *words)
    assert "1 nodes" in said
    assert service.asked[1][2]["expect"] == 1


def test_script_has_to_repeat_the_number_of_a_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    service = Service({"nodes": [{"uuid": "1"}]})
    with pytest.raises(exc.CommandError, match="--expect 1"):
        take(service, commands.CreateBatch, "manage", "--filter", "owner=x")
    assert len(service.asked) == 1


def test_create_reads_steps_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "steps.json"
    file.write_text('[{"interface": "deploy", "step": "erase_devices"}]', encoding="utf-8")
    service = Service(batch())
    take(service, commands.CreateBatch, "clean", "--node", "a", "--clean-steps", str(file))
    steps = [{"interface": "deploy", "step": "erase_devices"}]
    assert service.asked[0][2]["request"] == {"target": "clean", "clean_steps": steps}


def test_create_reads_a_request_from_a_file_and_plans(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text('{"target": "clean", "clean_steps": []}', encoding="utf-8")
    service = Service(batch())
    take(service, commands.CreateBatch, f"@{file}", "--node", "a", "--plan")
    _, url, body = service.asked[0]
    assert (url, body["request"]["target"]) == ("/v1/batches?plan=true", "clean")


@pytest.mark.parametrize("request_", ["{", "@/absent", "{]"])
def test_create_refuses_a_request_that_is_no_json(request_: str) -> None:
    service = Service()
    with pytest.raises(exc.CommandError):
        take(service, commands.CreateBatch, request_, "--node", "a")
    assert service.asked == []


@pytest.mark.parametrize(
    "words",
    [
        ("manage",),
        ("manage", "--node", "a", "--filter", "b=c"),
        ("manage", "--filter", "b"),
        ("manage", "--node", "a", "--waves", "many"),
    ],
)
def test_create_refuses_a_bad_command_line(words: tuple[str, ...]) -> None:
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        take(Service(), commands.CreateBatch, *words)


@pytest.mark.parametrize(
    ("kind", "words", "body"),
    [
        (commands.batch_pause, (), {"target": "pause"}),
        (commands.batch_resume, (), {"target": "resume"}),
        (
            commands.batch_resume,
            ("--max-failures", "3"),
            {"target": "resume", "max_failures": 3},
        ),
        (commands.batch_abort, (), {"target": "abort", "runs": "go on"}),
        (commands.batch_abort, ("--runs",), {"target": "abort", "runs": "abort"}),
    ],
)
def test_change_of_the_state(kind: Any, words: tuple[str, ...], body: Json) -> None:
    service = Service(batch())
    take(service, kind, "b1", *words)
    assert service.asked == [("PUT", "/v1/batches/b1/state", body)]


def test_list_counts_nodes() -> None:
    service = Service({"batches": [batch(pending=5, running=1, done=3, failed=1, refused=2)]})
    (names, rows), _, _ = take(service, commands.batch_list, "--open")
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(service.asked[0][1]).query))
    where = queries.filters(batches_api.BATCHES, query, version=1)
    assert where == {"state": ["running", "paused"]}, "as the API reads it"
    row = dict(zip(names, next(iter(rows)), strict=True))
    assert (row["wave"], row["nodes"], row["ended"], row["failed"]) == ("2/3", 12, 6, 3)


@pytest.mark.parametrize(
    ("last", "status", "more"),
    [
        (batch("done", True, done=2), 0, None),
        (batch("done", True, done=1, skipped=1), 0, None),
        (batch("aborted", True, done=1, skipped=1), 3, None),
        (batch("done", True, done=1, aborted=1), 3, None),
        (batch("paused", False, failed=1, pending=1), 3, "disk 3"),
        (batch("done", True, done=1, refused=1), 3, "disk 3"),
    ],
)
def test_watch_ends_with_the_batch(last: Json, status: int, more: str | None) -> None:
    failed = {
        "uuid": "n1",
        "name": "r\x1b1",
        "result": "failed",
        "error": {"code": "StepFailed", "text": "disk 3\nis bad"},
    }
    first = batch(running=1, pending=1)
    service = Service(first, first, last, {"nodes": [failed]})
    result, output, _ = take(service, watching.WatchBatch, "b1")
    assert result == status
    lines = output.splitlines()
    assert lines[0].startswith("reset: running, wave 2 of 3 [--------------------] 0/2: 1 pending")
    assert len(lines) == (3 if more else 2), "a line for each change"
    assert "r?1 failed: StepFailed: disk 3 is bad" in output if more else "disk" not in output


def test_watch_ends_in_time() -> None:
    result, _, fault = take(
        Service(*[batch(running=1)] * 9), watching.WatchBatch, "b1", "--within", "0.2"
    )
    assert (result, fault) == (75, "The batch goes on.\n")


def test_table_of_a_plan_has_each_node_that_is_left_out() -> None:
    nodes = [
        {"uuid": f"u{place}", "name": f"n{place}", "code": "X", "text": "no way"}
        for place in range(30)
    ]
    planned = {
        **batch(pending=3),
        "fit": {
            **{"count": 3, "digest": "0f" * 8},
            **{"retired": [{"uuid": "u", "name": "n"}], "protected": []},
        },
        "unfit": {"count": 30, "nodes": nodes},
    }
    (names, values), _, _ = take(Service(planned), commands.batch_show, "b1")
    shown = dict(zip(names, values, strict=True))
    assert shown["fit"].human_readable() == f"3 (1 retired, 0 protected), digest {'0f' * 8}"
    assert shown["unfit"].human_readable().splitlines()[:2] == ["30", "n0: no way"]
    assert len(shown["unfit"].human_readable().splitlines()) == 31


def test_table_of_a_batch_has_counts_and_refusals_as_text() -> None:
    refused = {"count": 2, "first": [{"name": "n1", "uuid": "u1", "code": "X", "text": "no\nway"}]}
    first = [{"name": None, "uuid": "u2"}]
    planned = {**batch(failed=1, pending=3), "first_wave": first, "refused": refused}
    (names, values), _, _ = take(Service(planned), commands.batch_show, "b1")
    shown = dict(zip(names, values, strict=True))
    assert shown["counts"].human_readable() == "3 pending, 1 failed"
    assert shown["first_wave"].human_readable() == "u2"
    assert shown["refused"].human_readable() == "2\nn1: no way"
    assert shown["refused"].machine_readable() == refused
