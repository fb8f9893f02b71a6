"""Questions and orders to a machine whose BMC is in trouble: who asks is told why, at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulators import bmc
from tests.support.redfish_faults import BAD_POWER, USERS, repair
from tests.support.redfish_service import RedfishOperator

MANAGEMENT = "/v1/nodes/{}/management"
ASKED: dict[str, tuple[str, str, Any]] = {
    "the boot device": ("GET", f"{MANAGEMENT}/boot_device", None),
    "the boot devices": ("GET", f"{MANAGEMENT}/boot_device/supported", None),
    "another boot device": ("PUT", f"{MANAGEMENT}/boot_device", {"boot_device": "pxe"}),
    "an interrupt": ("PUT", f"{MANAGEMENT}/inject_nmi", {}),
}
TROUBLES = ("breaks the BMC", "silences the BMC", "is forbidden")


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_client_gets_the_reason_of_a_bmc_failure(
    operator: RedfishOperator, machine: bmc.Machine, what: str, trouble: str
) -> None:
    spoil, words = BAD_POWER[trouble]
    method, path, body = ASKED[what]
    node = operator.at(machine)
    spoil(machine)
    before = operator.rig.get(node)
    answer = operator.api.request(method, path.format(node), body)
    assert answer.status == 500, answer.text
    missing = [word for word in words if word not in answer.text]
    assert (missing, USERS["root"] in answer.text) == ([], False), answer.text
    assert operator.rig.get(node) == before
    repair(machine)
    answer = operator.api.request(method, path.format(node), body)
    assert answer.status in {200, 204}, answer.text
