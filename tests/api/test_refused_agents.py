"""Reports of ramdisks, and the traces of agents and reports that are refused."""

from __future__ import annotations

import logging
import threading
from concurrent import futures
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.auth import failed_attempts
from ironic_lite.api.controllers import inspection
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from ironic_lite.domain.states import State
from ironic_lite.rpc import contract
from tests.api.test_agents import add_port
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

# Traces of refused ramdisks: a warning, an entry of history, and a sentence of ``why``.

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


@pytest.mark.feature("why")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_ramdisk_leaves_one_warning_and_a_sentence_of_why(
    site: Site, recorder: Recorder, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    send, traced, words, status = REFUSED[name]
    if name == "a wrong token":
        wrong = errors.InvalidParameter(path="agent_token", reason=contract.WRONG_TOKEN)
        recorder.answers["heartbeat"] = wrong
    caplog.set_level(logging.WARNING, "ironic_lite.api.auth.failed_attempts")
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
    caplog.set_level(logging.WARNING, "ironic_lite.api.auth.failed_attempts")
    for n in range(300):
        site.lookup(f"addresses=52:54:00:00:{n // 256:02x}:{n % 256:02x}")
        site.beat(f"machine-{n}")
        site.beat(site.node["uuid"], callback_url=f"http://127.0.0.1:{n + 1}")
        site.report(OTHER, f"52:54:00:00:00:{n % 256:02x}", uuid=site.node["uuid"])
    assert len(caplog.records) <= 6
    assert len(site.history(site.node)) <= 3


@pytest.mark.feature("why")
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


@pytest.mark.feature("why")
def test_node_that_waits_gets_its_trace_after_the_limit_of_traces(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_attempts, "MOST_TRACES", 1)
    assert site.report(STRANGE) == 404
    assert site.report(OTHER, uuid=site.node["uuid"]) == 404
    assert "address of a port of node" in site.why(site.node)


def test_closed_endpoints_leave_a_warning(
    site: Site, conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture
) -> None:
    conf.set_override("enable_ramdisk_endpoints", False, "api")
    caplog.set_level(logging.WARNING, "ironic_lite.api.auth.failed_attempts")
    assert [site.lookup(f"addresses={MAC}") for _ in range(3)] == [403] * 3
    assert len(caplog.records) == 1


@pytest.mark.feature("why")
def test_refusal_before_the_wait_is_no_reason_of_it(site: Site, database: session.Database) -> None:
    site.beat(site.node["uuid"], callback_url="http://127.0.0.1:80")
    assert "was refused" in site.why(site.node)
    row = database.read(lambda conn: nodes.get(conn, site.node["uuid"]))
    later = {"provision_updated_at": clock.after(60)}
    generation = row["generation"]
    database.write(lambda conn: nodes.edit(conn, row["uuid"], later, generation=generation))
    assert "was refused" not in site.why(site.node)


# Reports of ramdisks: whose they are, what they may be like, and what strangers learn.

TOKEN = "t" * 43
PATH = "/v1/continue_inspection"


def report(*macs: str, **more: Any) -> Json:
    cards = [{"name": f"eth{at}", "mac_address": mac} for at, mac in enumerate(macs or (MAC,))]
    bmc = more.pop("bmc", {})
    return {"inventory": {"interfaces": cards, **bmc}, "error": None, **more}


@pytest.fixture
def node(add_node: AddNode, database: session.Database) -> Json:
    row = add_node(provision_state="inspect wait")
    add_port(database, row, MAC)
    return row


# -- whose it is -----------------------------------------------------------------------------


def test_a_report_goes_to_the_node_with_the_cards(
    api: Client, node: Json, recorder: Recorder
) -> None:
    sent = report(MAC.upper().replace(":", "-"), STRANGE, root_disk={"name": "/dev/sda"})
    answer = api.post(PATH, sent)
    assert (answer.status, answer.json) == (200, {"uuid": node["uuid"]})
    told = {
        "node_uuid": node["uuid"],
        "inventory": sent["inventory"],
        "plugin_data": {"error": None, "root_disk": {"name": "/dev/sda"}},
        "with_token": False,
    }
    assert recorder.calls == [("continue_inspection", told)]
    assert recorder.hosts == [HOST]


def test_our_own_ramdisks_know_whose_they_are(
    api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    node = add_node(provision_state="inspect wait")
    assert api.post(f"{PATH}?node_uuid={node['uuid']}", report()).status == 200
    failed = {"error": "no disks"}
    assert api.post(f"{PATH}?node_uuid={node['uuid']}", failed).status == 200
    assert recorder.calls[1][1]["inventory"] == {}
    assert recorder.calls[1][1]["plugin_data"] == failed


@pytest.mark.parametrize(
    ("driver_info", "bmc", "found"),
    [
        ({"ipmi_address": "192.0.2.7"}, {"bmc_address": "192.0.2.7"}, True),
        ({"redfish_address": "https://192.0.2.7:8000"}, {"bmc_address": "192.0.2.7"}, True),
        ({"redfish_address": "192.0.2.7"}, {"bmc_address": "192.0.2.7"}, True),
        ({"redfish_address": "https://[2001:db8::7]"}, {"bmc_v6address": "2001:DB8:0::7"}, True),
        ({"ipmi_address": "2001:db8::7"}, {"bmc_v6address": "2001:db8::7"}, True),
        ({"ipmi_address": "192.0.2.8"}, {"bmc_address": "192.0.2.7"}, False),
        ({"ipmi_address": "bmc.example"}, {"bmc_address": "bmc.example"}, False),
        ({"ipmi_address": ""}, {"bmc_address": "0.0.0.0", "bmc_v6address": "::/0"}, False),
        ({"ipmi_address": 7, "redfish_address": "http://[::1"}, {"bmc_address": "::1"}, False),
    ],
    ids=str,
)
def test_a_machine_with_unknown_cards_is_known_by_its_bmc(
    api: Client, add_node: AddNode, driver_info: Json, bmc: Json, found: bool
) -> None:
    node = add_node(provision_state="inspect wait", driver_info=driver_info)
    add_node(provision_state="manageable", driver_info=driver_info)
    answer = api.post(PATH, report(STRANGE, bmc=bmc))
    assert answer.status == (200 if found else 404)
    if found:
        assert answer.json == {"uuid": node["uuid"]}
        add_node(provision_state="inspect wait", driver_info=driver_info)
        assert api.post(PATH, report(STRANGE, bmc=bmc)).status == 404


def test_report_without_any_address_is_refused_with_the_reason(api: Client, node: Json) -> None:
    for bmc in (None, "0.0.0.0"):
        inventory = {"interfaces": [{"mac_address": "none"}], "bmc_address": bmc}
        refused = api.post(PATH, {"inventory": inventory})
        assert (refused.status, "inventory: has no valid address" in refused.text) == (400, True)


def test_report_finds_its_node_with_two_statements(
    api: Client, node: Json, database: session.Database
) -> None:
    api.post(PATH, report())
    with count_statements(database) as sent:
        assert api.post(PATH, report()).status == 200
    assert len(sent) == 2, sent


# -- what strangers learn --------------------------------------------------------------------


@pytest.mark.parametrize("state", [one for one in State if one not in inspection.WAITING])
def test_a_node_in_another_state_is_as_unknown_as_no_node(
    api: Client, add_node: AddNode, database: session.Database, recorder: Recorder, state: State
) -> None:
    row = add_node(provision_state=state.value, driver_info={"ipmi_address": "192.0.2.7"})
    add_port(database, row, OTHER)
    unknown = api.post(PATH, report(STRANGE))
    assert unknown.status == 404
    for path, sent in (
        (PATH, report(OTHER)),
        (PATH, report(STRANGE, bmc={"bmc_address": "192.0.2.7"})),
        (f"{PATH}?node_uuid={row['uuid']}", report(OTHER)),
        (f"{PATH}?node_uuid={ABSENT}", report(OTHER)),
    ):
        answer = api.post(path, sent)
        assert (answer.status, answer.body) == (404, unknown.body)
    assert recorder.calls == []


def test_a_node_that_does_not_wait_for_it_any_more_is_unknown_too(
    api: Client, node: Json, recorder: Recorder
) -> None:
    unknown = api.post(PATH, report(STRANGE))
    recorder.answers["continue_inspection"] = errors.NodeNotFound(node=node["uuid"])
    answer = api.post(PATH, report())
    assert (answer.status, answer.body) == (404, unknown.body)
    assert node["uuid"] not in answer.text


def test_client_that_guesses_addresses_gets_429_and_a_ramdisk_is_served(
    api: Client, node: Json, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 3, "api")
    tried = [api.post(PATH, report(STRANGE)), api.post(PATH, {}), api.post(PATH, report(OTHER))]
    assert [one.status for one in tried] == [404, 400, 404]
    assert api.post(PATH, report(STRANGE)).status == 429
    assert recorder.calls == []
    assert api.post(PATH, report()).status == 200


def test_a_report_that_nests_without_end_counts_as_a_guess(
    api: Client, node: Json, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    json = {"Content-Type": "application/json"}
    statuses = [
        api.request("POST", PATH, body=b"[" * 100_000, headers=json).status for _ in range(2)
    ]
    assert statuses == [400, 429]
    assert api.post(PATH, report()).status < 300


def test_cards_of_two_nodes_are_nobodys(
    api: Client, node: Json, add_node: AddNode, database: session.Database, recorder: Recorder
) -> None:
    second = add_node(provision_state="inspect wait")
    add_port(database, second, OTHER)
    assert api.post(PATH, report(MAC, OTHER)).status == 404
    assert api.post(f"{PATH}?node_uuid={second['uuid']}", report(MAC)).status == 404
    assert recorder.calls == []


# -- versions --------------------------------------------------------------------------------


def lookup_answer(api: Client, node: Json, recorder: Recorder, *, fresh: bool) -> Any:
    recorder.answers["continue_inspection"] = {"agent_token": TOKEN, "fresh": fresh}
    return api.post(f"{PATH}?node_uuid={node['uuid']}", report()).json


def test_from_1_84_on_it_answers_as_a_lookup_does(
    api: Client, node: Json, recorder: Recorder
) -> None:
    found = lookup_answer(api.at(84), node, recorder, fresh=True)
    assert recorder.calls[0][1]["with_token"] is True
    assert found["uuid"] == found["node"]["uuid"] == node["uuid"]
    assert found["config"]["agent_token"] == TOKEN
    assert "driver_info" not in found["node"]
    again = lookup_answer(api.at(84), node, recorder, fresh=False)
    assert again["config"]["agent_token"] == "******"


@pytest.mark.parametrize("default", ["latest", "1.1", "1.50"])
def test_an_agent_that_names_no_version_keeps_its_token_for_its_lookup(
    api: Client, node: Json, recorder: Recorder, conf: cfg.ConfigOpts, default: str
) -> None:
    conf.set_override("default_version", default, "api")
    answer = api.post(f"{PATH}?node_uuid={node['uuid']}", report())
    assert (answer.status, answer.json) == (200, {"uuid": node["uuid"]})
    assert recorder.calls[0][1]["with_token"] is False


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("1", 200),
        ("1?node_uuid={uuid}", 400),
        ("2", 404),
        ("83", 404),
        ("83?node_uuid={uuid}", 404),
        ("84", 200),
        ("115?node_uuid={uuid}", 200),
    ],
)
def test_versions_that_are_named_are_kept_to(
    api: Client, node: Json, recorder: Recorder, asked: str, status: int
) -> None:
    minor, query = int(asked.partition("?")[0]), "".join(asked.partition("?")[1:])
    recorder.answers["continue_inspection"] = {"agent_token": TOKEN, "fresh": True}
    if minor == 1:
        recorder.answers["continue_inspection"] = None
    answer = api.at(minor).post(PATH + query.format(uuid=node["uuid"]), report())
    assert answer.status == status
    assert bool(recorder.calls) is (status == 200)


# -- what it may be like ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        (b"{", ""),
        (b"[]", "/"),
        (b"", "/"),
        (b"{}", "inventory"),
        (b'{"inventory": {"interfaces": [{"name": "x"}]}}', "inventory/interfaces/0/mac_address"),
    ],
    ids=["no JSON", "a list", "empty", "an empty object", "no address"],
)
def test_report_in_another_form_is_refused_with_its_path(
    api: Client, node: Json, recorder: Recorder, sent: bytes, path: str
) -> None:
    answer = api.request("POST", PATH, body=sent, headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert path in answer.text
    assert recorder.calls == []


@pytest.mark.parametrize("what", ["interfaces", "disks"])
def test_no_machine_has_that_many_parts(
    api: Client, node: Json, recorder: Recorder, what: str
) -> None:
    """Each card is looked for by one statement, which has its bounds, and may become a port."""
    cards = [{"name": f"eth{at}", "mac_address": f"02:00:00:{at:06x}"} for at in range(4097)]
    parts = {"interfaces": cards[:1], what: cards}
    answer = api.post(f"{PATH}?node_uuid={node['uuid']}", {"inventory": parts})
    assert answer.status == 400
    assert f"inventory/{what}" in answer.text
    assert recorder.calls == []
    parts[what].pop()
    assert api.post(f"{PATH}?node_uuid={node['uuid']}", {"inventory": parts}).status == 200


@pytest.mark.parametrize("query", ["?foo=1", "?node_uuid=nonsense"])
def test_a_bad_query_is_refused(api: Client, node: Json, query: str) -> None:
    assert api.post(PATH + query, report()).status == 400


def test_a_report_may_have_logs_in_it_but_no_end(
    api: Client, node: Json, recorder: Recorder
) -> None:
    kib = inspection.LIMIT
    assert api.post(PATH, report(logs="A" * (kib - 8) * 1024)).status == 200
    assert api.post(PATH, report(logs="A" * (kib + 8) * 1024)).status == 413
    assert len(recorder.calls) == 1


def test_a_report_without_its_logs_has_a_smaller_limit(
    api: Client, node: Json, recorder: Recorder
) -> None:
    kib = inspection.LIMIT_WITHOUT_LOGS
    more = {"collected": "A" * (kib - 8) * 1024, "logs": "A" * 1024 * 1024}
    assert api.post(PATH, report(**more)).status == 200
    answer = api.post(PATH, report(collected="A" * (kib + 8) * 1024))
    assert (answer.status, f"{kib} KiB" in answer.text) == (413, True)
    assert len(recorder.calls) == 1


def test_reports_are_limited_to_some_at_once(api: Client, node: Json, recorder: Recorder) -> None:
    inside, go_on = threading.Semaphore(0), threading.Event()

    def slow(**_arguments: Any) -> None:
        inside.release()
        go_on.wait(20)

    recorder.answers["continue_inspection"] = slow
    with futures.ThreadPoolExecutor(inspection.AT_ONCE) as pool:
        sent = [pool.submit(api.post, PATH, report()) for _ in range(inspection.AT_ONCE)]
        for _ in sent:
            assert inside.acquire(timeout=20)
        assert api.post(PATH, report()).status == 503
        go_on.set()
    assert {one.result().status for one in sent} == {200}
    assert api.post(PATH, report()).status == 200


def test_a_node_that_is_worked_on_is_asked_for_again(
    api: Client, node: Json, recorder: Recorder
) -> None:
    """An agent comes back after a 409."""
    recorder.answers["continue_inspection"] = errors.NodeLocked(node=node["uuid"], host=HOST)
    assert api.post(PATH, report()).status == 409


def test_the_endpoint_can_be_closed(api: Client, node: Json, conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_ramdisk_endpoints", False, "api")
    assert api.post(PATH, report()).status == 403
