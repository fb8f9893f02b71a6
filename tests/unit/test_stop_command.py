"""``baremetal node run stop``: the request of each command line."""

from __future__ import annotations

import io
import types
from typing import Any

import pytest

from ironic_lite.cli import stopping


class Service:
    """Keeps the requests."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def json_request(self, method: str, url: str, **more: Any) -> tuple[Any, Any]:
        self.asked.append((method, url, more.get("body")))
        return types.SimpleNamespace(headers={}), None


def carry_out(*words: str) -> list[Any]:
    service = Service()
    client = types.SimpleNamespace(baremetal=types.SimpleNamespace(http_client=service))
    app = types.SimpleNamespace(client_manager=client, stdout=io.StringIO(), stderr=io.StringIO())
    command = stopping.StopRun(app, None)  # type: ignore[arg-type]
    command.take_action(command.get_parser("stop").parse_args(["n1", *words]))
    return service.asked


PATH = "/v1/nodes/n1/runs/current/stop"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), ("PUT", PATH, {"how": "hold"})),
        (("--abort",), ("PUT", PATH, {"how": "abort"})),
        (
            ("--after", "2", "--reason", "disk 3"),
            ("PUT", PATH, {"how": "hold", "after": 2, "reason": "disk 3"}),
        ),
        (("--run", "r9"), ("PUT", "/v1/nodes/n1/runs/r9/stop", {"how": "hold"})),
        (("--undo",), ("DELETE", PATH, None)),
    ],
)
def test_command_line_becomes_a_request(words: tuple[str, ...], asked: Any) -> None:
    assert carry_out(*words) == [asked]


def test_abort_and_undo_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        carry_out("--abort", "--undo")
    assert "not allowed with" in capsys.readouterr().err
