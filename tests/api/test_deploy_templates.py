"""Deploy templates: their names, priorities, secrets, and steps that are not allowed."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.db.engine import session
from tests.support.wsgi_client import Client, op

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


@pytest.mark.parametrize("name", ["CUSTOM_" + "A" * 248, "HW_CPU_X86_VMX", "CUSTOM__0"])
def test_any_trait_names_a_template(api: Client, name: str) -> None:
    add(api, name)
    assert api.get(f"{PLACE}/{name}?fields=name").json["name"] == name


def test_priorities_are_kept_as_numbers(api: Client) -> None:
    given = ["007", 0, sys.maxsize]
    steps = [{**STEP, "step": f"s{place}", "priority": p} for place, p in enumerate(given)]
    assert [step["priority"] for step in add(api, steps=steps)["steps"]] == [7, 0, sys.maxsize]


def replace_steps(api: Client, steps: list[Json]) -> None:
    answer = api.patch(f"{PLACE}/CUSTOM_A", [op("replace", "/steps", steps)])
    assert answer.status == 200, answer.text
    assert api.get(f"{PLACE}/CUSTOM_A").json == answer.json


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
    replace_steps(api, [RAID, {**shown[0], "priority": 11}])
    assert stored(database).count(b"s3same") == 3
    shown[0]["args"]["password"] = "other"
    replace_steps(api, shown)
    assert stored(database).count(b"s3same") == 2
    shown[0]["args"]["settings"].insert(0, {"name": "BootMode", "value": "uefi"})
    replace_steps(api, shown)
    assert stored(database).count(b"s3same") == 2
    assert b"******" not in stored(database)


def test_disallowed_step_is_refused_in_a_patch_too(api: Client, conf: cfg.ConfigOpts) -> None:
    before = add(api)
    conf.set_override("disallow_deploy_steps", ["raid.apply_configuration"], "api")
    answer = api.patch(f"{PLACE}/CUSTOM_A", [op("add", "/steps/-", RAID)])
    assert answer.status == 400
    assert "steps/1/step: step raid.apply_configuration is not allowed" in answer.text
    assert api.get(f"{PLACE}/CUSTOM_A").json == before
