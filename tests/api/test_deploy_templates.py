"""Deploy templates: their life from 1.55 on, each fault by its path, secrets, and their cost."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import app
from ironic_lite.db.engine import session
from tests.support.conductor_recorder import Ear, Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response, op

ABSENT = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
PLACE = "/v1/deploy_templates"
STEP = {
    "interface": "bios",
    "step": "apply_configuration",
    "args": {"settings": [{"name": "LogicalProc", "value": "Enabled"}]},
    "priority": 150,
}
RAID = {"interface": "raid", "step": "apply_configuration", "args": {}, "priority": 0}

Json = dict[str, Any]


def add(api: Client, name: str = "CUSTOM_A", **values: Any) -> Json:
    """Create a template and return it as answered."""
    answer = api.post(PLACE, {"name": name, "steps": [STEP], **values})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def names(answer: Response) -> list[str]:
    """Return the names in a list."""
    return [template["name"] for template in answer.json["deploy_templates"]]


# -- the four acts ---------------------------------------------------------------------------


def test_a_template_is_created_whole(api: Client) -> None:
    body = {"name": "CUSTOM_A", "steps": [RAID, STEP], "extra": {"a": 1}, "uuid": ABSENT}
    answer = api.post(PLACE, body)
    assert answer.status == 201
    path = f"{PLACE}/{ABSENT}"
    assert answer.headers["location"] == f"http://localhost:6385{path}"
    shown = answer.json
    assert {name: shown[name] for name in body} == body
    assert (shown["updated_at"], shown["created_at"][-6:]) == (None, "+00:00")
    assert [link["href"][21:] for link in shown["links"]] == [path, path.removeprefix("/v1")]
    assert set(shown) == {*body, "created_at", "updated_at", "links"}
    assert api.get(path).json == api.get(f"{PLACE}/CUSTOM_A").json == shown


def test_template_gets_defaults_for_missing_fields(api: Client) -> None:
    shown = add(api, uuid=None, extra=None)
    assert uuid.UUID(shown["uuid"]).version == 4
    assert shown["extra"] == {}


@pytest.mark.parametrize("name", ["CUSTOM_" + "A" * 248, "HW_CPU_X86_VMX", "CUSTOM__0"])
def test_any_trait_names_a_template(api: Client, name: str) -> None:
    add(api, name)
    assert api.get(f"{PLACE}/{name}?fields=name").json["name"] == name


def test_priorities_are_kept_as_numbers(api: Client) -> None:
    given = ["007", 0, sys.maxsize]
    steps = [{**STEP, "step": f"s{place}", "priority": p} for place, p in enumerate(given)]
    assert [step["priority"] for step in add(api, steps=steps)["steps"]] == [7, 0, sys.maxsize]


def test_a_template_is_removed_by_either_name(api: Client) -> None:
    first = add(api)
    add(api, "CUSTOM_B")
    for ident in (first["uuid"].upper(), "CUSTOM_B"):
        answer = api.delete(f"{PLACE}/{ident}")
        assert (answer.status, answer.body) == (204, b"")
    assert api.get(PLACE).json == {"deploy_templates": []}


@pytest.mark.parametrize("ident", [ABSENT, "CUSTOM_NONE", "detail"])
def test_an_absent_template_is_not_found(api: Client, ident: str) -> None:
    add(api)
    patch = [op("replace", "/name", "CUSTOM_B")]
    path = f"{PLACE}/{ident}".encode().decode("latin-1")
    for answer in (api.get(path), api.patch(path, patch), api.delete(path)):
        assert answer.status == 404
        assert "Deploy template" in answer.text
    assert names(api.get(PLACE)) == ["CUSTOM_A"]


@pytest.mark.parametrize("key", ["name", "uuid"])
def test_two_templates_differ_by_name_and_uuid(api: Client, key: str) -> None:
    first = add(api)
    body = {"name": "CUSTOM_B", "steps": [STEP], key: first[key]}
    answer = api.post(PLACE, body)
    assert answer.status == 409
    assert f"A deploy template with {key} {first[key]} already exists" in answer.text
    add(api, "CUSTOM_B")
    assert api.patch(f"{PLACE}/CUSTOM_B", [op("replace", "/name", "CUSTOM_A")]).status == 409
    assert names(api.get(PLACE)) == ["CUSTOM_A", "CUSTOM_B"]


# -- versions --------------------------------------------------------------------------------


def test_there_are_no_templates_before_1_55(api: Client) -> None:
    shown = add(api)
    body = {"name": "CUSTOM_B", "steps": [STEP]}
    for version, status in ((1, 404), (54, 404), (55, 200)):
        old = api.at(version)
        for path in (PLACE, f"{PLACE}/CUSTOM_A", f"{PLACE}?detail=true", f"{PLACE}?fields=name"):
            assert old.get(path).status == status
        assert ("deploy_templates" in old.get("/v1").json) == (status == 200)
        if status == 404:
            for answer in (
                old.post(PLACE, body),
                old.patch(f"{PLACE}/CUSTOM_A", []),
                old.delete(f"{PLACE}/CUSTOM_A"),
            ):
                assert answer.status == 405
    assert api.get(f"{PLACE}/CUSTOM_A").json == api.at(55).get(f"{PLACE}/CUSTOM_A").json == shown


def test_the_collection_takes_get_and_post(api: Client) -> None:
    answer = api.put(PLACE, {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")


# -- lists -----------------------------------------------------------------------------------


def test_a_list_is_brief_unless_asked(api: Client) -> None:
    first, second = add(api), add(api, "CUSTOM_B")
    brief = api.get(PLACE).json["deploy_templates"]
    assert [set(each) for each in brief] == [{"uuid", "name", "links"}] * 2
    assert api.get(f"{PLACE}?detail=true").json["deploy_templates"] == [first, second]
    (chosen, _) = api.get(f"{PLACE}?fields=steps,name").json["deploy_templates"]
    assert chosen == {name: first[name] for name in ("steps", "name", "links")}
    one = api.get(f"{PLACE}/CUSTOM_B?fields=extra").json
    assert one == {name: second[name] for name in ("extra", "links")}


@pytest.mark.parametrize("more", ["", "&sort_key=name&sort_dir=desc", "&detail=true"])
def test_pages_lead_from_one_to_the_next(api: Client, more: str) -> None:
    made = ["CUSTOM_B", "CUSTOM_A", "CUSTOM_D", "CUSTOM_C"]
    for name in made:
        add(api, name)
    walked, link = [], f"{PLACE}?limit=3{more}"
    while link:
        page = api.get(link.removeprefix("http://localhost:6385"))
        assert page.status == 200
        walked.append(names(page))
        link = page.json.get("next", "")
    expected = sorted(made, reverse=True) if "sort_key" in more else made
    assert walked == [expected[:3], expected[3:]]


@pytest.mark.parametrize(
    ("query", "status", "named"),
    [
        ("fields=nope", 400, "nope"),
        ("fields=name&detail=true", 400, "detail"),
        ("detail=perhaps", 400, "detail"),
        ("sort_key=steps", 400, "sort_key"),
        ("sort_key=extra", 400, "sort_key"),
        ("sort_key=nope", 400, "sort_key"),
        ("sort_dir=up", 400, "sort_dir"),
        ("limit=0", 400, "limit"),
        ("limit=x", 400, "limit"),
        ("marker=CUSTOM_A", 404, "CUSTOM_A"),
        (f"marker={ABSENT}", 404, ABSENT),
        (f"marker={ABSENT}&sort_key=name", 404, ABSENT),
        ("name=CUSTOM_A", 400, "name"),
        ("traits=CUSTOM_A", 400, "traits"),
    ],
)
def test_a_bad_question_is_refused(api: Client, query: str, status: int, named: str) -> None:
    add(api)
    answer = api.get(f"{PLACE}?{query}")
    assert (answer.status, named in answer.text) == (status, True), answer.text


# -- what a template may hold ----------------------------------------------------------------


def without(key: str) -> Json:
    return {name: value for name, value in STEP.items() if name != key}


BAD_STEPS: dict[str, tuple[Any, str, str]] = {
    "null": (None, "steps", "null"),
    "no list": ({"0": STEP}, "steps", "array"),
    "none": ([], "steps", "at least 1"),
    "too many": ([{**STEP, "step": f"s{n}"} for n in range(1001)], "steps", "1000"),
    "null inside": ([STEP, None], "steps/1", "object"),
    "empty": ([{}], "steps/0/interface", "is required"),
    "no interface": ([without("interface")], "steps/0/interface", "is required"),
    "no step": ([without("step")], "steps/0/step", "is required"),
    "no args": ([without("args")], "steps/0/args", "is required"),
    "no priority": ([RAID, without("priority")], "steps/1/priority", "is required"),
    "an unknown key": ([{**STEP, "order": 1}], "steps/0/order", "unknown key"),
    "an unknown interface": ([{**STEP, "interface": "network"}], "steps/0/interface", "network"),
    "an empty name": ([{**STEP, "step": ""}], "steps/0/step", "1"),
    "no name": ([{**STEP, "step": 5}], "steps/0/step", "string"),
    "a long name": ([{**STEP, "step": "a" * 256}], "steps/0/step", "255"),
    "args null": ([{**STEP, "args": None}], "steps/0/args", "object"),
    "args a list": ([{**STEP, "args": [1]}], "steps/0/args", "object"),
    "a negative priority": ([{**STEP, "priority": -1}], "steps/0/priority", "0 or more"),
    "a fraction": ([{**STEP, "priority": 1.5}], "steps/0/priority", "integer"),
    "a word": ([{**STEP, "priority": "high"}], "steps/0/priority", "integer"),
    "a boolean": ([{**STEP, "priority": True}], "steps/0/priority", "integer"),
    "a null priority": ([{**STEP, "priority": None}], "steps/0/priority", "integer"),
    "beyond 64 bits": ([{**STEP, "priority": 2**63}], "steps/0/priority", "integer"),
    "1e300": ([{**STEP, "priority": 1e300}], "steps/0/priority", "integer"),
    "twice": ([STEP, RAID, {**STEP, "priority": 1}], "steps/2", "more than once"),
    "disallowed": (
        [RAID, {**STEP, "interface": "vendor", "step": "send_raw"}],
        "steps/1/step",
        "vendor.send_raw is not allowed",
    ),
    "a wait without sense": (
        [{**STEP, "step": "wait", "args": {"seconds": "x"}}],
        "steps/0/args",
        "not a number of seconds",
    ),
}
BAD: dict[str, tuple[Json, str, str]] = {
    **{f"steps: {case}": ({"steps": v}, path, said) for case, (v, path, said) in BAD_STEPS.items()},
    "a name that is no trait": ({"name": "bad"}, "name", "CUSTOM_"),
    "a name in lower case": ({"name": "CUSTOM_a"}, "name", "CUSTOM_"),
    "an empty name": ({"name": ""}, "name", "empty"),
    "a null name": ({"name": None}, "name", "null"),
    "a number for a name": ({"name": 5}, "name", "string"),
    "a name too long": ({"name": "CUSTOM_" + "A" * 249}, "name", "255"),
    "a UUID for a name": ({"name": ABSENT}, "name", "trait"),
    "extra a list": ({"extra": []}, "extra", "object"),
    "an unknown key": ({"colour": "red"}, "colour", "not a property"),
    "a description": ({"description": "x"}, "description", "not a property"),
    "a time": ({"created_at": "2026-01-01T00:00:00Z"}, "created_at", "cannot be set"),
    "links": ({"links": []}, "links", "cannot be set"),
}


@pytest.mark.parametrize("case", [*BAD, "a bad uuid"])
def test_a_bad_template_is_refused(api: Client, case: str) -> None:
    values, path, said = BAD.get(case, ({"uuid": "x"}, "uuid", "UUID"))
    answer = api.post(PLACE, {"name": "CUSTOM_A", "steps": [STEP], **values})
    assert (answer.status, said in answer.text) == (400, True), answer.text
    assert f"{path}: " in answer.text
    assert api.get(PLACE).json == {"deploy_templates": []}


@pytest.mark.parametrize("key", ["name", "steps"])
def test_a_template_without_what_it_needs_is_refused(api: Client, key: str) -> None:
    body = {"name": "CUSTOM_A", "steps": [STEP]}
    del body[key]
    answer = api.post(PLACE, body)
    assert answer.status == 400
    assert answer.text == f"Schema error for deploy template: {key}: is required"


@pytest.mark.parametrize("body", [None, [], "x", 5, [{"name": "CUSTOM_A"}]])
def test_a_body_is_an_object(api: Client, body: Any) -> None:
    assert api.post(PLACE, body).status == 400
    assert api.get(PLACE).json == {"deploy_templates": []}


# -- PATCH -----------------------------------------------------------------------------------


def patched(api: Client, *operations: Json, ident: str = "CUSTOM_A") -> Json:
    answer = api.patch(f"{PLACE}/{ident}", list(operations))
    assert answer.status == 200, answer.text
    assert api.get(f"{PLACE}/{answer.json['uuid']}").json == answer.json
    return dict(answer.json)


def test_a_patch_reaches_into_the_steps(api: Client) -> None:
    before = add(api, steps=[STEP])
    after = patched(api, op("add", "/steps/-", RAID), op("replace", "/steps/0/priority", "7"))
    assert after["steps"] == [{**STEP, "priority": 7}, RAID]
    assert after["updated_at"] > before["created_at"]
    after = patched(api, op("add", "/steps/0/args/force", True), op("remove", "/steps/1"))
    assert after["steps"] == [{**STEP, "priority": 7, "args": {**STEP["args"], "force": True}}]  # type: ignore[dict-item]
    hold = {**RAID, "step": "hold"}
    assert patched(api, op("add", "/steps/0", hold))["steps"] == [hold, *after["steps"]]
    assert patched(api, op("replace", "/steps", [RAID]))["steps"] == [RAID]


def test_a_patch_names_and_describes(api: Client) -> None:
    add(api, extra={"a": {"b": 1}})
    after = patched(api, op("replace", "/name", "HW_NIC_SRIOV"), op("replace", "/extra/a/b", 2))
    assert (after["name"], after["extra"]) == ("HW_NIC_SRIOV", {"a": {"b": 2}})
    assert api.get(f"{PLACE}/CUSTOM_A").status == 404
    assert patched(api, op("remove", "/extra"), ident="HW_NIC_SRIOV")["extra"] == {}


@pytest.mark.parametrize(
    "operations",
    [
        [],
        [op("replace", "/name", "CUSTOM_A")],
        [op("add", "/steps", [STEP])],
        [op("remove", "/extra")],
    ],
    ids=["empty", "name", "steps", "extra"],
)
def test_a_patch_that_changes_nothing_writes_nothing(api: Client, operations: list[Json]) -> None:
    before = add(api)
    assert patched(api, *operations) == before


BAD_PATCHES: dict[str, tuple[list[Any], str]] = {
    **{
        f"steps: {case}": ([op("replace", "/steps", v)], "mandatory" if v is None else f"{path}: ")
        for case, (v, path, _) in BAD_STEPS.items()
    },
    "a bad name": ([op("replace", "/name", "bad")], "name: "),
    "no name": ([op("remove", "/name")], "/name is mandatory"),
    "a null name": ([op("replace", "/name", None)], "/name is mandatory"),
    "no steps": ([op("remove", "/steps")], "/steps is mandatory"),
    "the last step": ([op("remove", "/steps/0")], "steps: "),
    "a step too far": ([op("remove", "/steps/7")], "/steps/7"),
    "a step of no number": ([op("replace", "/steps/x", STEP)], "/steps/x"),
    "the step after the last": ([op("remove", "/steps/-")], "/steps/-"),
    "a step's args": ([op("remove", "/steps/0/args")], "steps/0/args: "),
    "a step's args null": ([op("replace", "/steps/0/args", None)], "steps/0/args: "),
    "an argument that is not there": ([op("replace", "/steps/0/args/x", 1)], "/steps/0/args/x"),
    "an unknown key": ([op("add", "/steps/0/order", 1)], "steps/0/order: "),
    "the same step again": ([op("add", "/steps/-", {**STEP, "priority": 1})], "steps/1: "),
    "into a string": ([op("add", "/name/x", 1)], "/name"),
    "the uuid": ([op("replace", "/uuid", ABSENT)], "Cannot patch /uuid"),
    "a time": ([op("replace", "/created_at", "x")], "Cannot patch /created_at"),
    "the links": ([op("remove", "/links")], "Cannot patch /links"),
    "an unknown field": ([op("add", "/colour", "red")], "Cannot patch /colour"),
    "another operation": ([op("test", "/name", "CUSTOM_A")], "0/op"),
    "no operation": ([None], "0: "),
    "a good and a bad one": ([op("add", "/extra/a", 1), op("remove", "/extra/b")], "/extra/b"),
}


@pytest.mark.parametrize("case", BAD_PATCHES)
def test_a_bad_patch_changes_nothing(api: Client, case: str) -> None:
    operations, named = BAD_PATCHES[case]
    before = add(api)
    answer = api.patch(f"{PLACE}/CUSTOM_A", operations)
    assert (answer.status, named in answer.text) == (400, True), answer.text
    assert api.get(f"{PLACE}/CUSTOM_A").json == before


def test_a_patch_is_a_list(api: Client) -> None:
    add(api)
    assert api.patch(f"{PLACE}/CUSTOM_A", {"name": "CUSTOM_B"}).status == 400


# -- secrets and bounds ----------------------------------------------------------------------

SECRET = {
    "interface": "bios",
    "step": "apply_configuration",
    "args": {
        "settings": [{"name": "AdminPassword", "value": "s3same"}],
        "password": "s3same",
        "url": "https://me:s3same@host/image",
    },
    "priority": 10,
}


def stored(database: session.Database) -> bytes:
    """Return all that the table holds."""
    rows = database.read(lambda c: c.exec_driver_sql("SELECT steps FROM deploy_templates").all())
    return str(rows).encode()


def test_secret_arguments_are_never_shown(api: Client, database: session.Database) -> None:
    made = api.post(PLACE, {"name": "CUSTOM_A", "steps": [SECRET]})
    shown = made.json["steps"][0]["args"]
    assert shown["password"] == "******"
    assert shown["settings"] == [{"name": "AdminPassword", "value": "******"}]
    path = f"{PLACE}/CUSTOM_A"
    for answer in (
        made,
        api.get(path),
        api.get(f"{path}?fields=steps"),
        api.get(f"{PLACE}?detail=true"),
        api.get(f"{PLACE}?fields=steps"),
        api.patch(path, [op("replace", "/steps/0/priority", 5)]),
        api.patch(path, [op("add", "/steps/0/args/password", {"a": 1})]),
        api.patch(path, [op("add", "/steps/-", {**SECRET, "step": 5})]),
        api.post(PLACE, {"name": "CUSTOM_B", "steps": [{**SECRET, "priority": "s3same"}]}),
    ):
        assert b"s3same" not in answer.body
    assert b"s3same" in stored(database)


def test_masked_value_sent_back_does_not_overwrite_the_secret(
    api: Client, database: session.Database
) -> None:
    shown = add(api, steps=[SECRET, RAID])["steps"]
    patched(api, op("replace", "/steps", [RAID, {**shown[0], "priority": 11}]))
    assert stored(database).count(b"s3same") == 3
    shown[0]["args"]["password"] = "other"
    patched(api, op("replace", "/steps", shown))
    assert stored(database).count(b"s3same") == 2
    shown[0]["args"]["settings"].insert(0, {"name": "BootMode", "value": "uefi"})
    patched(api, op("replace", "/steps", shown))
    assert stored(database).count(b"s3same") == 2
    assert b"******" not in stored(database)


def test_disallowed_step_is_refused_in_a_patch_too(api: Client, conf: cfg.ConfigOpts) -> None:
    before = add(api)
    conf.set_override("disallow_deploy_steps", ["raid.apply_configuration"], "api")
    answer = api.patch(f"{PLACE}/CUSTOM_A", [op("add", "/steps/-", RAID)])
    assert answer.status == 400
    assert "steps/1/step: step raid.apply_configuration is not allowed" in answer.text
    assert api.get(f"{PLACE}/CUSTOM_A").json == before


def test_listeners_are_told_of_what_has_been_changed(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    ear = Ear()
    api = Client(app.build(database, recorder, conf, ear))  # type: ignore[arg-type]
    add(api)
    path = f"{PLACE}/CUSTOM_A"
    patched(api, op("replace", "/name", "CUSTOM_A"))
    assert api.patch(path, [op("remove", "/name")]).status == 400
    assert api.post(PLACE, {"name": "CUSTOM_A", "steps": [STEP]}).status == 409
    assert api.delete(f"{PLACE}/CUSTOM_NONE").status == 404
    assert ear.kinds == ["deploy_template_created"]
    patched(api, op("replace", "/name", "CUSTOM_B"), op("replace", "/steps", [RAID]))
    assert api.delete(f"{PLACE}/CUSTOM_B").status == 204
    about = [(row["name"], row["steps"][0]["interface"]) for _, row in ear.heard]
    assert [(kind, *each) for kind, each in zip(ear.kinds, about, strict=True)] == [
        ("deploy_template_created", "CUSTOM_A", "bios"),
        ("deploy_template_updated", "CUSTOM_B", "raid"),
        ("deploy_template_deleted", "CUSTOM_B", "raid"),
    ]


def test_each_request_has_a_budget_of_statements(api: Client, database: session.Database) -> None:
    uuid_ = add(api)["uuid"]
    body = {"name": "CUSTOM_B", "steps": [STEP]}
    patch = [op("add", "/steps/-", RAID)]
    asked: tuple[tuple[int, Callable[[], Response]], ...] = (
        (1, lambda: api.get(f"{PLACE}/CUSTOM_A")),
        (1, lambda: api.get(PLACE)),
        (2, lambda: api.post(PLACE, body)),
        (1, lambda: api.get(f"{PLACE}?limit=1&marker={uuid_}&sort_key=name")),
        (3, lambda: api.patch(f"{PLACE}/{uuid_}", patch)),
        (1, lambda: api.patch(f"{PLACE}/{uuid_}", [])),
        (3, lambda: api.delete(f"{PLACE}/CUSTOM_B")),
    )
    for budget, ask in asked:
        with count_statements(database) as sent:
            assert ask().status < 300
        assert len(sent) <= budget, sent
