"""Families of resources in the API: their paths, and bodies that create members."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import allocations
from tests.support.conductor_recorder import Recorder

Json = dict[str, Any]

ORDERED = {"interface": "raid", "step": "delete_configuration", "args": {}, "order": 1}
PRIORITISED = {"interface": "raid", "step": "delete_configuration", "args": {}, "priority": 1}
ACTION = {"op": "fail", "args": {"msg": "no"}}


class Family(NamedTuple):
    """A family of resources.

    :param path: of its list below /v1.
    :param word: the name of a member in messages and, with underscores, in events.
    :param values: the values of a POST by a number; no two numbers share a unique value.
    :param since: the minor version that introduced it.
    :param of_node: its members belong to a node.
    :param named: its members have names, by which paths find them.
    """

    path: str
    word: str
    values: Callable[[int], Json]
    since: int = 1
    of_node: bool = False
    named: bool = False

    @property
    def place(self) -> str:
        """The path of its list."""
        return f"/v1/{self.path}"

    @property
    def listed(self) -> str:
        """The key of its list."""
        return self.path.rpartition("/")[2]


FAMILIES = {
    "port": Family(
        "ports",
        "port",
        lambda n: {"address": f"02:00:00:00:{n // 256:02x}:{n % 256:02x}"},
        of_node=True,
        named=True,
    ),
    "portgroup": Family(
        "portgroups", "portgroup", lambda _: {}, since=23, of_node=True, named=True
    ),
    "connector": Family(
        "volume/connectors",
        "volume connector",
        lambda n: {"type": "iqn", "connector_id": f"iqn.{n}"},
        since=32,
        of_node=True,
    ),
    "target": Family(
        "volume/targets",
        "volume target",
        lambda n: {"volume_type": "iscsi", "volume_id": f"v{n}", "boot_index": n},
        since=32,
        of_node=True,
    ),
    "chassis": Family("chassis", "chassis", lambda _: {}),
    "template": Family(
        "deploy_templates",
        "deploy template",
        lambda n: {"name": f"CUSTOM_T{n}", "steps": [PRIORITISED]},
        since=55,
        named=True,
    ),
    "runbook": Family(
        "runbooks",
        "runbook",
        lambda n: {"name": f"CUSTOM_R{n}", "steps": [ORDERED]},
        since=92,
        named=True,
    ),
    "rule": Family(
        "inspection_rules", "inspection rule", lambda _: {"actions": [ACTION]}, since=96
    ),
    "allocation": Family(
        "allocations", "allocation", lambda _: {"resource_class": "big"}, since=52, named=True
    ),
}


def store_allocations(recorder: Recorder, database: Database) -> None:
    """Let the recorded conductor store each allocation, which then stays without a node."""

    def create(allocation: Json) -> None:
        at = datetime.datetime.fromisoformat(allocation["created_at"])
        row = {**allocation, "created_at": at, "conductor": "conductor-1"}
        database.write(lambda conn: allocations.insert(conn, row))

    recorder.answers["create_allocation"] = create
