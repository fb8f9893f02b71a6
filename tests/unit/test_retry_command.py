"""``baremetal node retry``: its command line, and answers that name no readable run."""

from __future__ import annotations

import argparse
import io
import types
from typing import Any

import pytest
from ironicclient import exc

from ironic_lite.cli import arguments, retrying

RUN = "11111111-1111-4111-8111-111111111111"
LINK = {"Link": f'</v1/nodes/n1/runs/{RUN}>; rel="monitor"'}


class Service:
    """Answers a retry with these headers, and refuses or shows the run."""

    def __init__(self, headers: dict[str, str], *, node: str, run: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.body: Any = None
        self._headers = headers
        self._node = node
        self._run = run

    def json_request(self, method: str, url: str, **more: Any) -> tuple[Any, Any]:
        self.asked.append(f"{method} {url.partition('?')[0]}")
        if method == "PUT":
            self.body = more["body"]
            return types.SimpleNamespace(headers=self._headers), None
        if "/runs/" in url:
            if self._run is not None:
                raise self._run
            return None, {"state": "done"}
        return None, {"provision_state": self._node}


def carry_out(service: Service, *words: str) -> tuple[int, str, str]:
    """Return the exit status and what the command prints."""
    output, faults = io.StringIO(), io.StringIO()
    client = types.SimpleNamespace(baremetal=types.SimpleNamespace(http_client=service))
    app = types.SimpleNamespace(client_manager=client, stdout=output, stderr=faults)
    command = retrying.RetryNode(app, None)  # type: ignore[arg-type]
    status = command.take_action(command.get_parser("retry").parse_args(["n1", *words]))
    return status, output.getvalue(), faults.getvalue()


def test_retry_without_a_link_is_accepted_and_waits_for_the_node() -> None:
    status, printed, told = carry_out(Service({}, node="available"))
    assert (status, printed, "Accepted" in told) == (0, "", True)
    assert carry_out(Service({}, node="available"), "--wait", "9")[:2] == (0, "available\n")
    assert carry_out(Service({}, node="clean failed"), "--wait", "9")[:2] == (3, "clean failed\n")


@pytest.mark.parametrize("refusal", [exc.Forbidden, exc.NotFound])
def test_caller_who_may_not_read_the_run_waits_for_the_node(refusal: type[Exception]) -> None:
    """The rule of runs excludes lessees, who may retry."""
    service = Service(LINK, node="active", run=refusal("no"))
    assert carry_out(service, "--wait", "9")[:2] == (0, f"{RUN}\nactive\n")
    assert service.asked[-1] == "GET /v1/nodes/n1"


def test_reason_may_begin_with_a_number() -> None:
    service = Service(LINK, node="available")
    words = ("--waive", "10:30 shredder", "--waive-step", "2", "3: bay", "--waive-step", "0", "x")
    assert carry_out(service, *words, "--wait", "inf")[0] == 0
    assert service.body["retry"]["waive"] == [
        {"reason": "10:30 shredder"},
        {"ordinal": 2, "reason": "3: bay"},
        {"ordinal": 0, "reason": "x"},
    ]


@pytest.mark.parametrize(
    "words",
    [["--wait", "nan"], ["--wait", "-1"], ["--wait", "x"], ["--waive-step", "-1", "x"]],
)
def test_wrong_numbers_are_refused(words: list[str]) -> None:
    service = Service(LINK, node="available")
    with pytest.raises(SystemExit) as refused:
        carry_out(service, *words)
    assert (refused.value.code, service.asked) == (2, [])


@pytest.mark.parametrize("word", ["nan", "NaN", "-0.5", "", "1h"])
def test_seconds_are_a_number_that_is_not_negative(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.read_seconds(word)
    assert arguments.read_seconds("inf") > arguments.read_seconds("0.5")
