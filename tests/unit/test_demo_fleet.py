"""The fleet of the demonstration, on an API that a visitor of the window uses as well."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.demo import fleet
from ironic_lite.demo.client import ApiError, Client

_ENDS = {"manage": "manageable", "provide": "available", "active": "active"}


class Api(Client):
    """An API that carries out each verb at once.

    :param removed: a node that is removed as soon as it was created.
    """

    def __init__(self, removed: str = "") -> None:
        super().__init__("http://127.0.0.1:1")
        self.removed = removed
        self.states: dict[str, str] = {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        if path == "/v1/nodes":
            self.states[body["name"]] = "enroll"
        elif path.startswith("/v1/nodes?"):
            rows = [{"name": name, "provision_state": at} for name, at in self.states.items()]
            return {"nodes": [row for row in rows if row["name"] != self.removed]}
        elif path.endswith("/states/provision"):
            name = path.split("/")[3]
            if name == self.removed and body["target"] != "manage":
                raise ApiError(f"{method} {path}: 404 {name} could not be found")
            self.states[name] = _ENDS.get(body["target"], self.states[name])
            if (name, body["target"]) == (fleet.OVERDUE, "provide"):
                self.states[name] = "clean wait"
        return {}


def test_fleet_is_ready_without_a_node_that_was_removed() -> None:
    fleet.populate(Api("rack3-12"), 30)


def test_request_for_a_node_that_was_removed_is_named() -> None:
    with pytest.raises(ApiError, match="rack1-02 could not be found"):
        fleet.populate(Api("rack1-02"), 30)
