"""Pecan's public interface: what the service gives it, and what it may ask for."""

from __future__ import annotations

import inspect

import pecan
import pytest

from ironic_lite.api import app
from ironic_lite.api.wire import request
from tests.support.wsgi_client import Client


def test_pecan_calls_the_controller_by_the_method_that_is_replaced() -> None:
    stock = inspect.signature(pecan.Pecan.invoke_controller)
    ours = inspect.signature(app.Application.invoke_controller)
    assert list(ours.parameters) == list(stock.parameters)


def test_pecan_invokes_one_controller_for_each_request(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoked: list[str] = []
    ours = app.Application.invoke_controller

    def invoke(self: app.Application, controller: object, *rest: object) -> None:
        invoked.append(getattr(controller, "__qualname__", ""))
        ours(self, controller, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(app.Application, "invoke_controller", invoke)
    assert api.get("/v1/nodes").status == 200
    assert invoked == ["Root.index"]


@pytest.mark.parametrize("path", ["/v1/index", "/v1/_pecan", "/v1/__class__", "/v1/nodes/x/index"])
def test_no_word_of_a_path_reaches_an_attribute_of_a_controller(api: Client, path: str) -> None:
    assert api.get(path).status == 404


def test_pecan_has_no_hooks_that_would_not_be_called(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []
    ours = app.Application.invoke_controller

    def invoke(self: app.Application, controller: object, *rest: object) -> None:
        found.append(self.determine_hooks(controller))
        ours(self, controller, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(app.Application, "invoke_controller", invoke)
    assert api.get("/v1/nodes").status == 200
    assert found == [[]]


def test_pecan_reads_neither_query_nor_body_by_itself(api: Client) -> None:
    answer = api.request("POST", "/v1/nodes?self=1&request=2", body=b"{")
    assert answer.status == 400
    assert request.Request.GET.mixed() == {}
