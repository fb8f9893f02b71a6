"""A conductor that does not answer: what it never took goes to the next, and nothing goes twice."""

from __future__ import annotations

import datetime
import functools
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors, membership
from ironic_lite.api import health
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import conductors
from tests.support import whole_api
from tests.support.api_rows import DRIVERS, HOST, AddNode, add_conductor
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, Response

OTHERS = ("conductor-2", "conductor-3")
HOSTS = (HOST, *OTHERS)


class Away:
    """What conductors answer of whom some are away, each in its way."""

    def __init__(self, recorder: Recorder, **answers: Any) -> None:
        self.how: dict[str, type[errors.Error]] = {}
        self._recorder = recorder
        for method, answer in answers.items():
            recorder.answers[method] = functools.partial(self._answer, answer)

    def _answer(self, answer: Any, **_arguments: Any) -> Any:
        host = str(self._recorder.hosts[-1])
        if host in self.how:
            raise self.how[host](host=host)
        return answer


@pytest.fixture
def database(database: Database) -> Database:
    """Three conductors live."""
    for host in OTHERS:
        add_conductor(database, host)
    return database


@pytest.fixture
def away(recorder: Recorder) -> Away:
    """Nobody is away yet."""
    names = {"power": "fake", "management": "fake", "deploy": "fake"}
    return Away(
        recorder,
        start_verb=None,
        check_node=names,
        get_driver_properties={"a": "b"},
        heartbeat=None,
        vif_attach=None,
    )


def order(node: dict[str, Any]) -> list[str]:
    """Return who owns a node, then who would, were all before him gone."""
    left = [membership.Member(host, "", frozenset(DRIVERS)) for host in HOSTS]
    found = []
    while left:
        owner = membership.owner(left, "", node["driver"], node["uuid"])
        assert owner is not None
        found.append(owner)
        left = [one for one in left if one.host != owner]
    return found


def manage(api: Client, node: dict[str, Any]) -> Response:
    return api.put(f"/v1/nodes/{node['uuid']}/states/provision", {"target": "manage"})


def test_call_that_a_dead_conductor_did_not_accept_goes_to_the_next(
    api: Client, recorder: Recorder, add_node: AddNode, away: Away
) -> None:
    node = add_node()
    first, second, third = order(node)
    away.how = {first: errors.ConductorNotListening, second: errors.ConductorNotListening}
    assert manage(api, node).status == 202
    assert recorder.hosts == [first, second, third]
    assert manage(api, node).status == 202
    assert recorder.hosts[3:] == [third], "who did not answer is not asked again"
    shown = api.get(f"/v1/nodes/{node['uuid']}").json
    assert shown["conductor"] == first, "whose node it is, the signs of life decide"


def test_call_that_may_have_been_accepted_is_not_sent_again(
    api: Client, recorder: Recorder, add_node: AddNode, away: Away
) -> None:
    node = add_node()
    first, second, _ = order(node)
    away.how = {first: errors.ConductorUnresponsive}
    answer = manage(api, node)
    assert (answer.status, recorder.hosts) == (503, [first])
    assert int(answer.headers["retry-after"]) > 0
    assert manage(api, node).status == 202
    assert recorder.hosts == [first, second], "the request that comes after it goes elsewhere"


def test_conductor_that_answers_is_no_longer_doubted(
    database: Database, conf: cfg.ConfigOpts, recorder: Recorder, add_node: AddNode, away: Away
) -> None:
    service, node = whole_api.routed(database, recorder, conf).service, add_node()
    first, second, _ = order(node)
    for host in HOSTS:
        service.fleet.doubt(host)
    assert service.fleet.host_for(node) == first
    away.how = {host: errors.ConductorUnresponsive for host in HOSTS if host != second}
    assert health.Readiness(lambda: service).ask()[0]
    assert service.fleet.host_for(node) == second


def test_a_broker_that_is_away_makes_nobody_doubted(
    api: Client, recorder: Recorder, add_node: AddNode, away: Away
) -> None:
    node = add_node()
    away.how = {order(node)[0]: errors.NoConductor}
    assert [manage(api, node).status for _ in range(2)] == [503, 503]
    assert recorder.hosts == [order(node)[0]] * 2


def test_conductors_are_asked_once_each_if_none_listens(
    api: Client, recorder: Recorder, add_node: AddNode, away: Away
) -> None:
    node = add_node()
    away.how = dict.fromkeys(HOSTS, errors.ConductorNotListening)
    answer = manage(api, node)
    assert (answer.status, recorder.hosts) == (503, order(node))
    away.how = {}
    assert manage(api, node).status == 202, "those who all are doubted are asked all the same"


def test_a_new_sign_of_life_ends_the_doubt_and_an_old_one_does_not(
    database: Database,
    recorder: Recorder,
    conf: cfg.ConfigOpts,
    add_node: AddNode,
    away: Away,
) -> None:
    def beat(host: str, at: datetime.datetime) -> None:
        database.write(functools.partial(conductors.touch, host=host, now=at))

    conf.set_override("hash_ring_reset_interval", 0, group="conductor")  # reads for each request
    api = Client(whole_api.build(database, recorder, conf))
    node = add_node()
    first, second, _ = order(node)
    assert manage(api, node).status == 202
    beat(first, clock.now())
    away.how = {first: errors.ConductorNotListening}
    assert manage(api, node).status == 202
    away.how = {}
    assert manage(api, node).status == 202
    assert recorder.hosts == [first, first, second, second], "it beat before it was gone"
    beat(first, clock.now())
    assert manage(api, node).status == 202
    assert recorder.hosts[4:] == [first]


def test_heartbeats_and_vifs_are_taken_by_the_next_as_well(
    api: Client, recorder: Recorder, add_node: AddNode, away: Away
) -> None:
    node = add_node(provision_state="clean wait")
    first, second, third = order(node)
    away.how = {first: errors.ConductorNotListening}
    beat = {"callback_url": "https://a:1", "agent_token": "t" * 43, "agent_version": "13.0.0"}
    assert api.post(f"/v1/heartbeat/{node['uuid']}", beat).status == 202
    assert recorder.hosts == [first, second]
    away.how[second] = errors.ConductorNotListening
    assert api.post(f"/v1/nodes/{node['uuid']}/vifs", {"id": "a"}).status == 204
    assert recorder.hosts[2:] == [second, third]


def test_call_without_a_node_goes_to_the_next_too(
    api: Client, recorder: Recorder, away: Away
) -> None:
    away.how = {HOST: errors.ConductorNotListening}
    assert api.post("/v1/nodes", {"driver": "fake-hardware"}).status == 201
    assert recorder.hosts == [HOST, OTHERS[0]]
    assert api.get("/v1/drivers/redfish/properties").json == {"a": "b"}
    assert recorder.hosts[2:] == [OTHERS[0]]


def test_a_conductor_of_another_group_is_never_asked_instead(
    api: Client, database: Database, recorder: Recorder, add_node: AddNode, away: Away
) -> None:
    add_conductor(database, "far", group="rack-nine")
    node = add_node(conductor_group="rack-nine")
    away.how = {"far": errors.ConductorNotListening}
    assert manage(api, node).status == 503
    assert recorder.hosts == ["far"]
