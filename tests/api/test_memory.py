"""No request outlives its answer: neither its objects nor its memory wait for the collector."""

from __future__ import annotations

import collections
import gc
import itertools
import logging
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from oslo_config import cfg

from ironic_lite.api import middleware
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import reencryption
from tests.support import every_route
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, environment

MIB = 1024 * 1024
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = pathlib.Path("/proc") / str(os.getpid()) / "statm"


class _Forgotten(list[Any]):
    def append(self, _: Any) -> None:
        """Keep nothing."""


@pytest.fixture
def recorder() -> Recorder:
    """A conductor that does not keep what it was asked."""
    found = Recorder()
    found.calls, found.hosts, found.contexts = _Forgotten(), _Forgotten(), _Forgotten()
    return found


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage collector, and nothing left for it that is older; no log, which tests keep."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)


def _resident() -> float:
    """Return the memory of this process in MiB."""
    return int(_STATM.read_text().split()[1]) * _PAGE / MIB


def _send(application: middleware.Wsgi, method: str, path: str, body: bytes) -> int:
    environ = environment(method, path, body)
    environ["CONTENT_TYPE"] = "application/json"
    told: list[str] = []
    b"".join(application(environ, lambda status, _headers: told.append(status)))
    return int(told[0].split()[0])


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "header", ["X-OpenStack-Ironic-API-Version", "OpenStack-API-Version", "Host"]
)
def test_headers_are_not_remembered_with_all_their_length(api: Client, header: str) -> None:
    """As many as fit into a cache: 64 KiB each."""
    end = "1.81,compute 2.1" if header.startswith("O") else "1.81"
    for _ in range(10):
        api.get("/v1", headers={header: "baremetal " + end})
    before = _resident()
    for place in range(300):
        name = f"compute {place}{'0' * 60_000},baremetal 1.81" if "S" in header else ""
        api.get("/v1", headers={header: name or f"{place}{'a' * 60_000}"})
    assert _resident() - before < 6


@pytest.mark.usefixtures("uncollected")
def test_fields_and_addresses_are_not_remembered_with_all_their_length(
    api: Client, add_node: AddNode
) -> None:
    node = add_node()["uuid"]
    chosen = ["uuid,name,", "name,uuid,", "driver,uuid,", "uuid,driver,"]

    def ask(place: int) -> None:
        names = chosen[place % 4] * (3000 + place)
        assert api.get(f"/v1/nodes?fields={names[:-1]}").status == 200
        url = f"http://10.0.0.1:9999/{place}{'a' * 40_000}"
        beat = {"callback_url": url, "agent_token": "x", "agent_version": "1"}
        assert api.post(f"/v1/heartbeat/{node}", beat).status == 400

    for place in range(10):
        ask(place)
    before = _resident()
    for place in range(200):
        ask(place)
    assert _resident() - before < 6


@pytest.fixture
def requests(add_node: AddNode, conf: cfg.ConfigOpts) -> list[every_route.Request]:
    """A thousand requests over every route; nothing is removed for the next one."""
    conf.set_override("ramdisk_refusals_per_minute", 0, "api")
    node = add_node(name="known", provision_state="manageable")["uuid"]
    some = every_route.requests({"ident": node, "node_ident": node})
    kept = [one for one in some if not (one[0] == "DELETE" and one[1].endswith(node))]
    return list(itertools.islice(itertools.cycle(kept), max(1000, len(kept))))


@pytest.mark.usefixtures("uncollected")
def test_reference_counting_alone_frees_a_thousand_requests_of_every_route(
    application: middleware.Wsgi, requests: list[every_route.Request]
) -> None:
    large = orjson.dumps({"filling": "x" * 200_000, "more": [{"a": 1.5}] * 2000})
    own = [
        (method, path, large if body and place % 3 == 0 else body)
        for place, (method, path, body) in enumerate(requests)
    ]
    for one in own:  # what is made once: statements, plans, connections
        _send(application, *one)
    gc.collect()
    objects, memory, told = len(gc.get_objects()), _resident(), collections.Counter[int]()
    for one in own:
        told[_send(application, *one)] += 1
    grown, more = len(gc.get_objects()) - objects, _resident() - memory
    left = gc.collect()
    assert left == 0, f"{left} objects of the requests were in cycles"
    assert grown < len(own), f"{grown} objects more than before"
    assert more < 16, f"{more} MiB more after 60 MiB of bodies"
    assert told.keys() >= {200, 202, 204, 400, 404}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(("target", "status"), [("active", 202), ("nonsense", 400)])
def test_memory_of_bodies_of_16_mib_returns(
    application: middleware.Wsgi, add_node: AddNode, target: str, status: int
) -> None:
    node = add_node(provision_state="available")["uuid"]
    body = orjson.dumps({"target": target, "configdrive": "H4sI" * 4 * MIB})
    path = f"/v1/nodes/{node}/states/provision"
    assert _send(application, "PUT", path, body) == status
    before = _resident()
    for _ in range(4):
        assert _send(application, "PUT", path, body) == status
    assert _resident() - before < 8, "one of them is larger"


@pytest.mark.usefixtures("uncollected")
def test_reference_counting_frees_the_examination_of_keys(sqlite_database: Database) -> None:
    """The doctor examines at most every ten seconds, so not with each request above."""
    for _ in range(2):
        reencryption.missing_keys(sqlite_database)
        left = gc.collect()
    assert left == 0
