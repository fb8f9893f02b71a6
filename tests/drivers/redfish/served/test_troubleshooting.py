"""Symptoms of docs/troubleshooting.rst with a Redfish BMC: ``why`` answers as the page shows."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.emulators import bmc, redfish
from tests.support import troubleshooting
from tests.support.redfish_faults import USERS, falls_silent
from tests.support.redfish_service import RedfishOperator


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
def machine(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[bmc.Machine]:
    """A machine, whose BMC has a certificate of its own for the symptom of certificates."""
    tls = None
    if request.getfixturevalue("place")[0] == "Certificate that is not trusted":
        path, key = redfish.certificate(tmp_path)
        tls = (str(path), str(key))
    with bmc.serve(users=USERS, tls=tls) as running:
        yield running


@pytest.mark.parametrize("place", troubleshooting.REDFISH, ids=str)
def test_page_shows_the_answer(
    operator: RedfishOperator, machine: bmc.Machine, place: troubleshooting.Place
) -> None:
    heading, _ = place
    node = SYMPTOMS[heading](operator, machine)
    answer = operator.api.get(f"/v1/nodes/{node}/why")
    assert answer.status == 200
    troubleshooting.assert_shown(place, answer.json["says"])
