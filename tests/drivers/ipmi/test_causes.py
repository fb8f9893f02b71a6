"""Causes of failed IPMI commands: code, completion code, and the command."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.domain import causes
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import power, tool
from tests.support.bmc_tasks import BmcTask, Program, task_with

SECRET = "s3cret-of-the-bmc"
NO_SESSION = "Error: Unable to establish IPMI v2 / RMCP+ session"
SAID = {
    "silent": (f"Get Auth Capabilities error\\n{NO_SESSION}", "BmcUnreachable", None),
    "denied": (f"RAKP 2 HMAC is invalid\\n{NO_SESSION}", "BmcAccessDenied", None),
    "privilege": ("Set Session Privilege Level to ADMINISTRATOR failed: Unknown (0x81)",
                  "BmcAccessDenied", "0x81"),
    "refused": ("Get Chassis Power Status failed: Command not supported in present state",
                "HardwareError", "0xd5"),
    "raw": ("Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x1 rsp=0xc1)",
            "HardwareError", "0xc1"),
}  # fmt: skip
"""The words of ipmitool, the code of the cause, and the completion code."""


def machine() -> BmcTask:
    info = {"ipmi_address": "127.0.0.1", "ipmi_username": "root", "ipmi_password": SECRET}
    return task_with(info)


@pytest.mark.parametrize(("said", "code", "completion"), SAID.values(), ids=SAID)
def test_each_fault_of_an_ipmi_bmc_has_a_cause(
    program: Program, said: str, code: str, completion: str | None
) -> None:
    program(f"printf '{said}' >&2\nexit 1")
    with pytest.raises(errors.Error) as caught:
        power.IpmiPower().get_power_state(machine())
    cause = causes.of(caught.value)
    assert (cause["code"], cause["facts"]["command"]) == (code, "power status")
    assert cause["facts"].get("completion_code") == completion
    assert cause["facts"]["address"] == "127.0.0.1"
    assert cause["retryable"] is (code == "BmcUnreachable")
    assert SECRET not in str(cause)


def test_refused_power_change_keeps_the_refusal_as_its_cause(program: Program) -> None:
    said = "Set Chassis Power Control to Up/On failed: Invalid data field in request"
    program(
        f'case "$*" in *status*) echo "Chassis Power is off"; exit 0 ;; esac\n'
        f"echo '{said}' >&2\nexit 1"
    )
    with pytest.raises(errors.PowerFailure) as caught:
        power.IpmiPower().set_power_state(machine(), base.POWER_ON)
    cause = causes.of(caught.value)
    assert (cause["code"], cause["facts"]["completion_code"]) == ("HardwareError", "0xcc")
    assert cause["facts"]["command"] == "power on"


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 60"], ids=["refused", "killed"])
def test_bytes_of_a_raw_command_are_not_in_its_cause(program: Program, script: str) -> None:
    program(script)
    words = ("raw", "0x06", "0x47", "0x02", "0x70", "0x77")
    with pytest.raises(errors.Error) as caught:
        tool.run(machine(), words, seconds=1)
    cause = causes.of(caught.value)
    assert cause["facts"]["command"] == "raw 0x06 0x47 (and 3 bytes)"
    assert "raw 0x06 0x47 (and 3 bytes)" in cause["text"]
    assert "0x70" not in str(cause)
