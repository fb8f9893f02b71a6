"""Runbooks: their life from 1.92 on, their traits from 1.112 on, and the verbs that open them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import app
from ironic_lite.db.engine import session
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Ear, Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response, op

ABSENT = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
PLACE = "/v1/runbooks"
RAID = {"interface": "raid", "step": "delete_configuration", "args": {}, "order": 2}
BIOS = {"interface": "bios", "step": "factory_reset", "args": {}, "order": 1}
FIELDS = {
    *("uuid", "name", "description", "steps", "traits", "disable_ramdisk", "public", "owner"),
    *("extra", "created_at", "updated_at", "links"),
}

Json = dict[str, Any]


def add(api: Client, name: str = "book-1", **values: Any) -> Json:
    answer = api.post(PLACE, {"name": name, "steps": [RAID, BIOS], **values})
    assert answer.status == 201, answer.text
    return dict(answer.json)


# -- CRUD ------------------------------------------------------------------------------------


def test_a_runbook_is_created_whole(api: Client) -> None:
    body = {
        "uuid": ABSENT,
        "name": "my.book_~1",
        "description": "why",
        "steps": [{**RAID, "order": "2"}, {k: v for k, v in BIOS.items() if k != "args"}],
        "disable_ramdisk": True,
        "owner": "me",
        "extra": {"a": 1},
    }
    answer = api.post(PLACE, body)
    assert answer.status == 201, answer.text
    assert answer.headers["location"] == f"http://localhost:6385{PLACE}/{ABSENT}"
    shown = answer.json
    assert set(shown) == FIELDS
    expected = {**body, "steps": [RAID, BIOS], "public": False, "traits": []}
    assert {name: shown[name] for name in expected} == expected
    assert api.get(f"{PLACE}/my.book_~1").json == api.get(f"{PLACE}/{ABSENT}").json == shown
    assert api.delete(f"{PLACE}/my.book_~1").status == 204
    assert api.get(PLACE).json == {"runbooks": []}


BAD: dict[str, tuple[Json, str]] = {
    "no name": ({"name": None}, "name"),
    "a name with a blank": ({"name": "a b"}, "name"),
    "a UUID for a name": ({"name": ABSENT}, "name"),
    "no steps": ({"steps": []}, "steps"),
    "steps null": ({"steps": None}, "steps"),
    "no order": ({"steps": [{"interface": "bios", "step": "x"}]}, "steps/0/order"),
    "a bad order": ({"steps": [{**BIOS, "order": -1}]}, "steps/0/order"),
    "a priority": ({"steps": [{**BIOS, "priority": 1}]}, "steps/0/priority"),
    "a bad interface": ({"steps": [RAID, {**BIOS, "interface": "no"}]}, "steps/1/interface"),
    "twice": ({"steps": [RAID, BIOS, RAID]}, "steps/2"),
    "a wait without sense": (
        {"steps": [{**BIOS, "step": "wait", "args": {"seconds": "x"}}]},
        "steps/0/args",
    ),
    "disallowed": (
        {"steps": [{**BIOS, "interface": "vendor", "step": "send_raw"}]},
        "steps/0/step",
    ),
    "traits": ({"traits": ["CUSTOM_A"]}, "traits"),
    "a long description": ({"description": "a" * 256}, "description"),
    "a public one with an owner": ({"public": True, "owner": "me"}, "owner"),
    "extra a list": ({"extra": []}, "extra"),
    "an unknown key": ({"colour": "red"}, "colour"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_runbook_is_refused(api: Client, case: str) -> None:
    values, path = BAD[case]
    answer = api.post(PLACE, {"name": "book-1", "steps": [BIOS], **values})
    assert (answer.status, f"{path}: " in answer.text) == (400, True), answer.text
    assert api.get(PLACE).json == {"runbooks": []}


@pytest.mark.parametrize("key", ["name", "steps"])
def test_runbook_needs_a_name_and_steps(api: Client, key: str) -> None:
    body = {"name": "book-1", "steps": [BIOS]}
    del body[key]
    assert api.post(PLACE, body).text == f"Schema error for runbook: {key}: is required"


def test_two_differ_by_name(api: Client) -> None:
    add(api)
    answer = api.post(PLACE, {"name": "book-1", "steps": [BIOS]})
    assert (answer.status, "A runbook with name book-1 already" in answer.text) == (409, True)


def test_versions_of_runbooks(api: Client) -> None:
    shown = add(api, "CUSTOM_A", description="why")
    path = f"{PLACE}/CUSTOM_A"
    for version, status in ((91, 404), (92, 200)):
        old = api.at(version)
        assert {old.get(one).status for one in (PLACE, path)} == {status}
        assert ("runbooks" in old.get("/v1").json) == (status == 200)
    assert api.at(91).post(PLACE, {"name": "CUSTOM_B", "steps": [BIOS]}).status == 405
    old = api.at(111)
    assert set(old.get(path).json) == FIELDS - {"description", "traits"}
    assert old.post(PLACE, {"name": "book-1", "steps": [BIOS]}).status == 400
    named = {"name": "CUSTOM_B", "steps": [BIOS], "description": "x"}
    assert old.post(PLACE, named).status == 406
    assert old.get(f"{path}/traits").status == 404
    assert old.put(f"{path}/traits/CUSTOM_A").status == 404
    assert api.get(path).json == shown


def test_lists_are_brief_and_paged(api: Client) -> None:
    add(api, "b", owner="me")
    add(api, "a", public=True)
    add(api, "c", owner="you")

    def names(query: str) -> list[str]:
        answer = api.get(f"{PLACE}?{query}")
        assert answer.status == 200, answer.text
        return [one["name"] for one in answer.json["runbooks"]]

    assert [set(one) for one in api.get(PLACE).json["runbooks"]] == [{"uuid", "name", "links"}] * 3
    assert [set(one) for one in api.get(f"{PLACE}?detail=true").json["runbooks"]] == [FIELDS] * 3
    assert names("sort_key=name") == ["a", "b", "c"]
    assert names("project=me") == ["b", "a"]
    page = api.get(f"{PLACE}?limit=2").json
    assert names(page["next"].partition("?")[2]) == ["c"]
    for bad in ("sort_key=traits", "sort_key=steps", "fields=nope", "limit=0", "name=a"):
        assert api.get(f"{PLACE}?{bad}").status == 400


def test_a_runbook_is_patched(api: Client) -> None:
    add(api, owner="me")
    path = f"{PLACE}/book-1"
    hold = {"interface": "power", "step": "hold", "args": {}, "order": 3}
    after = api.patch(path, [op("add", "/steps/-", hold), op("add", "/description", "x")]).json
    assert (after["steps"], after["description"]) == ([RAID, BIOS, hold], "x")
    after = api.patch(path, [op("replace", "/public", True)]).json
    assert (after["public"], after["owner"]) == (True, None)
    for bad in (
        [op("replace", "/owner", "me")],
        [op("replace", "/steps", [])],
        [op("add", "/steps/-", RAID)],
        [op("add", "/traits", ["CUSTOM_A"])],
        [op("remove", "/name")],
        [op("replace", "/uuid", ABSENT)],
    ):
        assert api.patch(path, bad).status == 400, bad
    assert api.get(path).json == after
    both = [op("replace", "/public", False), op("replace", "/owner", "me")]
    assert api.patch(path, both).json["owner"] == "me"


def test_secret_arguments_are_never_shown(api: Client, database: session.Database) -> None:
    secret = {**BIOS, "args": {"password": "s3same"}}
    shown = add(api, steps=[secret])["steps"]
    assert shown[0]["args"] == {"password": "******"}
    path = f"{PLACE}/book-1"
    assert b"s3same" not in api.get(path).body + api.get(f"{PLACE}?detail=true").body
    shown[0]["order"] = 5
    assert api.patch(path, [op("replace", "/steps", shown)]).status == 200
    rows = database.read(lambda conn: conn.execute(models.runbooks.select()).all())
    assert "s3same" in str(rows)


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


@pytest.mark.parametrize("ident", [ABSENT, "nope"])
def test_an_absent_runbook_is_not_found(api: Client, ident: str) -> None:
    path = f"{PLACE}/{ident}"
    for answer in (
        api.get(path),
        api.delete(path),
        api.patch(path, [op("add", "/extra/a", 1)]),
        api.get(f"{path}/traits"),
        api.put(f"{path}/traits", {"traits": []}),
        api.delete(f"{path}/traits/CUSTOM_A"),
    ):
        assert (answer.status, "Runbook" in answer.text) == (404, True)


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
    ("target", "method", "key"),
    [
        ("clean", "do_node_clean", "clean_steps"),
        ("service", "do_node_service", "service_steps"),
    ],
    ids=["clean", "service"],
)
def test_a_verb_opens_a_runbook(
    api: Client,
    recorder: Recorder,
    ask: Callable[..., Response],
    *,
    target: str,
    method: str,
    key: str,
) -> None:
    book = add(api, disable_ramdisk=True)
    api.put(f"{PLACE}/book-1/traits/CUSTOM_A")
    for ident in ("book-1", book["uuid"]):
        assert ask(target, runbook=ident).status == 202
        ((called, args),) = recorder.calls
        recorder.calls.clear()
        assert called == method
        assert (args[key], args["disable_ramdisk"]) == ([BIOS, RAID], True)


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
    assert [name for name, _ in recorder.calls] == ["do_node_clean"]


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


@pytest.mark.parametrize("body", [5, True, "x", {"a": 1}, None, [5], [{"path": 5}]])
def test_invalid_patch_of_a_runbook_is_refused(api: Client, body: Any) -> None:
    before = add(api)
    assert api.patch(f"{PLACE}/book-1", body).status == 400
    assert api.get(f"{PLACE}/book-1").json == before


# -- listeners and cost ----------------------------------------------------------------------


def test_listeners_are_told(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    ear = Ear()
    api = Client(app.build(database, recorder, conf, ear))  # type: ignore[arg-type]
    add(api)
    api.put(f"{PLACE}/book-1/traits/CUSTOM_A")
    api.put(f"{PLACE}/book-1/traits/CUSTOM_A")
    api.delete(f"{PLACE}/book-1")
    assert ear.kinds == [f"runbook_{what}" for what in ("created", "updated", "deleted")]
    assert {about["name"] for _, about in ear.heard} == {"book-1"}


def test_each_request_has_a_budget_of_statements(
    api: Client, database: session.Database, ask: Callable[..., Response]
) -> None:
    add(api)
    path = f"{PLACE}/book-1"
    asked: tuple[tuple[int, Callable[[], Response]], ...] = (
        (1, lambda: api.get(PLACE)),
        (1, lambda: api.get(path)),
        (1, lambda: api.get(f"{path}/traits")),
        (3, lambda: api.put(f"{path}/traits/CUSTOM_A")),
        (3, lambda: api.patch(path, [op("add", "/extra/a", 1)])),
        (3, lambda: api.delete(path)),
    )
    for budget, send in asked:
        with count_statements(database) as sent:
            assert send().status < 300
        assert len(sent) <= budget, sent
