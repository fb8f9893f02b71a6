"""What an operator sees when a BMC is wrong, gone, broken or lying: state, words, no lock left.

Everything is asked over HTTP, and the BMC is a real server on loopback.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.emulators import bmc, redfish
from tests.support import troubleshooting
from tests.support.ports import free_port
from tests.support.redfish_faults import (
    BAD_POWER,
    USERS,
    falls_silent,
    nothing_held,
    repair,
    says,
)
from tests.support.redfish_service import RedfishOperator

# -- a BMC that cannot be spoken to: the node goes back to enroll --------------------------------


SYSTEM = "/redfish/v1/Systems/1"
WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "password": (
        {"redfish_password": "wrong"},
        ("refused the credentials of user root", "redfish_password in driver_info"),
    ),
    "user": (
        {"redfish_username": "admin"},
        ("refused the credentials of user admin", "Check redfish_username"),
    ),
    "no login": (
        {"redfish_username": None, "redfish_password": None},
        ("requires a login", "Set redfish_username"),
    ),
    "basic password": (
        {"redfish_password": "wrong", "redfish_auth_type": "basic"},
        ("refused the credentials of user root", "redfish_password in driver_info"),
    ),
    "system": (
        {"redfish_system_id": "/redfish/v1/Systems/9"},
        ("driver_info/redfish_system_id", "no system /redfish/v1/Systems/9; it has .*/Systems/1"),
    ),
    "place of the service": (
        {"redfish_address": "{url}/elsewhere"},
        ("no Redfish service at /elsewhere/", "check redfish_address"),
    ),
    "manager as the service": (
        {"redfish_address": "{url}/redfish/v1/Managers/1", "redfish_system_id": SYSTEM},
        ("driver_info/redfish_address: leads to a resource of the type Manager",),
    ),
    "manager as the system": (
        {"redfish_system_id": "/redfish/v1/Managers/1"},
        ("driver_info/redfish_system_id: leads to .* Manager, not to a ComputerSystem",),
    ),
    "port": (
        {"redfish_address": f"http://127.0.0.1:{free_port()}"},
        ("connection refused, nothing listens there",),
    ),
    "name": (
        {"redfish_address": "http://bmc.invalid"},
        ("name cannot be resolved",),
    ),
    "scheme": (
        {"redfish_address": "https://{host}"},
        ("TLS with the BMC", "scheme and port of redfish_address"),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_facts_lead_back_to_enroll_and_can_be_put_right(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    changes, words = WRONG[what]
    filled = {
        key: value and value.format(url=machine.url, host=machine.url.partition("//")[2])
        for key, value in changes.items()
    }
    node = operator.at(machine, "enroll", **filled)
    shown = operator.provision(node, "manage")
    assert shown["provision_state"] == "enroll"
    assert shown["target_provision_state"] is None
    assert not shown["maintenance"]
    assert nothing_held(shown)
    assert says(shown, "Failed to verify node", *words)
    assert operator.patches(node, driver_info=machine.driver_info).status == 200
    shown = operator.provision(node, "manage")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)


@pytest.fixture
def certificates(tmp_path: pathlib.Path) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """Certificates by name, each its own authority."""
    found = {}
    for name in ("its", "other"):
        folder = tmp_path / name
        folder.mkdir()
        found[name] = redfish.certificate(folder)
    return found


@pytest.mark.parametrize(
    ("verify", "state", "words"),
    [
        ("its", "manageable", ()),
        (False, "manageable", ()),
        ("other", "enroll", ("is not trusted", "redfish_verify_ca")),
        (True, "enroll", ("is not trusted", "redfish_verify_ca")),
    ],
    ids=str,
)
def test_a_certificate_must_be_trusted(
    operator: RedfishOperator,
    certificates: dict[str, tuple[pathlib.Path, pathlib.Path]],
    verify: str | bool,
    state: str,
    words: tuple[str, ...],
) -> None:
    path, key = certificates["its"]
    with bmc.serve(users=USERS, tls=(str(path), str(key))) as machine:
        trusted = str(certificates[verify][0]) if isinstance(verify, str) else verify
        node = operator.at(machine, "enroll", redfish_verify_ca=trusted)
        shown = operator.provision(node, "manage")
        assert (shown["provision_state"], nothing_held(shown)) == (state, True)
        assert says(shown, *words)
        # Nobody is told a password before it is known who it is.
        assert state == "manageable" or machine.log == []


def test_a_certificate_must_be_for_that_address(
    operator: RedfishOperator, certificates: dict[str, tuple[pathlib.Path, pathlib.Path]]
) -> None:
    path, key = certificates["its"]
    with bmc.serve(users=USERS, tls=(str(path), str(key))) as machine:
        address = machine.url.replace("127.0.0.1", "localhost")
        node = operator.at(machine, "enroll", redfish_address=address, redfish_verify_ca=str(path))
        shown = operator.provision(node, "manage")
        assert (shown["provision_state"], nothing_held(shown)) == ("enroll", True)
        assert says(shown, "is not trusted: hostname mismatch", "localhost")


SPOILED: dict[str, tuple[bmc.Trick, tuple[str, ...]]] = {
    "500": (bmc.says(500), ("has an internal error: HTTP 500", "reset the BMC")),
    "503": (bmc.says(503), ("is not ready: HTTP 503", "retry later")),
    "404": (bmc.says(404), ("no Redfish service",)),
    "403": (
        bmc.says(403, {"error": {"message": "You shall not."}}),
        ("does not allow this to user root", "You shall not", "administrator rights"),
    ),
    "truncated JSON": (bmc.cuts_short, ("is not JSON", "content type application/json")),
    "truncated answer": (bmc.ends_early, ("answer is truncated",)),
    "a page for people": (bmc.speaks_html, ("is not JSON", "content type text/html")),
    "hang-ups": (bmc.hangs_up, ("hung up without an answer",)),
    "silence": (bmc.silent, ("no complete answer within 1 s",)),
    "drops": (bmc.drips_body, ("no complete answer within 1 s",)),
    "another protocol": (bmc.babbles, ("does not speak HTTP",)),
    "a list": (bmc.says(200, [1, 2]), ("is not a JSON object but list",)),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_broken_bmc_leads_back_to_enroll(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    trick, words = SPOILED[what]
    if trick in {bmc.silent, bmc.drips_body}:
        falls_silent(machine, trick=trick)
    machine.tricks["*"] = trick
    node = operator.at(machine, "enroll")
    shown = operator.provision(node, "manage")
    assert (shown["provision_state"], nothing_held(shown)) == ("enroll", True)
    assert says(shown, "Failed to verify node", *words)
    repair(machine)
    assert operator.provision(node, "manage")["provision_state"] == "manageable"


# -- power on request ------------------------------------------------------------------------------


@pytest.mark.parametrize("what", BAD_POWER)
def test_power_that_goes_wrong_says_so_and_leaves_the_node_as_it_was(
    operator: RedfishOperator, machine: bmc.Machine, what: str
) -> None:
    spoil, words = BAD_POWER[what]
    node = operator.at(machine)
    spoil(machine)
    shown = operator.powers(node, "power on")
    assert (shown["provision_state"], shown["power_state"]) == ("manageable", "power off")
    assert nothing_held(shown)
    assert not shown["maintenance"]
    assert says(shown, "Failed to change power state to 'power on'", *words)


def test_a_system_deaf_to_the_button_is_told_so_and_can_be_switched_off_hard(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    assert operator.powers(node, "power on")["power_state"] == "power on"
    machine.habits.deaf_to_button = True
    shown = operator.powers(node, "soft power off", timeout=1)
    assert (shown["power_state"], nothing_held(shown)) == ("power on", True)
    assert says(shown, "not reached within 1 s", "last showed the state On")
    shown = operator.powers(node, "power off")
    assert (shown["power_state"], shown["last_error"]) == ("power off", None)


@pytest.mark.parametrize("polls", [1, 3])
def test_a_machine_that_takes_its_time_is_waited_for(
    operator: RedfishOperator, machine: bmc.Machine, polls: int
) -> None:
    machine.habits.power_polls = polls
    node = operator.at(machine)
    for target in ("power on", "rebooting", "power off"):
        shown = operator.powers(node, target, timeout=60)
        assert (shown["last_error"], nothing_held(shown)) == (None, True)
    assert machine.sent == ["On", "ForceOff", "On", "ForceOff"]


# Symptoms of docs/troubleshooting.rst with a Redfish BMC: ``why`` answers as the page shows.


def enrolled(operator: RedfishOperator, machine: bmc.Machine, **changes: object) -> str:
    """Return a node whose manage has failed."""
    node = operator.at(machine, "enroll", **changes)
    operator.provision(node, "manage")
    return node


def wrong_password(operator: RedfishOperator, machine: bmc.Machine) -> str:
    return enrolled(operator, machine, redfish_password="of-another-bmc")


def unreachable(operator: RedfishOperator, machine: bmc.Machine) -> str:
    return enrolled(operator, machine, redfish_address="http://127.0.0.1:9")


def silent(operator: RedfishOperator, machine: bmc.Machine) -> str:
    falls_silent(machine)
    return enrolled(operator, machine)


def broken(operator: RedfishOperator, machine: bmc.Machine) -> str:
    machine.tricks["*"] = bmc.says(500)
    return enrolled(operator, machine)


def lost_later(operator: RedfishOperator, machine: bmc.Machine) -> str:
    node = operator.at(machine)
    machine.users["root"] = "another"
    machine.forget_sessions()
    for _ in range(6):
        operator.sweeps("power sync")
    return node


def stuck(operator: RedfishOperator, machine: bmc.Machine) -> str:
    node = operator.at(machine)
    machine.habits.power_stuck = True
    operator.provision(node, "clean", clean_steps=[{"interface": "power", "step": "power_on"}])
    return node


def untrusted(operator: RedfishOperator, machine: bmc.Machine) -> str:
    return enrolled(operator, machine, redfish_verify_ca=True)


SYMPTOMS: dict[str, Callable[[RedfishOperator, bmc.Machine], str]] = {
    "Wrong user name or password": wrong_password,
    "BMC not reachable": unreachable,
    "BMC without an answer": silent,
    "BMC with an internal error": broken,
    "BMC lost later": lost_later,
    "Power that does not change": stuck,
    "Certificate that is not trusted": untrusted,
}


@pytest.fixture
def troubled_machine(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> Iterator[bmc.Machine]:
    """A machine, whose BMC has a certificate of its own for the symptom of certificates."""
    tls = None
    if request.getfixturevalue("place")[0] == "Certificate that is not trusted":
        path, key = redfish.certificate(tmp_path)
        tls = (str(path), str(key))
    with bmc.serve(users=USERS, tls=tls) as running:
        yield running


@pytest.mark.feature("why")
@pytest.mark.parametrize("place", troubleshooting.REDFISH, ids=str)
def test_page_shows_the_answer(
    operator: RedfishOperator, troubled_machine: bmc.Machine, place: troubleshooting.Place
) -> None:
    heading, _ = place
    node = SYMPTOMS[heading](operator, troubled_machine)
    answer = operator.api.get(f"/v1/nodes/{node}/why")
    assert answer.status == 200
    troubleshooting.assert_shown(place, answer.json["says"])
