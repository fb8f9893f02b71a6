"""A whole conductor in this process: real database, real workers, real fake-hardware, no RPC."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable
from typing import Any

from ironic_lite import config, context
from ironic_lite.conductor.service import Service
from ironic_lite.db import nodes, runs
from ironic_lite.db import events as db_events
from ironic_lite.db.session import Database
from ironic_lite.drivers.registry import Registry, Settings

_PATIENCE = 20.0  # seconds before a condition that does not come true fails the test


def wait_for(what: Callable[[], Any], about: object = None) -> Any:
    """Return the first true value of ``what()``; fail when it never comes."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"never became true: {about() if callable(about) else about}")


@dataclasses.dataclass
class Rig:
    """One conductor and the nodes of one test."""

    database: Database
    service: Service
    who: context.Context = dataclasses.field(
        default_factory=lambda: context.Context("req-test", user="tester")
    )

    @property
    def endpoints(self) -> Any:
        """What the API would call."""
        return self.service.endpoints

    def node(self, state: str = "manageable", **values: Any) -> str:
        """Add a node and return its UUID."""
        node_uuid = str(uuid.uuid4())
        row = {
            "uuid": node_uuid,
            "driver": "fake-hardware",
            "provision_state": state,
            "driver_info": {},
            "properties": {},
            "extra": {},
            "instance_info": {},
            "driver_internal_info": {},
            **values,
        }
        self.database.write(lambda conn: nodes.insert(conn, row))
        return node_uuid

    def get(self, node_uuid: str) -> dict[str, Any]:
        """Return the node's row."""
        return self.database.read(lambda conn: nodes.get(conn, node_uuid))

    def call(self, method: str, node_uuid: str, **args: Any) -> dict[str, Any]:
        """Call an endpoint, wait for the worker, return the node."""
        getattr(self.endpoints, method)(self.who, node_uuid=node_uuid, **args)
        return self.settled(node_uuid)

    def act(self, action: str, node_uuid: str) -> dict[str, Any]:
        """Carry out a verb without a body."""
        return self.call("do_provisioning_action", node_uuid, action=action)

    def settled(self, node_uuid: str) -> dict[str, Any]:
        """Wait until nobody holds the node, and return it."""
        return wait_for(lambda: self._free(node_uuid), lambda: self.get(node_uuid))

    def reaches(self, node_uuid: str, state: str) -> dict[str, Any]:
        """Wait until the node rests in ``state``, and return it."""
        return wait_for(
            lambda: (row := self._free(node_uuid)) and row["provision_state"] == state and row,
            lambda: self.get(node_uuid),
        )

    def _free(self, node_uuid: str) -> dict[str, Any] | None:
        row = self.get(node_uuid)
        return row if row["reservation"] is None else None

    def events(self, node_uuid: str, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the node's history."""
        kinds = [kind] if kind else None
        return self.database.read(
            lambda conn: db_events.page(conn, node_uuid=node_uuid, limit=1000, kinds=kinds)
        )

    def path(self, node_uuid: str) -> list[str]:
        """Return the provision states the node went through."""
        return [row["after"] for row in self.events(node_uuid, "provision")]

    def runs(self, node_uuid: str) -> list[dict[str, Any]]:
        """Return the node's runs, oldest first, each with its steps."""
        found = self.database.read(
            lambda conn: runs.page(conn, node_uuid, direction="asc", limit=100)
        )
        for run in found:
            key = run["uuid"]
            run["steps"] = self.database.read(lambda conn, key=key: runs.steps(conn, key))
        return found


def configure(**values: Any) -> Any:
    """Return the configuration of a test conductor; keys are ``group__option``."""
    conf = config.load("ironic-lite-conductor", ["--config-file", "/dev/null"])
    settings = {
        "DEFAULT__host": "here",
        "DEFAULT__enabled_hardware_types": ["fake-hardware"],
        "conductor__workers_pool_size": 20,
        "conductor__node_locked_retry_interval": 1,
        **values,
    }
    for name, value in settings.items():
        group, option = name.split("__")
        conf.set_override(option, value, None if group == "DEFAULT" else group)
    return conf


def build(database: Database, **values: Any) -> Rig:
    """Return a rig whose conductor is registered, listens to timers, and runs no sweep."""
    off = {
        "conductor__check_provision_state_interval": 0,
        "conductor__sync_power_state_interval": 0,
        "conductor__power_failure_recovery_interval": 0,
    }
    conf = configure(**{**off, **values})
    service = Service(conf, database, Registry.load(Settings.read(conf)), None)
    service.start()
    return Rig(database, service)
