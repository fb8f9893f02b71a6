"""Reports of ramdisks: whose they are, what they may be like, and what strangers learn."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.controllers import inspection
from ironic_lite.db.engine import session
from ironic_lite.domain.states import State
from tests.api.test_lookup import add_port
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

MAC, OTHER, STRANGE = "52:54:00:12:34:56", "52:54:00:12:34:57", "52:54:00:12:34:58"
ABSENT = "00000000-0000-4000-8000-000000000000"
TOKEN = "t" * 43
PATH = "/v1/continue_inspection"
Json = dict[str, Any]


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
