"""Secrets planted wherever a caller can write: no answer, log, event or notification has them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_messaging.notify import _impl_test as notified

from ironic_lite.api import controllers
from ironic_lite.api.wire import exchange
from ironic_lite.api.wire.expose import _ROUTE
from tests.api.client import Client
from tests.spec.operator import Operator

Json = dict[str, Any]

_OPEN = {
    ("nodes", "extra"),
    ("nodes", "properties"),
    ("nodes", "network_data"),
    ("ports", "extra"),
    ("chassis", "extra"),
    ("deploy_templates", "extra"),
    ("allocations", "extra"),
    ("portgroups", "extra"),
    ("volume/targets", "extra"),
    ("runbooks", "extra"),
}
"""What is shown as it was written, where it was written: docs/security.rst says so."""


_STEP = {"interface": "deploy", "step": "erase_devices"}


class Planter:
    """Makes secrets, and knows each by where it lies."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[str, str]] = {}

    def __call__(self, collection: str, field: str) -> str:
        text = f"pLaNtEd{len(self.made):03}x"
        self.made[text] = (collection, field)
        return text

    def tree(self, collection: str, field: str) -> Json:
        """Return an object with secrets under usual names at several depths."""

        def new() -> str:
            return self(collection, field)

        return {
            "password": new(),
            "ipmi_password": new(),
            "deeper": {"api_key": new(), "list": [{"auth_token": new()}, [{"secret": new()}]]},
            "whole_secret": {"any": new()},
            "url": f"https://user:{new()}@example.org/file",
            "settings": [{"name": "AdminPassword", "value": new()}],
            "snmp_priv_key": new(),
        }

    def found(self, text: str) -> set[tuple[str, str]]:
        """Return where the secrets that are in a text were planted."""
        return {place for secret, place in self.made.items() if secret in text}


class Answers:
    """Keeps what the API answers, headers and all."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.said: list[tuple[str, str]] = []

    def __call__(self, environ: exchange.Environ, start: Any) -> list[bytes]:
        told: list[str] = []

        def note(status: str, headers: Any, *rest: Any) -> Any:
            told.append(f"{status} {headers}")
            return start(status, headers, *rest)

        body = b"".join(self._inner(environ, note))
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        self.said.append((request, f"{told} {body.decode()}"))
        return [body]


@pytest.fixture
def planter() -> Planter:
    return Planter()


@pytest.fixture
def operator(serve: Callable[..., Operator]) -> Iterator[Operator]:
    notified.reset()
    found = serve(
        DEFAULT__notification_level="debug", oslo_messaging_notifications__driver=["test"]
    )
    found.api = Client(Answers(found.api.app))
    yield found
    notified.reset()


def _plant(operator: Operator, planter: Planter) -> Json:
    """Write secrets into everything; return words for paths."""
    api, tree = operator.api, planter.tree
    chassis = api.post("/v1/chassis", {"extra": tree("chassis", "extra")})
    assert chassis.status == 201
    node = operator.enroll(
        "enroll",
        driver_info=tree("nodes", "driver_info"),
        instance_info={
            **tree("nodes", "instance_info"),
            "image_url": planter("nodes", "instance_info"),
        },
        extra=tree("nodes", "extra"),
        properties=tree("nodes", "properties"),
        chassis_uuid=chassis.json["uuid"],
        resource_class="metal",
    )
    port = api.post(
        "/v1/ports",
        {"node_uuid": node, "address": "52:54:00:00:00:01", "extra": tree("ports", "extra")},
    )
    step = {**_STEP, "priority": 0}
    template = api.post(
        "/v1/deploy_templates",
        {
            "name": "CUSTOM_T",
            "steps": [{**step, "args": tree("deploy_templates", "steps")}],
            "extra": tree("deploy_templates", "extra"),
        },
    )
    return {
        "nodes": node,
        "ports": port.json["uuid"],
        "chassis": chassis.json["uuid"],
        "deploy_templates": template.json["uuid"],
        **_plant_more(operator, planter, node),
    }


def _plant_more(operator: Operator, planter: Planter, node: str) -> Json:
    """Write secrets into what is beside nodes; return words for paths."""
    tree, owner = planter.tree, {"node_uuid": node}
    asked = {
        "targets": {
            **owner,
            "volume_type": "iscsi",
            "boot_index": 0,
            "volume_id": "v-1",
            "properties": tree("volume/targets", "properties"),
            "extra": tree("volume/targets", "extra"),
        },
        "portgroups": {**owner, "extra": tree("portgroups", "extra")},
        "runbooks": {
            "name": "CUSTOM_R",
            "steps": [{**_STEP, "order": 1, "args": tree("runbooks", "steps")}],
            "extra": tree("runbooks", "extra"),
        },
        "allocations": {"resource_class": "none", "extra": tree("allocations", "extra")},
    }
    found = {}
    for name, body in asked.items():
        place = f"volume/{name}" if name == "targets" else name
        answer = operator.api.post(f"/v1/{place}", body)
        assert answer.status == 201, answer.text
        found[name] = answer.json["uuid"]
    return found


def _change(operator: Operator, planter: Planter, ids: Json) -> None:
    """Change everything, rightly and wrongly."""
    node, api = ids["nodes"], operator.api
    for field in ("driver_info", "instance_info", "extra", "properties"):
        patch = [{"op": "add", "path": f"/{field}/more", "value": planter.tree("nodes", field)}]
        assert api.patch(f"/v1/nodes/{node}", patch).status == 200
        secret = planter("nodes", "wrong")
        for wrong in (
            [{"op": "add", "path": f"/{field}/password/x/y", "value": secret}],
            [{"op": "replace", "path": f"/{field}", "value": secret}],
            [{"op": "add", "path": f"/{field}/a", "value": 1, "password": secret}],
            [{"op": secret, "path": f"/{field}/a", "value": 1}],
            {"password": secret},
        ):
            assert api.patch(f"/v1/nodes/{node}", wrong).status == 400
    secret = planter("nodes", "wrong")
    for body in (
        {"driver": "fake-hardware", "driver_info": secret},
        {"driver": "fake-hardware", "driver_info": [secret]},
        {"driver": {"password": secret}},
    ):
        assert api.post("/v1/nodes", body).status == 400
    patch = [{"op": "add", "path": "/extra/b", "value": planter.tree("ports", "extra")}]
    assert api.patch(f"/v1/ports/{ids['ports']}", patch).status == 200


def _live(operator: Operator, planter: Planter, ids: Json) -> None:
    """Lead the node through a life, with secrets in what verbs take."""
    node = ids["nodes"]
    operator.provision(node, "manage")
    step = _STEP
    args = planter.tree("nodes", "clean_steps")
    assert operator.asks(node, "clean", clean_steps=[{**step, "args": args}]).status in {202, 400}
    operator.rig.settled(node)
    wrong = {**step, "args": {}, "password": planter("nodes", "clean_steps")}
    assert operator.asks(node, "clean", clean_steps=[wrong]).status == 400
    if operator.shows(node)["provision_state"] != "manageable":
        operator.provision(node, "manage")
        assert operator.api.delete(f"/v1/nodes/{node}/maintenance").status == 202
    operator.provision(node, "provide")
    drive = {"user_data": planter("nodes", "configdrive"), "meta_data": {"hostname": "x"}}
    operator.provision(node, "active", configdrive=drive)
    operator.provision(node, "rescue", rescue_password=planter("nodes", "rescue_password"))
    operator.provision(node, "unrescue")
    operator.provision(node, "deleted")


def _look(operator: Operator, ids: Json) -> None:
    """Ask every route that only tells."""
    for controller in controllers.ALL:
        for name in vars(controller):
            route = getattr(getattr(controller, name), _ROUTE, None)
            if route is None or route.method != "GET":
                continue
            collection = route.path.partition("/{ident}")[0].rpartition("/")[2]
            word = ids.get(collection, ids["nodes"])
            path = route.path.replace("{ident}", word).replace("{name}", "fake-hardware")
            operator.api.get(f"/v1{path}")
    for run in operator.api.get(f"/v1/nodes/{ids['nodes']}/runs").json["runs"]:
        operator.api.get(f"/v1/nodes/{ids['nodes']}/runs/{run['uuid']}")
    operator.api.get(f"/v1/nodes/{ids['nodes']}/history?detail=true")
    operator.api.get("/v1/nodes?detail=true")
    operator.api.get("/v1/nodes?fields=driver_info,instance_info,driver_internal_info,deploy_step")


def test_planted_secrets_are_found_nowhere(
    operator: Operator, planter: Planter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ids = _plant(operator, planter)
    _change(operator, planter, ids)
    _live(operator, planter, ids)
    _look(operator, ids)
    answers: Answers = operator.api.app  # type: ignore[assignment]

    assert len(planter.made) > 100
    for request, said in answers.said:
        shown = planter.found(said)
        assert shown <= _OPEN, (request, shown - _OPEN)
    assert planter.found(caplog.text) == set()
    told = json.dumps([each[1:] for each in notified.NOTIFICATIONS], default=str)
    assert len(notified.NOTIFICATIONS) > 10
    assert planter.found(told) == set()
    assert planter.found(_rows(operator, "events")) == set()
    # They are there: what was searched could have shown them.
    assert ("nodes", "driver_info") in planter.found(_rows(operator, "nodes"))
    assert ("volume/targets", "properties") in planter.found(_rows(operator, "volume_targets"))
    assert ("runbooks", "steps") in planter.found(_rows(operator, "runbooks"))


def _rows(operator: Operator, table: str) -> str:
    database = operator.rig.database
    query = sa.text(f"SELECT * FROM {table}")
    return str(database.read(lambda conn: [tuple(row) for row in conn.execute(query)]))
