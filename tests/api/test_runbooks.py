"""Runbooks: their names, their traits from 1.112 on, the verbs that open them, and rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.db.engine import session
from ironic_lite.db.tables import models
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Ear, Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response, op

ABSENT = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
PLACE = "/v1/runbooks"
RAID = {"interface": "raid", "step": "delete_configuration", "args": {}, "order": 2}
BIOS = {"interface": "bios", "step": "factory_reset", "args": {}, "order": 1}

Json = dict[str, Any]


def add(api: Client, name: str = "book-1", **values: Any) -> Json:
    answer = api.post(PLACE, {"name": name, "steps": [RAID, BIOS], **values})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def test_name_of_a_runbook_is_a_trait_before_1_112(api: Client) -> None:
    add(api, "CUSTOM_A")
    path, old = f"{PLACE}/CUSTOM_A", api.at(111)
    assert old.post(PLACE, {"name": "book-1", "steps": [BIOS]}).status == 400
    assert old.get(f"{path}/traits").status == 404
    assert old.put(f"{path}/traits/CUSTOM_A").status == 404
    assert api.get(f"{path}/traits").json == {"traits": []}


def test_public_runbook_gets_no_owner(api: Client) -> None:
    before = add(api, public=True)
    assert api.patch(f"{PLACE}/book-1", [op("replace", "/owner", "me")]).status == 400
    assert api.get(f"{PLACE}/book-1").json == before


# -- traits ----------------------------------------------------------------------------------


def test_traits_of_a_runbook_are_set_added_and_removed(api: Client) -> None:
    add(api)
    path = f"{PLACE}/book-1/traits"
    assert api.get(path).json == {"traits": []}
    assert api.put(path, {"traits": ["CUSTOM_B", "CUSTOM_A", "CUSTOM_B"]}).status == 204
    answer = api.put(f"{path}/HW_CPU_X86_VMX")
    assert answer.status == 204
    assert answer.headers["location"].endswith(f"{path}/HW_CPU_X86_VMX")
    assert api.put(f"{path}/CUSTOM_A").status == 204
    assert api.get(path).json["traits"] == ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"]
    assert api.get(f"{PLACE}/book-1").json["traits"] == api.get(path).json["traits"]
    for trait in ("CUSTOM_A", "CUSTOM_NONE"):
        assert api.delete(f"{path}/{trait}").status == 204
    assert api.get(path).json["traits"] == ["CUSTOM_B", "HW_CPU_X86_VMX"]
    assert api.delete(path).status == 204
    assert api.get(path).json == {"traits": []}


@pytest.mark.parametrize(
    ("where", "body"),
    [
        ("", None),
        ("", {}),
        ("", {"traits": ["bad"]}),
        ("", {"traits": "CUSTOM_A"}),
        ("", {"traits": [], "more": 1}),
        ("", {"traits": [f"CUSTOM_{n}" for n in range(51)]}),
        ("/bad", None),
        ("/CUSTOM_A", {"traits": []}),
    ],
    ids=["nothing", "empty", "bad", "no list", "more", "too many", "bad one", "one with a body"],
)
def test_bad_traits_are_refused(api: Client, where: str, body: Any) -> None:
    add(api)
    path = f"{PLACE}/book-1/traits"
    assert api.put(path, {"traits": ["CUSTOM_A"]}).status == 204
    assert api.put(f"{path}{where}", body).status == 400
    assert api.get(path).json == {"traits": ["CUSTOM_A"]}


def test_listeners_are_told_of_a_new_trait_once(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    ear = Ear()
    api = Client(whole_api.build(database, recorder, conf, ear))
    add(api)
    for _ in range(2):
        api.put(f"{PLACE}/book-1/traits/CUSTOM_A")
    assert ear.kinds == ["runbook_created", "runbook_updated"]
    assert {about["name"] for _, about in ear.heard} == {"book-1"}


def test_traits_have_a_budget_of_statements(api: Client, database: session.Database) -> None:
    add(api)
    path = f"{PLACE}/book-1/traits"
    asked: tuple[tuple[int, Callable[[], Response]], ...] = (
        (3, lambda: api.put(f"{path}/CUSTOM_A")),
        (1, lambda: api.get(path)),
    )
    for budget, send in asked:
        with count_statements(database) as sent:
            assert send().status < 300
        assert len(sent) <= budget, sent


# -- verbs -----------------------------------------------------------------------------------


@pytest.fixture
def ask(api: Client, add_node: AddNode, database: session.Database) -> Callable[..., Response]:
    """A function that asks a node with a trait for a verb."""

    def send(target: str = "clean", version: int | None = None, **body: Any) -> Response:
        state = {"clean": "manageable", "service": "active"}.get(target, "manageable")
        node = add_node(provision_state=state)["uuid"]
        row = {"node_uuid": node, "trait": "CUSTOM_A"}
        database.write(lambda conn: conn.execute(models.traits.insert(), row))
        client = api if version is None else api.at(version)
        return client.put(f"/v1/nodes/{node}/states/provision", {"target": target, **body})

    return send


@pytest.mark.parametrize(
    ("target", "key"),
    [("clean", "clean_steps"), ("service", "service_steps")],
    ids=["clean", "service"],
)
def test_a_verb_opens_a_runbook(
    api: Client,
    recorder: Recorder,
    ask: Callable[..., Response],
    *,
    target: str,
    key: str,
) -> None:
    book = add(api, disable_ramdisk=True)
    api.put(f"{PLACE}/book-1/traits/CUSTOM_A")
    for ident in ("book-1", book["uuid"]):
        assert ask(target, runbook=ident).status == 202
        ((called, args),) = recorder.calls
        recorder.calls.clear()
        assert (called, args["event"]) == ("start_verb", target)
        assert (args["body"][key], args["body"]["disable_ramdisk"]) == ([BIOS, RAID], True)


def test_before_1_112_its_name_is_the_trait(
    api: Client, recorder: Recorder, ask: Callable[..., Response]
) -> None:
    add(api, "CUSTOM_A")
    add(api, "CUSTOM_B")
    assert ask(version=111, runbook="CUSTOM_A").status == 202
    answer = ask(version=111, runbook="CUSTOM_B")
    assert (answer.status, "CUSTOM_B" in answer.text) == (400, True)
    answer = ask(runbook="CUSTOM_A")
    assert (answer.status, "has no traits" in answer.text) == (400, True)
    assert [name for name, _ in recorder.calls] == ["start_verb"]


@pytest.mark.parametrize(
    ("target", "version", "more", "status"),
    [
        ("clean", 91, {}, 406),
        ("clean", None, {"clean_steps": [{"interface": "bios", "step": "x"}]}, 400),
        ("clean", None, {"disable_ramdisk": True}, 400),
        ("clean", None, {"runbook": "nope"}, 404),
        ("clean", None, {"runbook": ""}, 400),
        ("clean", None, {"runbook": 5}, 400),
        ("provide", None, {}, 400),
        ("inspect", None, {}, 400),
    ],
    ids=["version", "steps", "ramdisk", "absent", "empty", "number", "provide", "inspect"],
)
def test_a_runbook_that_cannot_be_opened_is_refused(
    api: Client,
    recorder: Recorder,
    ask: Callable[..., Response],
    *,
    target: str,
    version: int | None,
    more: Json,
    status: int,
) -> None:
    add(api)
    api.put(f"{PLACE}/book-1/traits/CUSTOM_A")
    answer = ask(target, version, **{"runbook": "book-1", **more})
    assert answer.status == status, answer.text
    assert recorder.calls == []


def test_steps_disallowed_since_are_refused(
    api: Client, recorder: Recorder, ask: Callable[..., Response], conf: cfg.ConfigOpts
) -> None:
    add(api)
    api.put(f"{PLACE}/book-1/traits/CUSTOM_A")
    conf.set_override("disallow_clean_steps", ["raid.delete_configuration"], "api")
    answer = ask(runbook="book-1")
    assert (answer.status, "clean_steps/1" in answer.text) == (400, True)
    assert ask("service", runbook="book-1").status == 202


# Who may see, change and use runbooks, by Ironic's default rules.

STEP = {"interface": "raid", "step": "delete_configuration", "args": {}, "order": 1}


@pytest.fixture
def book(callers: Callers) -> dict[str, Any]:
    """A runbook that all may see."""
    made = callers("admin").post(PLACE, {"name": "CUSTOM_ALL", "steps": [STEP], "public": True})
    assert made.status == 201, made.text
    return dict(made.json)


@pytest.mark.parametrize(
    ("method", "below", "body"),
    [
        ("PATCH", "", [op("add", "/extra/x", 1)]),
        ("PATCH", "", [op("replace", "/public", False)]),
        ("PATCH", "", [op("replace", "/public", False), op("add", "/owner", STRANGER)]),
        ("DELETE", "", None),
        ("PUT", "/traits", {"traits": ["CUSTOM_A"]}),
        ("DELETE", "/traits", None),
    ],
)
def test_a_public_runbook_is_seen_by_all_and_changed_by_few(
    callers: Callers, book: dict[str, Any], method: str, below: str, body: Any
) -> None:
    path = f"{PLACE}/{book['uuid']}{below}"
    for role, project in (("reader", None), ("admin", OWNER), ("reader", STRANGER)):
        api = callers(role, project)
        assert api.get(f"{PLACE}/{book['uuid']}").status == 200
        answer = api.request(method, path, body)
        assert answer.status == 403
        assert "baremetal:runbook:" in answer.text
    assert callers("reader").get(f"{PLACE}/{book['uuid']}").json == book
    assert callers("member").request(method, path, body).status in {200, 204}
