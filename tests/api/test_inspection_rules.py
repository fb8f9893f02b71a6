"""Inspection rules: sensitive ones, which show nothing, and the removal of all rules."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from ironic_lite.db.engine import session
from tests.support import whole_api
from tests.support.conductor_recorder import Ear, Recorder
from tests.support.wsgi_client import Client, op

PLACE = "/v1/inspection_rules"
SET = {"op": "set-attribute", "args": {"path": "/extra/a", "value": "{node.name}"}}
IF = {"op": "eq", "args": {"values": ["{inventory[cpu][count]}", 4]}}

Json = dict[str, Any]


def add(api: Client, **values: Any) -> Json:
    answer = api.post(PLACE, {"actions": [SET], **values})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def test_rules_are_removed_together(api: Client) -> None:
    for _ in range(2):
        add(api)
    assert api.at(95).delete(PLACE).status == 405
    assert api.delete(PLACE).status == 204
    assert api.get(PLACE).json == {"inspection_rules": []}


def test_sensitive_rule_shows_its_actions_nowhere(api: Client) -> None:
    shown = add(api, sensitive=True, conditions=[IF])
    path = f"{PLACE}/{shown['uuid']}"
    patched = api.patch(path, [op("add", "/actions/-", SET)])
    assert patched.status == 200
    listed = api.get(f"{PLACE}?detail=true").json["inspection_rules"]
    chosen = api.get(f"{PLACE}?fields=actions,conditions").json["inspection_rules"]
    one = api.get(f"{path}?fields=actions,conditions").json
    for each in (shown, patched.json, api.get(path).json, *listed, *chosen, one):
        assert (each["actions"], each["conditions"]) == (None, None)
    answer = api.patch(path, [op("replace", "/sensitive", False)])
    assert (answer.status, "sensitive" in answer.text) == (400, True)


def test_listeners_are_told_of_rules_but_not_what_a_sensitive_one_does(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    ear = Ear()
    api = Client(whole_api.build(database, recorder, conf, ear))
    for sensitive in (False, True):
        path = f"{PLACE}/{add(api, sensitive=sensitive)['uuid']}"
        api.patch(path, [op("replace", "/priority", 9)])
        api.delete(path)
    assert [about["actions"] for _, about in ear.heard] == [[SET]] * 3 + [None] * 3
    assert [about["conditions"] for _, about in ear.heard] == [[]] * 3 + [None] * 3
