"""Whatever goes wrong between the driver and a real BMC: each error says what to do."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base, power_switching
from ironic_lite.drivers.ipmi import power, tool, vendor
from tests.emulators import lossy
from tests.emulators.ipmi import PASSWORD, Bmc
from tests.support.bmc_tasks import BmcTask, Program, task_with

POWER = power.IpmiPower()
VENDOR = vendor.IpmiVendor()


@pytest.mark.parametrize(
    ("values", "kind", "advice"),
    [
        ({"ipmi_password": "wrong"}, errors.BmcAccessDenied, "Check ipmi_username, ipmi_passw"),
        ({"ipmi_password": None}, errors.BmcAccessDenied, "Check ipmi_username, ipmi_password"),
        ({"ipmi_username": "nobody"}, errors.BmcAccessDenied, "the login of user nobody"),
        ({"ipmi_username": None}, errors.BmcAccessDenied, r"the login of user \(none\)"),
        ({"ipmi_cipher_suite": 17}, errors.HardwareError, "does not support cipher suite 17"),
        ({"ipmi_hex_kg_key": "4b6731"}, errors.BmcAccessDenied, "ipmi_hex_kg_key"),
        (
            {"ipmi_address": "bmc.invalid"},
            errors.BmcUnreachable,
            r"bmc\.invalid cannot be resolved",
        ),
        (
            {
                "ipmi_bridging": "single",
                "ipmi_target_channel": 0,
                "ipmi_target_address": "0x82",
            },
            errors.HardwareError,
            "controller behind the BMC at .* power status.* ipmi_bridging",
        ),
        (
            {
                "ipmi_protocol_version": "1.5",
                "ipmi_cipher_suite": None,
                "ipmi_password": "wrong",
            },
            errors.BmcAccessDenied,
            "Check ipmi_username",
        ),
    ],
)
def test_a_fault_says_what_to_do(
    bmc: Bmc, values: dict[str, object], kind: type[errors.Error], advice: str
) -> None:
    with pytest.raises(kind, match=advice) as caught:
        POWER.get_power_state(task_with(bmc.driver_info(**values)))
    assert type(caught.value) is kind
    assert PASSWORD not in caught.value.message


@pytest.mark.parametrize("how", ["stop", "hang"])
def test_a_silent_bmc_is_told_with_its_port(bmc: Bmc, machine: BmcTask, how: str) -> None:
    getattr(bmc, how)()
    with pytest.raises(errors.BmcUnreachable, match=f"does not answer on UDP port {bmc.port}"):
        POWER.get_power_state(machine)


@pytest.mark.parametrize(
    ("version", "carries"), [("2.0", 2), ("2.0", 4), ("2.0", 8), ("1.5", 2), ("1.5", 8)]
)
def test_a_bmc_that_falls_silent_on_the_way_is_told(bmc: Bmc, version: str, carries: int) -> None:
    suite = 3 if version == "2.0" else None
    with lossy.way(bmc.port, carries=carries) as port:
        info = bmc.driver_info(
            ipmi_port=port, ipmi_protocol_version=version, ipmi_cipher_suite=suite
        )
        with pytest.raises(errors.BmcUnreachable, match=f"UDP port {port}, and then was silent"):
            POWER.get_power_state(task_with(info))


_TAKES_17 = (
    'echo "$*" >> calls\ncase "$*" in *"-C 17 "*) '
    'exec "$REAL" $(echo "$*" | sed "s/-C 17/-C 3/; s/-p {way}/-p {port}/") ;; esac\n'
    'exec "$REAL" "$@"'
)


@pytest.mark.parametrize("status", [0x01, 0x11, 0x00], ids=["busy", "refused", "silent"])
def test_bmc_without_cipher_suite_3_is_reached_by_17(
    bmc: Bmc, program: Program, status: int
) -> None:
    with lossy.way(bmc.port, suite_3_off=status) as port:
        folder = program(_TAKES_17.format(way=port, port=bmc.port))
        task = task_with(bmc.driver_info(ipmi_port=port, ipmi_cipher_suite=None))
        assert POWER.get_power_state(task) == base.POWER_OFF
        assert POWER.get_power_state(task) == base.POWER_OFF
        assert tool.suite(tool.settings(task)) == 17
        configured = task_with(bmc.driver_info(ipmi_port=port))
        with pytest.raises(errors.HardwareError):
            tool.run(configured, ("power", "status"), seconds=1)
    calls = (folder / "calls").read_text().splitlines()
    assert [f"-C {suite}" in call for suite, call in zip((17, 17, 3), calls[1:4], strict=True)]
    assert "-C" not in calls[0]


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (0x01, errors.BmcUnreachable, "is busy, and was retried for 60 s"),
        (0x11, errors.HardwareError, "does not support cipher suite"),
        (0x00, errors.BmcUnreachable, "was silent"),
    ],
    ids=["busy", "refused", "silent"],
)
def test_bmc_that_opens_no_session_is_told_with_the_cipher_suites_that_were_tried(
    bmc: Bmc, program: Program, status: int, kind: type[errors.Error], says: str
) -> None:
    config.CONF.set_override("min_command_interval", 61, group="ipmi")  # one round of suites
    folder = program('echo "$*" >> calls\nexec "$REAL" "$@"')
    with lossy.way(bmc.port, suite_3_off=status) as port:
        task = task_with(bmc.driver_info(ipmi_port=port, ipmi_cipher_suite=None))
        with pytest.raises(kind, match=f"{says}.*suites tried: ipmitool's choice, 17, 3"):
            tool.run(task, ("power", "status"))
    calls = (folder / "calls").read_text().splitlines()
    assert sum("-C" in call for call in calls) == 2


@pytest.mark.parametrize(
    "words", [("power", "on"), ("raw", "0x00", "0x09", "5", "0", "0"), ("sdr",)], ids=" ".join
)
def test_silence_in_mid_command_is_reported_for_every_command(
    bmc: Bmc, words: tuple[str, ...]
) -> None:
    with lossy.way(bmc.port, carries=9) as port:
        task = task_with(bmc.driver_info(ipmi_port=port))
        with pytest.raises(errors.BmcUnreachable, match="then was silent"):
            tool.run(task, words)


def test_a_bmc_that_is_gone_before_it_answers_obeys(bmc: Bmc) -> None:
    warm = base.Call("POST", {"warm": True})
    with lossy.way(bmc.port, carries=9) as port:
        VENDOR.bmc_reset(task_with(bmc.driver_info(ipmi_port=port)), warm)
    with lossy.way(bmc.port, carries=2) as port:
        task = task_with(bmc.driver_info(ipmi_port=port))
        with pytest.raises(errors.BmcUnreachable, match="then was silent"):
            VENDOR.bmc_reset(task, warm)


@pytest.mark.parametrize("says", ["Command not supported in present state", "Node busy"])
def test_a_machine_on_its_way_may_refuse_to_tell_where_it_is(
    bmc: Bmc, machine: BmcTask, program: Program, says: str
) -> None:
    folder = program(
        'case "$*" in *" status") [ -e known ] || { touch known; '
        f'echo "Get Chassis Power Status failed: {says}" >&2; exit 1; }} ;; esac\n'
        'exec "$REAL" "$@"'
    )
    POWER.set_power_state(machine, base.POWER_ON)
    assert bmc.power
    assert (folder / "known").exists()


def test_power_on_that_the_bmc_accepts_and_ignores_is_sent_again(
    bmc: Bmc, machine: BmcTask, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power_switching, "RESEND_SECONDS", 0.2)
    program(
        'case "$*" in *" power on") [ -e sent ] || { touch sent; exit 0; } ;; esac\n'
        'exec "$REAL" "$@"'
    )
    POWER.set_power_state(machine, base.POWER_ON)
    assert bmc.power


_NO_RAKP = (
    'case "$*" in *" status") if [ -e good ]; then echo asked >> calls; '
    'if [ ! -e lost{more} ]; then touch lost; echo "> Error: no response from RAKP 1 message" >&2; '
    "exit 1; fi; fi; touch good ;; esac\n"
    'exec "$REAL" "$@"'
)


def test_login_without_an_answer_after_a_good_one_is_repeated_once(
    machine: BmcTask, program: Program
) -> None:
    folder = program(_NO_RAKP.format(more=""))
    assert POWER.get_power_state(machine) == base.POWER_OFF
    assert POWER.get_power_state(machine) == base.POWER_OFF
    assert (folder / "calls").read_text().splitlines() == ["asked"] * 2


def test_login_that_stays_without_an_answer_is_not_repeated_for_ever(
    machine: BmcTask, program: Program
) -> None:
    """The BMC may be silent to a password that has changed, and lock the user out."""
    folder = program(_NO_RAKP.format(more="-never"))
    POWER.get_power_state(machine)
    for _ in range(2):
        with pytest.raises(errors.BmcUnreachable, match="then was silent"):
            POWER.get_power_state(machine)
    assert (folder / "calls").read_text().splitlines() == ["asked"] * 3


def test_a_login_that_is_refused_meanwhile_is_not_tried_again(
    bmc: Bmc, machine: BmcTask, program: Program
) -> None:
    folder = program(
        'case "$*" in *" status") echo asked >> calls; echo "RAKP 2 HMAC is invalid" >&2; exit 1;; '
        'esac\nexec "$REAL" "$@"'
    )
    with pytest.raises(errors.BmcAccessDenied):
        POWER.set_power_state(machine, base.POWER_ON)
    assert (folder / "calls").read_text().splitlines() == ["asked"]
