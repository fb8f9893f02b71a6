"""An operator who sends and sees everything over HTTP, with API and conductor in this process.

API and conductor are real and share a process, so a test can also wait for the conductor, read the
database (``rig``) and let time pass.
"""

from __future__ import annotations

from typing import Any

from ironic_lite.db.engine.session import Database
from tests.support.conductor_fixture import listed
from tests.support.in_process import InProcess
from tests.support.wsgi_client import Client, Response

Json = dict[str, Any]

_WAYS: dict[str, tuple[str, ...]] = {
    "enroll": (),
    "manageable": ("manage",),
    "available": ("manage", "provide"),
    "active": ("manage", "provide", "active"),
}


class Operator:
    """Sends requests, and waits until the conductor has nothing left to do.

    :param options: of the service, as ``group__option``.
    """

    def __init__(self, database: Database, **options: Any) -> None:
        self.whole = InProcess(database, **options)
        self.rig = self.whole.rig
        self.api: Client = self.whole.api

    # -- nodes -------------------------------------------------------------------------------

    def enroll(self, state: str = "manageable", **fields: Any) -> str:
        """Create a node, lead it to a stable state by verbs, and return its UUID.

        :param fields: of the POST; ``fake_`` keys go into driver_info.
        """
        told = {key: fields.pop(key) for key in list(fields) if key.startswith("fake_")}
        body: Json = {"driver": "fake-hardware", "driver_info": told, **fields}
        answer = self.api.post("/v1/nodes", body)
        assert answer.status == 201, answer.text
        node = str(answer.json["uuid"])
        for target in _WAYS[state]:
            self.provision(node, target)
        assert self.shows(node)["provision_state"] == state
        return node

    def shows(self, node: str) -> Json:
        """Return the node as GET shows it."""
        answer = self.api.get(f"/v1/nodes/{node}")
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def patches(self, node: str, **values: Any) -> Response:
        """Replace fields of a node; a key with ``__`` is a path (``driver_info__fake_x``)."""
        patch = [
            {"op": "add", "path": "/" + key.replace("__", "/"), "value": value}
            for key, value in values.items()
        ]
        return self.api.patch(f"/v1/nodes/{node}", patch)

    # -- verbs -------------------------------------------------------------------------------

    def asks(self, node: str, target: str, **body: Any) -> Response:
        """Send a provision verb; neither its answer nor its end is judged."""
        return self.api.put(f"/v1/nodes/{node}/states/provision", {"target": target, **body})

    def provision(self, node: str, target: str, **body: Any) -> Json:
        """Send a verb that is accepted, wait until nobody works on the node, and return it."""
        answer = self.asks(node, target, **body)
        assert answer.status == 202, answer.text
        self.rig.settled(node)
        return self.shows(node)

    def clean(self, node: str, *titles: str, **body: Any) -> Json:
        """Clean by hand with these ``interface.step``."""
        return self.provision(node, "clean", clean_steps=listed(*titles), **body)

    def refused(self, node: str, target: str, status: int, **body: Any) -> str:
        """Send a verb that is refused and changes nothing; return the sentence of the refusal."""
        before = self.rig.get(node)
        answer = self.asks(node, target, **body)
        assert answer.status == status, (answer.status, answer.text)
        assert self.rig.get(node) == before
        return answer.text

    # -- time --------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Run each periodic sweep of the conductor once, and wait for its work to end."""
        for name in self.rig.service.sweeps.plan:
            self.rig.sweep(name)
        assert self.rig.service.runtime.workers.wait_idle(60)

    # -- the ramdisk -------------------------------------------------------------------------

    def reports(self, node: str) -> Response:
        """Send a heartbeat as the node's ramdisk does, with the token of its look-up."""
        assert self.api.get(f"/v1/lookup?node_uuid={node}").status == 200
        told = self.rig.get(node)["driver_internal_info"]
        body = {
            "callback_url": "https://192.0.2.10:9999",
            "agent_version": "11.0.0",
            "agent_token": told["agent_secret_token"],
        }
        answer = self.api.post(f"/v1/heartbeat/{node}", body)
        assert answer.status == 202, answer.text
        return answer

    def close(self) -> None:
        """Stop the service."""
        self.whole.close()
