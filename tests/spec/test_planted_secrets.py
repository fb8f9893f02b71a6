"""Secrets planted wherever a caller can write: no answer, log, event or notification has them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.api.http import request as http_request
from ironic_lite.core import config
from ironic_lite.db.engine import encryption
from ironic_lite.db.tables import models
from tests.support import planted_secrets, whole_api
from tests.support.operator import Operator
from tests.support.planted_secrets import MAC, STEP, Place, Planter
from tests.support.wsgi_client import Client

Json = dict[str, Any]

_OPEN_FIELDS = ("extra", "properties", "network_data", "local_link_connection")
_OPEN = {
    (collection, one.name)
    for collection, table in planted_secrets.families()
    for one in table
    if one.name in _OPEN_FIELDS and not one.secret
}
"""What is shown as it was written, where it was written: docs/security.rst says so."""


class Answers:
    """Keeps what the API answers, headers and all, and to which routes secrets were sent."""

    def __init__(self, inner: Any, planter: Planter) -> None:
        self._inner = inner
        self._planter = planter
        self.said: list[tuple[str, int, str]] = []
        self.sent: set[tuple[str, str]] = set()

    def __call__(self, environ: http_request.Environ, start: Any) -> list[bytes]:
        told: list[str] = []

        def note(status: str, headers: Any, *rest: Any) -> Any:
            told.append(f"{status} {headers}")
            return start(status, headers, *rest)

        given = environ["wsgi.input"].getvalue().decode()
        body = b"".join(self._inner(environ, note))
        route = environ[http_request.CALL].route
        if self._planter.found(given):
            self.sent.add((environ["REQUEST_METHOD"], route))
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        self.said.append((request, int(told[0].split()[0]), f"{told} {body.decode()}"))
        return [body]


@pytest.fixture
def planter() -> Planter:
    return Planter()


@pytest.fixture
def operator(serve: Callable[..., Operator], planter: Planter) -> Iterator[Operator]:
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("endpoint_override", "http://192.0.2.1:6385", "service_catalog")
    found = serve(
        DEFAULT__notification_level="debug",
        DEFAULT__enabled_inspect_interfaces=["fake", "agent"],
        oslo_messaging_notifications__driver=["log"],
    )
    found.api = Client(Answers(found.api.app, planter))
    yield found
    config.CONF.clear_override("endpoint_override", "service_catalog")


# -- what is done with them ------------------------------------------------------------------


def _live(operator: Operator, planter: Planter, node: str) -> None:
    """Lead the node through a life, with secrets in what verbs take."""
    tree = planter.tree
    _inspect(operator, planter, node)
    for verb in ("clean", "service"):
        key = f"{verb}_steps"
        if verb == "service":
            operator.provision(node, "provide")
            drive = {"user_data": planter("nodes", "configdrive"), "meta_data": {"hostname": "x"}}
            deploy = {**STEP, "step": "erase_devices", "priority": 0}
            steps = [{**deploy, "args": tree("nodes", "deploy_steps")}]
            operator.asks(node, "active", configdrive=drive, deploy_steps=steps)
            operator.rig.settled(node)
            operator.provision(node, "active", configdrive=drive)
        operator.asks(node, verb, **{key: [{**STEP, "args": tree("nodes", key)}]})
        operator.rig.settled(node)
        wrong = {**STEP, "args": {}, "password": planter("nodes", key)}
        assert operator.asks(node, verb, **{key: [wrong]}).status == 400
        setting = {"name": "AdminPassword", "value": planter("nodes", key)}
        bios = {"interface": "bios", "step": "apply_configuration", "args": {"settings": [setting]}}
        assert operator.api.delete(f"/v1/nodes/{node}/maintenance").status == 202
        if operator.shows(node)["provision_state"] == "clean failed":
            operator.provision(node, "manage")
        operator.provision(node, verb, **{key: [bios]})
    operator.provision(node, "rescue", rescue_password=planter("nodes", "rescue_password"))
    operator.provision(node, "unrescue")


def _inspect(operator: Operator, planter: Planter, node: str) -> None:
    """Let the node's ramdisk report, with secrets in what it says, and the rules be applied."""
    told = {
        "interfaces": [{"name": "eth0", "mac_address": MAC}],
        "cpu": {"count": 2, "architecture": "x86_64"},
        "memory": {"physical_mb": 2048},
        "disks": [{"name": "/dev/sda", "size": 32 * 1024**3}],
    }
    report = {
        "inventory": {**told, **planter.tree("inventory", "inventory")},
        "ruled": planter.tree("inventory", "plugin_data"),
    }
    assert operator.patches(node, inspect_interface="agent").status == 200
    assert operator.asks(node, "inspect").status == 202
    operator.rig.reaches(node, "inspect wait")
    answer = operator.api.post(f"/v1/continue_inspection?node_uuid={node}", report)
    assert answer.status == 200, answer.text
    operator.rig.reaches(node, "manageable")


def _order(operator: Operator, planter: Planter, ids: Json) -> None:
    """Send a secret to every route that takes a body, rightly or wrongly."""
    node = ids["nodes"]
    for route in _taking():
        words = {**ids, "drivers": "fake-hardware"}
        collection = route.path.partition("/{")[0].removeprefix("/")
        path = route.path.replace("{ident}", words.get(collection, node))
        path = path.replace("{name}", "fake-hardware").replace("{method}", "nothing")
        for name in ("component", "indicator", "trait"):
            path = path.replace(f"{{{name}}}", "CUSTOM_X")
        more = "?method=nothing" if path.endswith("vendor_passthru") else ""
        names = [name for name, _, _ in route.arguments if f"{{{name}}}" not in route.path]
        bodies: list[Any] = [planter.tree("bodies", route.path), [planter("bodies", route.path)]]
        bodies += [{name: planter.tree("bodies", route.path)} for name in names]
        for one in bodies:
            operator.api.request(route.method, f"/v1{path}{more}", one)
    signed = f"https://me:{planter('bodies', 'url')}@images/a.iso?key={planter('bodies', 'url')}"
    drive = {"device_type": "cdrom", "image_url": signed}
    assert operator.api.post(f"/v1/nodes/{node}/vmedia", drive).status in {202, 204}
    operator.rig.settled(node)
    remembered = {"value": planter.tree("nodes", "driver_internal_info")}
    path = f"/v1/nodes/{node}/vendor_passthru?method=remember"
    assert operator.api.post(path, remembered).status == 200
    vif = {"id": "a-vif", **planter.tree("vifs", "vif")}
    assert operator.api.post(f"/v1/nodes/{node}/vifs", vif).status == 204


def _taking() -> list[Any]:
    """Return the routes that take a body."""
    rows = [route for each in whole_api.CONTROLLERS for route, _ in each.exposed()]
    return [route for route in rows if route.receives and route.method != "HEAD"]


def _look(operator: Operator, ids: Json) -> None:
    """Ask every route that only tells."""
    for each in whole_api.CONTROLLERS:
        for route, _ in each.exposed():
            if route.method == "GET":
                collection = route.path.partition("/{")[0].removeprefix("/")
                word = str(ids.get(collection, ids["nodes"]))
                path = route.path.replace("{ident}", word).replace("{name}", "fake-hardware")
                operator.api.get(f"/v1{path}")
    for collection in ids:
        assert operator.api.get(f"/v1/{collection}/{ids[collection]}").status == 200
        names = ",".join(one.name for one in dict(planted_secrets.families())[collection])
        assert operator.api.get(f"/v1/{collection}?fields={names}").status == 200
    for run in operator.api.get(f"/v1/nodes/{ids['nodes']}/runs").json["runs"]:
        operator.api.get(f"/v1/nodes/{ids['nodes']}/runs/{run['uuid']}")
    operator.api.get(f"/v1/nodes/{ids['nodes']}/history?detail=true")
    operator.api.get("/v1/nodes?detail=true")
    assert operator.api.get("/metrics").status == 200


# -- where they are, and where they are not --------------------------------------------------


def test_planted_secrets_are_found_nowhere(
    operator: Operator, planter: Planter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ids = planted_secrets.plant(operator, planter)
    operator.provision(ids["nodes"], "manage")
    planted_secrets.change(operator, planter, ids)
    _live(operator, planter, ids["nodes"])
    _order(operator, planter, ids)
    _look(operator, ids)
    answers: Answers = operator.api.app  # type: ignore[assignment]

    assert {(one.method, one.path) for one in _taking()} - answers.sent == set()
    for request, status, said in answers.said:
        shown = planter.found(said)
        # A refusal does not even repeat what is open.
        assert shown <= (_OPEN if status < 400 else set()), (request, status, shown)
    assert sum(row.name.startswith("oslo.messaging.notification") for row in caplog.records) > 10
    assert planter.found(caplog.text) == set()
    _check_tables(operator, planter)


def _check_tables(operator: Operator, planter: Planter) -> None:
    """Find each secret where it was written, sealed unless it is open there; and nowhere else."""
    held: set[Place] = set()
    for table in models.metadata.sorted_tables:
        for column in table.columns:
            found = planter.found(_stored(operator, column))
            assert found <= _OPEN or isinstance(column.type, encryption.EncryptedJSON), (
                column,
                found,
            )
            held |= found
    # They are there: what was searched could have shown them.
    everything = {
        (name, one)
        for name, table in planted_secrets.families()
        for one in planted_secrets.free(table)
    }
    assert everything - planted_secrets.CLOSED <= held
    assert {("inventory", "inventory"), ("inventory", "plugin_data")} <= held


def _stored(operator: Operator, column: sa.Column[Any]) -> str:
    query = sa.select(sa.cast(column, sa.Text))
    return str(operator.rig.database.read(lambda conn: conn.execute(query).scalars().all()))


@pytest.mark.parametrize(("collection", "field"), sorted(planted_secrets.CLOSED))
def test_a_list_of_words_takes_nothing_else(
    operator: Operator, planter: Planter, collection: str, field: str
) -> None:
    known = planted_secrets.needs("")[collection]
    for wrong in ([planter.tree(collection, field)], planter.tree(collection, field)):
        answer = operator.api.post(f"/v1/{collection}", {**known, field: wrong})
        assert (answer.status, planter.found(answer.text)) == (400, set())
