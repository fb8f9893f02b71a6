"""The strict BMC refuses what its tree does not offer, and takes its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from tests.recorded import facts, recordings
from tests.recorded.strict_bmc import PASSWORD, RESET_SECONDS, USER, StrictBmc

Ask = Callable[..., requests.Response]
RESET = "/Actions/ComputerSystem.Reset"


@pytest.fixture
def bmc() -> Iterator[StrictBmc]:
    documents = recordings.load("emulated-dell").documents
    with StrictBmc(documents, facts.systems(documents)[0]) as running:
        yield running


@pytest.fixture
def ask(bmc: StrictBmc) -> Ask:
    """A function that sends a request with the right password."""

    def send(method: str, path: str, body: Any = None, **more: Any) -> requests.Response:
        more.setdefault("auth", (USER, PASSWORD))
        url = bmc.server.address + path
        return requests.request(method, url, json=body, timeout=30, **more)

    return send


def message(answer: requests.Response) -> str:
    """Return the name of the extended message of an error."""
    (told,) = answer.json()["error"]["@Message.ExtendedInfo"]
    return str(told["MessageId"]).rpartition(".")[2]


def test_only_the_root_is_open(bmc: StrictBmc, ask: Ask) -> None:
    assert ask("GET", "/redfish/v1/", auth=None).status_code == 200
    refused = ask("GET", bmc.system, auth=None)
    assert (refused.status_code, message(refused)) == (401, "NoValidSession")
    assert ask("GET", bmc.system, auth=(USER, "wrong")).status_code == 401
    assert bmc.refused_logins == 1


def test_a_session_lasts_until_it_is_deleted(bmc: StrictBmc, ask: Ask) -> None:
    body = {"UserName": USER, "Password": PASSWORD}
    session = ask("POST", str(bmc.sessions), body, auth=None)
    token = {"X-Auth-Token": session.headers["X-Auth-Token"]}
    assert ask("GET", bmc.system, auth=None, headers=token).status_code == 200
    place = session.headers["Location"]
    assert ask("DELETE", place, auth=None, headers=token).status_code == 204
    assert ask("GET", bmc.system, auth=None, headers=token).status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("", {"Colour": "red"}, "PropertyUnknown"),
        ("", {"PowerState": "Off"}, "PropertyNotWritable"),
        ("", {"Boot": {"BootSourceOverrideTarget": "Tape"}}, "PropertyValueNotInList"),
        ("", {"Boot": {"Colour": "red"}}, "PropertyUnknown"),
        ("/Bios/Settings", {"Attributes": {"Colour": "red"}}, "PropertyUnknown"),
        ("/Bios/Settings", {"Attributes": {"ProcTurboMode": "So"}}, "PropertyValueNotInList"),
    ],
)
def test_a_bad_property_is_refused(
    bmc: StrictBmc, ask: Ask, path: str, body: dict[str, Any], word: str
) -> None:
    answer = ask("PATCH", bmc.system + path, body)
    assert (answer.status_code, message(answer)) == (400, word)


def test_an_old_tag_is_refused(bmc: StrictBmc, ask: Ask) -> None:
    tag = ask("GET", bmc.system).headers["ETag"]
    body = {"IndicatorLED": "Lit"}
    assert ask("PATCH", bmc.system, body, headers={"If-Match": tag}).status_code == 200
    stale = ask("PATCH", bmc.system, body, headers={"If-Match": tag})
    assert (stale.status_code, message(stale)) == (412, "PreconditionFailed")


def test_methods_are_those_of_the_header_allow(bmc: StrictBmc, ask: Ask) -> None:
    place = f"{bmc.system}/Processors"
    assert ask("GET", place).headers["Allow"] == "GET, HEAD"
    refused = ask("PATCH", place, {"Name": "x"})
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert "PATCH" in ask("GET", bmc.system).headers["Allow"]


def test_members_are_expanded_only_where_the_root_claims_it(bmc: StrictBmc, ask: Ask) -> None:
    path = f"{bmc.system}/Processors?$expand=.($levels=1)"
    root = bmc.tree["/redfish/v1"]
    root.pop("ProtocolFeaturesSupported", None)
    assert ask("GET", path).status_code == 501
    root["ProtocolFeaturesSupported"] = {"ExpandQuery": {"NoLinks": True}}
    assert [one["Id"] for one in ask("GET", path).json()["Members"]] == ["CPU1", "CPU2"]


def test_a_reset_takes_half_a_second_and_uses_up_an_override(bmc: StrictBmc, ask: Ask) -> None:
    if bmc.power == "On":
        bmc.switch("Off")
    boot = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
    assert ask("PATCH", bmc.system, {"Boot": boot}).status_code == 200
    bmc.stands_still = True
    assert ask("POST", bmc.system + RESET, {"ResetType": "On"}).status_code == 204
    assert bmc.power == "Off"
    bmc.stands_still = False
    time.sleep(RESET_SECONDS)
    assert (bmc.power, bmc.booted) == ("On", ["Pxe"])
    assert ask("GET", bmc.system).json()["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
    refused = ask("POST", bmc.system + RESET, {"ResetType": "On"})
    assert refused.status_code == 409
    refused = ask("POST", bmc.system + RESET, {"ResetType": "Fly"})
    assert message(refused) == "ActionParameterValueNotInList"


def test_bios_settings_wait_for_the_next_boot(bmc: StrictBmc, ask: Ask) -> None:
    bmc.switch("Off")
    chosen = facts.change(bmc.tree, bmc.system)
    assert chosen is not None
    name, value = chosen
    times = bmc.tree[f"{bmc.system}/Bios"]["@Redfish.Settings"].get("SupportedApplyTimes")
    accepted = ask("PATCH", f"{bmc.system}/Bios/Settings", {"Attributes": {name: value}})
    assert accepted.status_code == (202 if times else 200)
    assert ask("GET", f"{bmc.system}/Bios").json()["Attributes"][name] != value
    ask("POST", bmc.system + RESET, {"ResetType": "On"})
    time.sleep(RESET_SECONDS)
    assert ask("GET", f"{bmc.system}/Bios").json()["Attributes"][name] == value


def test_a_volume_is_built_by_a_task(bmc: StrictBmc, ask: Ask) -> None:
    storage = next(path for path in bmc.tree if path.endswith("/Volumes")).rpartition("/")[0]
    drives = bmc.tree[storage]["Drives"][:2]
    body: dict[str, Any] = {"RAIDType": "RAID99", "Links": {"Drives": drives}}
    assert message(ask("POST", f"{storage}/Volumes", body)) == "PropertyValueNotInList"
    bmc.stands_still = True  # a loaded machine would ask too late
    accepted = ask("POST", f"{storage}/Volumes", {**body, "RAIDType": "RAID1"})
    task = accepted.headers["Location"]
    assert (accepted.status_code, ask("GET", task).json()["TaskState"]) == (202, "Running")
    bmc.stands_still = False
    time.sleep(RESET_SECONDS)
    assert ask("GET", task).json()["TaskState"] == "Completed"
    assert len(ask("GET", f"{storage}/Volumes").json()["Members"]) == 1


def test_a_restarting_bmc_forgets_its_sessions(bmc: StrictBmc, ask: Ask) -> None:
    session = ask("POST", str(bmc.sessions), {"UserName": USER, "Password": PASSWORD})
    token = {"X-Auth-Token": session.headers["X-Auth-Token"]}
    place = facts.manager(bmc.tree, bmc.tree[bmc.system])
    assert ask("POST", f"{place}/Actions/Manager.Reset", {}).status_code == 204
    assert ask("GET", bmc.system).status_code == 503
    time.sleep(RESET_SECONDS)
    assert ask("GET", bmc.system, auth=None, headers=token).status_code == 401
