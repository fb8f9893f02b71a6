"""Traces of refused ramdisks: a warning, an entry of history, and a sentence of ``why``."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.auth import refused_agents
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from ironic_lite.rpc import interface
from tests.api.test_continue_inspection import report
from tests.api.test_lookup import add_port
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

MAC, OTHER, STRANGE = "52:54:00:12:34:56", "52:54:00:12:34:57", "52:54:00:12:34:58"
ABSENT = "00000000-0000-4000-8000-000000000000"
BEAT = {"callback_url": "https://192.0.2.9:9999", "agent_version": "11", "agent_token": "t" * 43}
Json = dict[str, Any]


class Site:
    """Two nodes that wait for ramdisks, one that does not, and a client that is a ramdisk."""

    def __init__(self, api: Client, add_node: AddNode, database: session.Database) -> None:
        self.api = api
        self.node, self.other, self.idle = (
            add_node(provision_state=state, driver_info=info)
            for state, info in (
                ("inspect wait", {"redfish_address": "https://192.0.2.3"}),
                ("inspect wait", {"redfish_address": "https://192.0.2.3"}),
                ("available", {}),
            )
        )
        for row, mac in ((self.node, MAC), (self.other, OTHER)):
            add_port(database, row, mac)

    def report(self, *macs: str, uuid: str = "", **more: Any) -> int:
        query = f"?node_uuid={uuid}" if uuid else ""
        return self.api.post(f"/v1/continue_inspection{query}", report(*macs, **more)).status

    def lookup(self, query: str) -> int:
        return self.api.get(f"/v1/lookup?{query}").status

    def beat(self, uuid: str, **more: Any) -> int:
        return self.api.post(f"/v1/heartbeat/{uuid}", {**BEAT, **more}).status

    def why(self, row: Json) -> str:
        return str(self.api.get(f"/v1/nodes/{row['uuid']}/why").json["says"])

    def history(self, row: Json) -> list[Json]:
        found = self.api.get(f"/v1/nodes/{row['uuid']}/history?detail=true").json["history"]
        return [one for one in found if one["event_type"] == "ramdisk"]


@pytest.fixture
def site(api: Client, add_node: AddNode, database: session.Database) -> Site:
    return Site(api, add_node, database)


REFUSED: dict[str, tuple[Any, tuple[str, ...], str, int]] = {
    # what the ramdisk sends, nodes that get a trace, words of the reason, and status
    "a port of another node": (
        lambda site: site.report(OTHER, uuid=site.node["uuid"]),
        ("node", "other"),
        "address of a port of node",
        404,
    ),
    "ports of two nodes": (
        lambda site: site.report(MAC, OTHER),
        ("node", "other"),
        "address of a port of node",
        404,
    ),
    "a BMC of two nodes": (
        lambda site: site.report(STRANGE, bmc={"bmc_address": "192.0.2.3"}),
        ("node", "other"),
        "several nodes",
        404,
    ),
    "a report without cards": (
        lambda site: (
            site.api.post(
                f"/v1/continue_inspection?node_uuid={site.node['uuid']}", {"inventory": {}}
            ).status
        ),
        ("node",),
        "inventory/interfaces",
        400,
    ),
    "a report that is no JSON": (
        lambda site: (
            site.api.post(f"/v1/continue_inspection?node_uuid={site.node['uuid']}", "{").status
        ),
        ("node",),
        "",
        400,
    ),
    "a lookup of two nodes": (
        lambda site: site.lookup(f"addresses={MAC},{OTHER}"),
        ("node", "other"),
        "ports of several nodes",
        404,
    ),
    "a wrong token": (
        lambda site: site.beat(site.node["uuid"]),
        ("node",),
        "agent_token",
        400,
    ),
    "no token": (
        lambda site: site.beat(site.node["uuid"], agent_token=None),
        ("node",),
        "agent_token",
        400,
    ),
    "no version": (
        lambda site: site.beat(site.node["uuid"], agent_version=None),
        ("node",),
        "agent_version",
        400,
    ),
    "an address of no machine": (
        lambda site: site.beat(site.node["uuid"], callback_url="http://127.0.0.1:80"),
        ("node",),
        "callback_url",
        400,
    ),
    "no URL": (
        lambda site: site.beat(site.node["uuid"], callback_url="ftp://192.0.2.9"),
        ("node",),
        "callback_url",
        400,
    ),
    "a node of another state, by its report": (
        lambda site: site.report(STRANGE, uuid=site.idle["uuid"]),
        ("idle",),
        'in state "available"',
        404,
    ),
    "a node of another state, by its lookup": (
        lambda site: site.lookup(f"node_uuid={site.idle['uuid']}"),
        ("idle",),
        'in state "available"',
        404,
    ),
    "no node, by its report": (lambda site: site.report(STRANGE), (), "no node that waits", 404),
    "no node, by its lookup": (
        lambda site: site.lookup(f"addresses={STRANGE}"),
        (),
        "no node has a port",
        404,
    ),
    "no node, by its heartbeat": (lambda site: site.beat(ABSENT), (), "heartbeat", 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_ramdisk_leaves_one_warning_and_a_sentence_of_why(
    site: Site, recorder: Recorder, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    send, traced, words, status = REFUSED[name]
    if name == "a wrong token":
        wrong = errors.InvalidParameter(path="agent_token", reason=interface.WRONG_TOKEN)
        recorder.answers["heartbeat"] = wrong
    caplog.set_level(logging.WARNING, "ironic_lite.api.auth.refused_agents")
    assert [send(site) for _ in range(3)] == [status] * 3
    lines = [one.getMessage() for one in caplog.records if "was refused" in one.getMessage()]
    assert len(lines) == max(1, len(traced))
    assert all(words in line for line in lines)
    for place, row in enumerate(getattr(site, one) for one in traced):
        assert sum(row["uuid"] in line.partition("was refused")[0] for line in lines) == 1, place
        waits = row is not site.idle
        assert len(site.history(row)) == waits
        assert ("was refused" in site.why(row)) is waits
        assert not waits or words in site.why(row)
    for row in (site.node, site.other, site.idle):
        if row["uuid"] not in [getattr(site, one)["uuid"] for one in traced]:
            assert site.history(row) == []


def test_hostile_sender_fills_neither_log_nor_table(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ironic_lite.api.auth.refused_agents")
    for n in range(300):
        site.lookup(f"addresses=52:54:00:00:{n // 256:02x}:{n % 256:02x}")
        site.beat(f"machine-{n}")
        site.beat(site.node["uuid"], callback_url=f"http://127.0.0.1:{n + 1}")
        site.report(OTHER, f"52:54:00:00:00:{n % 256:02x}", uuid=site.node["uuid"])
    assert len(caplog.records) <= 6
    assert len(site.history(site.node)) <= 3


@pytest.mark.parametrize("named", [True, False])
def test_node_that_waits_gets_its_trace_beside_many_others(
    site: Site, add_node: AddNode, database: session.Database, named: bool
) -> None:
    macs = [MAC]
    for n in range(8):
        macs.append(f"52:54:00:00:01:{n:02x}")
        uuid = f"00000000-0000-4000-8000-{n:012x}"
        add_port(database, add_node(uuid=uuid, provision_state="active"), macs[-1])
    assert site.report(*macs, uuid=site.node["uuid"] if named else "") == 404
    assert len(site.history(site.node)) == 1
    assert "address of a port of node" in site.why(site.node)


def test_repeated_wait_gets_its_own_trace(site: Site, database: session.Database) -> None:
    assert site.report(OTHER, uuid=site.node["uuid"]) == 404
    row = database.read(lambda conn: nodes.get(conn, site.node["uuid"]))
    again = {"provision_updated_at": clock.after(-1)}
    generation = row["generation"]
    database.write(lambda conn: nodes.edit(conn, row["uuid"], again, generation=generation))
    assert site.report(OTHER, uuid=site.node["uuid"]) == 404
    assert len(site.history(site.node)) == 2


def test_node_that_waits_gets_its_trace_after_the_limit_of_traces(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_agents, "MOST", 1)
    assert site.report(STRANGE) == 404
    assert site.report(OTHER, uuid=site.node["uuid"]) == 404
    assert "address of a port of node" in site.why(site.node)


def test_closed_endpoints_leave_a_warning(
    site: Site, conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture
) -> None:
    conf.set_override("enable_ramdisk_endpoints", False, "api")
    caplog.set_level(logging.WARNING, "ironic_lite.api.auth.refused_agents")
    assert [site.lookup(f"addresses={MAC}") for _ in range(3)] == [403] * 3
    assert len(caplog.records) == 1


def test_refusal_before_the_wait_is_no_reason_of_it(site: Site, database: session.Database) -> None:
    site.beat(site.node["uuid"], callback_url="http://127.0.0.1:80")
    assert "was refused" in site.why(site.node)
    row = database.read(lambda conn: nodes.get(conn, site.node["uuid"]))
    later = {"provision_updated_at": clock.after(60)}
    generation = row["generation"]
    database.write(lambda conn: nodes.edit(conn, row["uuid"], later, generation=generation))
    assert "was refused" not in site.why(site.node)
