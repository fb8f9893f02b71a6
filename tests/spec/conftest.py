"""A whole service for each requirement."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import driver_packages, third_party_deploy
from tests.support.conductor_fixture import configure
from tests.support.operator import Operator


@pytest.fixture
def serve(sqlite_database: Database) -> Iterator[Callable[..., Operator]]:
    """A function that starts a service; options are given as ``group__option``."""
    started: list[Operator] = []

    def start(**options: Any) -> Operator:
        started.append(Operator(sqlite_database, **options))
        return started[-1]

    yield start
    for operator in started:
        operator.close()


@pytest.fixture
def operator(serve: Callable[..., Operator]) -> Operator:
    """The operator of a service with default options."""
    return serve()


@pytest.fixture
def stock(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Callable[..., Registry]:
    """A function that loads the drivers with a maker's among them, ``kind="Class"`` of workshop.

    Each goes by the name ``workshop``; a node asks for it with ``raid_interface="workshop"``.
    """

    def load(**classes: str) -> Registry:
        points = [
            f"[ironic_lite.hardware.interfaces.{kind}]\n"
            f"workshop = tests.support.vendor_driver:{name}\n"
            for kind, name in classes.items()
        ]
        driver_packages.install(monkeypatch, tmp_path, {}, "\n".join(points))
        enabled = {f"DEFAULT__enabled_{kind}_interfaces": ["fake", "workshop"] for kind in classes}
        found = Registry.load(Settings.read(configure(**enabled)))
        assert found.failures == {}
        return found

    return load


@pytest.fixture
def outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, serve: Callable[..., Operator]
) -> Callable[..., Operator]:
    """A function that starts a service with the interfaces of ``deployers`` beside the fake
    ones."""
    driver_packages.install(monkeypatch, tmp_path / "outside", {}, third_party_deploy.POINTS)
    registry = Registry.load(Settings.read(configure(**third_party_deploy.ENABLED)))
    assert registry.failures == {}

    def start(**options: Any) -> Operator:
        return serve(registry=registry, **third_party_deploy.ENABLED, **options)

    return start
