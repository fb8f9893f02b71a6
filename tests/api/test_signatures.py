"""Pecan's look-up of signatures is cached, and lives on without."""

from __future__ import annotations

import types

import pecan.util
import pytest

from ironic_lite.api.wire import signatures


class Handler:
    def get(self, ident: str, fields: str = "") -> None: ...


def test_pecan_still_has_what_is_cached() -> None:
    assert signatures.remember()
    assert pecan.util.getargspec(Handler().get).args == ["self", "ident", "fields"]


def test_a_signature_is_inspected_once() -> None:
    asked: list[object] = []

    def inspect(method: object) -> str:
        asked.append(method)
        return "signature"

    stock = types.SimpleNamespace(_getargspec=inspect)
    assert signatures.remember(stock)
    assert signatures.remember(stock)
    for _ in range(3):
        assert stock._getargspec(Handler().get) == "signature"
    assert asked == [Handler.get]


def test_a_pecan_without_it_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    assert not signatures.remember(types.SimpleNamespace())
    assert "Pecan" in caplog.text
