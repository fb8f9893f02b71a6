"""The interfaces of nodes over HTTP: judged by the drivers of a conductor, and kept."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ironic_lite.core.options import HARDWARE_TYPE, NOT_BUILT
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from ironic_lite.domain.fields import AUTODETECT, ORIGINAL_DEPLOY
from ironic_lite.drivers import base, registry
from tests.support import conductor_fixture
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

FAKE = {**dict.fromkeys(base.KINDS, "fake"), "network": "noop", "storage": "noop"}
REDFISH = {
    "bios": "redfish",
    "boot": "fake",
    "console": "no-console",
    "deploy": "fake",
    "firmware": "redfish",
    "management": "redfish",
    "network": "noop",
    "power": "redfish",
    "raid": "redfish",
    "rescue": "no-rescue",
    "storage": "noop",
}
TYPES = ["fake-hardware", "redfish"]


@pytest.fixture(autouse=True)
def drivers(recorder: Recorder) -> None:
    """Let check_node be answered as a conductor does."""
    conf = conductor_fixture.configure(
        DEFAULT__enabled_hardware_types=TYPES,
        DEFAULT__enabled_boot_interfaces=["fake"],
        DEFAULT__enabled_deploy_interfaces=["fake"],
    )
    found = registry.Registry.load(registry.Settings.read(conf))

    def check(driver: str, interfaces: dict[str, str | None], driver_info: Any) -> dict[str, str]:
        names = found.resolve(driver, interfaces)
        found.check(names, driver_info)
        return names

    recorder.answers["check_node"] = check


def chosen(node: dict[str, Any]) -> dict[str, str]:
    return {kind: node[f"{kind}_interface"] for kind in base.KINDS}


class Case(NamedTuple):
    """A node's driver and interfaces, the PATCH, whether they are reset, and what comes of it."""

    driver: str
    before: dict[str, str]
    patch: dict[str, Any]
    reset: bool
    after: dict[str, str] | str


CASES = {
    "a new driver takes over what it works with": Case(
        "redfish",
        {"power": "redfish", "deploy": "fake", "raid": "no-raid"},
        {"driver": "fake-hardware"},
        False,
        {"power": "redfish", "raid": "no-raid", "management": "fake"},
    ),
    "a new driver refuses what it does not work with": Case(
        "fake-hardware",
        {"power": "fake"},
        {"driver": "redfish"},
        False,
        "Hardware type redfish does not work with the power interface fake. "
        "Valid interfaces are redfish",
    ),
    "a new driver with its own interfaces": Case(
        "fake-hardware", FAKE, {"driver": "redfish"}, True, REDFISH
    ),
    "a new driver with its own interfaces, but for one": Case(
        "fake-hardware",
        FAKE,
        {"driver": "redfish", "raid_interface": "no-raid"},
        True,
        {**REDFISH, "raid": "no-raid"},
    ),
    "a new driver with a wrong one": Case(
        "fake-hardware",
        FAKE,
        {"driver": "redfish", "raid_interface": "steam"},
        True,
        "Could not find the following interface in the 'raid' interfaces",
    ),
    "the same driver resets nothing": Case(
        "fake-hardware",
        {**FAKE, "raid": "no-raid"},
        {"driver": "fake-hardware", "extra": {"a": 1}},
        True,
        {**FAKE, "raid": "no-raid"},
    ),
    "an interface of its own": Case(
        "fake-hardware", FAKE, {"raid_interface": "no-raid"}, False, {**FAKE, "raid": "no-raid"}
    ),
    "back to the default": Case(
        "fake-hardware", {**FAKE, "raid": "no-raid"}, {"raid_interface": None}, False, FAKE
    ),
    "one that nobody enabled": Case(
        "fake-hardware",
        FAKE,
        {"raid_interface": "idrac"},
        False,
        "To use idrac, add it to [DEFAULT]enabled_raid_interfaces and restart the conductor.",
    ),
    "one for the instance": Case(
        "fake-hardware", FAKE, {"instance_info": {"raid_interface": "no-raid"}}, False, FAKE
    ),
    "one for the instance that nobody enabled": Case(
        "fake-hardware",
        FAKE,
        {"instance_info": {"raid_interface": "idrac"}},
        False,
        "instance_info: Could not find the following interface in the 'raid' interfaces",
    ),
    "one for the instance that is no name": Case(
        "fake-hardware",
        FAKE,
        {"instance_info": {"raid_interface": ["fake"]}},
        False,
        "instance_info: raid_interface: is not a string",
    ),
    "one of Ironic that is not built": Case(
        "fake-hardware",
        FAKE,
        {"network_interface": "neutron"},
        False,
        f"network_interface: neutron is not available. {NOT_BUILT['network']['neutron']}",
    ),
    "one of Ironic that is not built, for the instance": Case(
        "fake-hardware",
        FAKE,
        {"instance_info": {"deploy_interface": "bootc"}},
        False,
        "instance_info: deploy_interface: bootc is not available. bootc is not built",
    ),
    "a driver of Ironic that is not built": Case(
        "fake-hardware", FAKE, {"driver": "ilo"}, False, "driver: ilo is not available. Ironic"
    ),
    "a choice for the instance": Case(
        "fake-hardware",
        FAKE,
        {"instance_info": {"deploy_interface": "autodetect"}},
        False,
        "instance_info/deploy_interface: autodetect chooses for all work on a node",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_patch_leads_to(
    api: Client, add_node: AddNode, database: session.Database, case: Case
) -> None:
    given = {f"{kind}_interface": name for kind, name in case.before.items()}
    node = add_node(driver=case.driver, **given)
    patch = [{"op": "add", "path": f"/{name}", "value": case.patch[name]} for name in case.patch]
    question = "?reset_interfaces=true" if case.reset else ""
    answer = api.patch(f"/v1/nodes/{node['uuid']}{question}", patch)
    if isinstance(case.after, str):
        assert (answer.status, case.after in answer.text) == (400, True), answer.text
        assert database.read(lambda conn: nodes.get(conn, node["uuid"])) == node
        return
    assert answer.status == 200, answer.text
    assert chosen(answer.json).items() >= case.after.items()
    assert chosen(api.get(f"/v1/nodes/{node['uuid']}").json) == chosen(answer.json)


@pytest.mark.parametrize(
    ("driver", "defaults"), [("fake-hardware", FAKE), ("redfish", REDFISH)], ids=TYPES
)
def test_a_new_node_gets_the_defaults_of_its_type(
    api: Client, driver: str, defaults: dict[str, str]
) -> None:
    answer = api.post("/v1/nodes", {"driver": driver})
    assert answer.status == 201, answer.text
    assert chosen(answer.json).items() >= defaults.items()


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in base.KINDS for name in NOT_BUILT[kind]]
)
def test_new_node_with_an_interface_that_is_not_built_is_refused(
    api: Client, kind: str, name: str
) -> None:
    body = {f"{each}_interface": known for each, known in FAKE.items()}
    answer = api.post("/v1/nodes", {"driver": "fake-hardware", **body, f"{kind}_interface": name})
    assert answer.status == 400
    assert f"{kind}_interface: {name} is not available. {NOT_BUILT[kind][name]}" in answer.text
    assert api.get("/v1/nodes").json["nodes"] == []


@pytest.mark.parametrize("name", NOT_BUILT[HARDWARE_TYPE])
def test_new_node_of_a_type_that_is_not_built_is_refused(api: Client, name: str) -> None:
    answer = api.post("/v1/nodes", {"driver": name})
    assert answer.status == 400
    assert f"driver: {name} is not available. {NOT_BUILT[HARDWARE_TYPE][name]}" in answer.text
    assert api.get("/v1/nodes").json == {"nodes": []}


def test_patch_of_the_deploy_interface_forgets_which_one_has_chosen_it(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    internal = {ORIGINAL_DEPLOY: AUTODETECT, "kept": 1}
    node = add_node(**{f"{kind}_interface": name for kind, name in FAKE.items()})
    database.write(
        lambda conn: nodes.edit(
            conn,
            node["uuid"],
            {"driver_internal_info": internal},
            generation=node["generation"],
        )
    )
    path = f"/v1/nodes/{node['uuid']}"
    assert api.patch(path, [{"op": "add", "path": "/extra/a", "value": 1}]).status == 200
    assert api.get(path).json["driver_internal_info"] == internal
    assert api.patch(path, [{"op": "remove", "path": "/deploy_interface"}]).status == 200
    assert api.get(path).json["driver_internal_info"] == {"kept": 1}


def test_a_new_node_whose_instance_asks_for_the_impossible_is_refused(api: Client) -> None:
    body = {"driver": "redfish", "instance_info": {"deploy_interface": "steam"}}
    answer = api.request("POST", "/v1/nodes", body)
    assert answer.status == 400
    assert "instance_info: Could not find" in answer.text
    assert api.get("/v1/nodes").json == {"nodes": []}


def test_the_conductor_is_asked_about_an_instance_only_if_it_wants_an_interface(
    api: Client, add_node: AddNode, recorder: Recorder
) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}"
    told = [{"op": "add", "path": "/instance_info/image_source", "value": "http://a/b"}]
    assert api.patch(path, told).status == 200
    assert recorder.calls == []
    told = [{"op": "add", "path": "/instance_info/deploy_interface", "value": "fake"}]
    assert api.patch(path, told).status == 200
    assert [call[1]["interfaces"]["deploy"] for call in recorder.calls] == [None, "fake"]
