"""API and conductor in one process on one database; an RPC call is a plain call.

A test can therefore count all SQL statements of an operation, those of both sides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ironic_lite.api import app
from ironic_lite.conductor.endpoints.interceptors import WithoutSecrets
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import stub
from tests.support import conductor_fixture, whole_api
from tests.support.statements import Statements, count_statements
from tests.support.wsgi_client import Client, Response

_PATIENCE = 20.0


@dataclasses.dataclass(frozen=True)
class _Wire:
    """Stands for ``rpc.client.RpcClient``: the only conductor is at hand."""

    rig: conductor_fixture.ConductorFixture
    calls: list[str] = dataclasses.field(default_factory=list)

    def send(self, call: stub.RpcCall) -> Any:
        """Call the conductor itself."""
        self.calls.append(call.method)
        return WithoutSecrets()(call, stub.to(self.rig.endpoints))


class InProcess:
    """A service whose statements can be counted."""

    def __init__(
        self, database: Database, registry: Registry | None = None, **options: Any
    ) -> None:
        """Start both; ``options`` are the conductor's and the API's, as ``group__option``."""
        self.database = database
        self.rig = conductor_fixture.build(
            database, registry, **{"conductor__hash_ring_reset_interval": 3600, **options}
        )
        conf = self.rig.service.runtime.conf
        wire = _Wire(self.rig)
        self.calls = wire.calls
        """The methods of the conductor that were called."""
        self._told = app.listening(database, conf)
        self.api = Client(whole_api.build(database, wire, conf, self._told))
        self.api.get("/v1/nodes/detail")  # now the API knows for an hour who is alive

    def sent(self, ask: Callable[[Client], Response], status: int = 200) -> Statements:
        """Return the statements of a request, and of all the work it started."""
        with count_statements(self.database) as statements:
            answer = ask(self.api)
            assert self.rig.service.runtime.workers.wait_idle(_PATIENCE)
        assert answer.status == status, answer.body
        return statements

    def cleaned(self, node_uuid: str, steps: int, step: str = "management.reset_bmc") -> Statements:
        """Return the statements of a whole manual clean with the same step, which does nothing."""
        interface, name = step.split(".")
        listed = [{"interface": interface, "step": name}] * steps
        body: dict[str, Any] = {"target": "clean", "clean_steps": listed}
        path = f"/v1/nodes/{node_uuid}/states/provision"
        statements = self.sent(lambda api: api.put(path, body), 202)
        row = self.rig.get(node_uuid)
        assert (row["provision_state"], row["last_error"]) == ("manageable", None)
        return statements

    def close(self) -> None:
        """Stop both."""
        self._told.close()
        self.rig.service.stop()
