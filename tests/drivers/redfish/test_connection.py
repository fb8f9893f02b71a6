"""The connection to a BMC: checks, tags, deadlines, counts, silence, and lost locks."""

from __future__ import annotations

import pathlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.checks import examiner
from ironic_lite.core import config, log_lines, metrics
from ironic_lite.domain.examination import Finding
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.redfish import bios, inspect, management, power, raid
from ironic_lite.drivers.redfish.bmc import connection
from ironic_lite.features.doctor import work
from tests.emulators import bmc
from tests.emulators import liar as liars
from tests.support import bmc_tasks, certificates, expiring_locks, fake_task
from tests.support.bmc_tasks import REDFISH, BmcTask, task_of, wait_for_answers

# Checks of the way to a Redfish BMC: the layer that is broken fails, with advice.

WAY = ("bmc_address", "bmc_port", "bmc_tls", "bmc_root", "bmc_login", "power")
SECRET = "s3cret-w0rd"


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve(users={"root": SECRET}) as running:
        yield running


def examined(machine: bmc.Machine, seconds: float = 60, **info: Any) -> dict[str, Finding]:
    """Return the findings about a machine's node by name, each with advice if it is bad."""
    row = fake_task.node(
        driver="redfish",
        driver_info={**machine.driver_info, **info},
        boot_interface="redfish-virtual-media",
    )
    subject: Any = work.NodeSubject(config.CONF, BmcTask(row, driver=REDFISH))
    with deadline.until(seconds), deadline.limit(seconds):
        found = examiner.Examiner().examine(
            examiner.lines("node", work.table_of(subject), subject), seconds
        )
    for finding in found:
        assert bool(finding.do) == (finding.status != "ok"), finding
        assert SECRET not in f"{finding.text}{finding.do}"
    return {finding.name: finding for finding in found}


def statuses(found: dict[str, Finding]) -> list[str]:
    return [str(found[name].status) for name in WAY]


def test_every_layer_of_a_sound_bmc_is_ok(machine: bmc.Machine) -> None:
    found = examined(machine)
    # Plain HTTP is a warning.
    assert statuses(found) == ["ok", "ok", "warning", "ok", "ok", "ok"]
    assert found["bmc_login"].text.startswith("user root reads the system (")
    assert found["power"].text == "the machine is in power off"
    assert str(found["virtual_media"].status) == "ok"
    assert machine.changes() == []


def test_unknown_name_fails_the_first_check(machine: bmc.Machine) -> None:
    found = examined(machine, redfish_address="http://bmc.invalid")
    assert statuses(found) == ["failed", *["unknown"] * 5]
    assert "bmc.invalid cannot be resolved" in found["bmc_address"].text
    assert machine.log == []


def test_address_outside_the_allowed_networks_is_not_connected_to(machine: bmc.Machine) -> None:
    config.CONF.set_override("allowed_networks", ["192.0.2.0/24"], "redfish")
    try:
        port = machine.url.rpartition(":")[2]
        found = examined(machine, redfish_address=f"http://localhost:{port}")
    finally:
        config.CONF.clear_override("allowed_networks", "redfish")
    assert statuses(found) == ["failed", *["unknown"] * 5]
    assert "[redfish]allowed_networks" in found["bmc_address"].text
    assert machine.log == []


def test_closed_port_fails_the_second_check(machine: bmc.Machine) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        found = examined(machine, redfish_address=address)
    assert statuses(found) == ["ok", "failed", *["unknown"] * 4]
    assert "connection refused" in found["bmc_port"].text


def test_untrusted_certificate_fails_the_check_of_tls(tmp_path: pathlib.Path) -> None:
    certificate, key = certificates.write(tmp_path, 100)
    with bmc.serve(users={"root": SECRET}, tls=(str(certificate), str(key))) as machine:
        found = examined(machine)
        assert statuses(found) == ["ok", "ok", "failed", *["unknown"] * 3]
        assert "redfish_verify_ca" in found["bmc_tls"].text
        trusted = examined(machine, redfish_verify_ca=str(certificate))
        assert statuses(trusted) == ["ok"] * 6
        blind = examined(machine, redfish_verify_ca=False)
        assert statuses(blind) == ["ok", "ok", "warning", "ok", "ok", "ok"]
        assert "not verified" in blind["bmc_tls"].text


@pytest.mark.parametrize(("days", "status"), [(12, "warning"), (-2, "failed")])
def test_end_of_the_certificate_of_a_bmc_is_reported(
    tmp_path: pathlib.Path, days: int, status: str
) -> None:
    certificate, key = certificates.write(tmp_path, days)
    with bmc.serve(tls=(str(certificate), str(key))) as machine:
        found = examined(machine, redfish_verify_ca=str(certificate))
    assert str(found["bmc_tls"].status) == status
    assert ("expired" if days < 0 else "valid for 1") in found["bmc_tls"].text


def test_server_that_is_no_bmc_fails_the_check_of_the_root(machine: bmc.Machine) -> None:
    found = examined(machine, redfish_address=f"{machine.url}/elsewhere")
    assert statuses(found) == ["ok", "ok", "warning", "failed", "unknown", "unknown"]
    assert "redfish_address" in found["bmc_root"].do


def test_wrong_password_fails_the_check_of_the_login(machine: bmc.Machine) -> None:
    found = examined(machine, redfish_password="wrong")
    assert statuses(found) == ["ok", "ok", "warning", "ok", "failed", "unknown"]
    assert "refused the credentials of user root" in found["bmc_login"].text
    assert "redfish_password" in found["bmc_login"].do


def test_wrong_system_fails_the_check_of_the_login(machine: bmc.Machine) -> None:
    found = examined(machine, redfish_system_id="/redfish/v1/Systems/none")
    assert str(found["bmc_login"].status) == "failed"
    assert machine.system in found["bmc_login"].text


def test_silent_bmc_fails_in_time(machine: bmc.Machine) -> None:
    machine.tricks["*"] = bmc.silent
    found = examined(machine, seconds=2)
    assert statuses(found)[:4] == ["ok", "ok", "warning", "failed"]
    machine.tricks.clear()


def test_machine_without_a_virtual_cd_is_a_failed_check(machine: bmc.Machine) -> None:
    for path, document in machine.tree.items():
        if "VirtualMedia/" in path or ("/VirtualMedia" in path and "MediaTypes" in document):
            document["MediaTypes"] = ["USBStick"]
    found = examined(machine)
    assert str(found["virtual_media"].status) == "failed"
    assert "ipxe" in found["virtual_media"].do


def test_other_boot_mode_is_a_warning(machine: bmc.Machine) -> None:
    found = examined(machine)
    mode = found["boot_mode"].text.split(",")[0]
    assert str(found["boot_mode"].status) == "ok"
    other = {"uefi": "bios", "bios": "uefi"}[mode]
    config.CONF.set_override("default_boot_mode", other, "deploy")
    try:
        changed = examined(machine)["boot_mode"]
    finally:
        config.CONF.clear_override("default_boot_mode", "deploy")
    assert str(changed.status) == "warning"
    assert changed.text == f"the machine is in {mode} mode, the node in {other}"


# Changes of documents whose BMC checks which version is changed (DSP0266, ETags).

MANAGEMENT = management.RedfishManagement()
ISO = "http://192.0.2.1/images/boot.iso"


@pytest.fixture
def tagged_machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture(params=["", "2026-11-28T12:00:00+", "a b/"], ids=repr)
def strict(tagged_machine: bmc.Machine, request: pytest.FixtureRequest) -> bmc.Machine:
    tagged_machine.habits.etag_start = request.param
    tagged_machine.habits.needs_etag = True
    return tagged_machine


@pytest.fixture(params=["strong", "weak", "in the body", "weak in the body"])
def shown(strict: bmc.Machine, request: pytest.FixtureRequest) -> bmc.Machine:
    strict.habits.weak_etags = "weak" in request.param
    strict.habits.etags_in_body = "body" in request.param
    return strict


def test_boot_device_is_set(shown: bmc.Machine) -> None:
    MANAGEMENT.set_boot_device(bmc_tasks.task_of(shown), "pxe", persistent=True)
    boot = shown[shown.system]["Boot"]
    assert boot["BootSourceOverrideTarget"] == "Pxe"
    assert boot["BootSourceOverrideEnabled"] == "Continuous"


def test_secure_boot_is_switched(shown: bmc.Machine) -> None:
    MANAGEMENT.set_secure_boot_state(bmc_tasks.task_of(shown), True)
    assert shown["SecureBoot"]["SecureBootEnable"] is True


def test_drive_without_actions_is_filled_and_emptied(shown: bmc.Machine) -> None:
    drive = shown["VirtualMedia/Cd"]
    drive["Actions"] = {}

    def allow(handler: bmc.Handler) -> None:
        reply = handler.serving.host.answer(handler.request_read)
        handler.say(200, reply.document, Allow="GET, PATCH", **reply.headers)

    shown.tricks[f"GET {shown.places.media}/Cd"] = allow
    task = bmc_tasks.task_of(shown)
    MANAGEMENT.attach_virtual_media(task, "cdrom", ISO)
    assert drive["Image"] == ISO
    MANAGEMENT.detach_virtual_media(task)
    assert drive["Image"] is None


def test_refusal_of_every_etag_is_reported_once(tagged_machine: bmc.Machine) -> None:
    title = f"PATCH {tagged_machine.system}"
    tagged_machine.tricks[title] = bmc.says(412, {"error": {"message": "No."}})
    tagged_machine.habits.weak_etags = True
    with pytest.raises(errors.BmcBadAnswer, match="HTTP 412"):
        MANAGEMENT.set_boot_device(bmc_tasks.task_of(tagged_machine), "pxe")
    tags = [one.headers["If-Match"] for one in tagged_machine.requests if one.title == title]
    strong = tagged_machine.etag(tagged_machine.system)
    assert tags == [f"W/{strong}", strong, None]


# A conductor that has lost a node sends its BMC nothing more, whatever method it is in.

POWER, FENCED_MANAGEMENT = power.RedfishPower(), management.RedfishManagement()
IMAGE = "http://192.0.2.1/image.iso"
SETTINGS = [{"name": "BootMode", "value": "Bios"}]
VOLUMES = {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}


def _switched(target: str) -> expiring_locks.Act:
    return lambda task: POWER.set_power_state(task, target, 2)


def _stepped(kind: str, title: str, **args: Any) -> expiring_locks.Act:
    """Return an act that begins a clean step, and asks ten times how it goes on."""
    interface: Any = {"raid": raid.RedfishRAID(), "bios": bios.RedfishBIOS()}[kind]
    step = fake_task.step(f"{kind}.{title}", **args)

    def act(task: fake_task.FakeTask) -> None:
        outcome = interface.execute_clean_step(task, step)
        for _ in range(10):
            if outcome is not base.WAIT:
                return
            outcome = interface.poll_step(task, base.StepKind.CLEAN, step)

    return act


ACTS: dict[str, expiring_locks.Act] = {
    "power on": _switched(base.POWER_ON),
    "power off": _switched(base.POWER_OFF),
    "soft power off": _switched(base.SOFT_POWER_OFF),
    "reboot": lambda task: POWER.reboot(task, 2),
    "soft reboot": lambda task: POWER.reboot(task, 2, soft=True),
    "read the power": POWER.get_power_state,
    "boot device": lambda task: FENCED_MANAGEMENT.set_boot_device(task, "pxe", persistent=True),
    "boot mode": lambda task: FENCED_MANAGEMENT.set_boot_mode(task, "bios"),
    "secure boot": lambda task: FENCED_MANAGEMENT.set_secure_boot_state(task, True),
    "interrupt": FENCED_MANAGEMENT.inject_nmi,
    "sensors": FENCED_MANAGEMENT.get_sensors_data,
    "vendor": FENCED_MANAGEMENT.detect_vendor,
    "inspection": inspect.RedfishInspect().inspect_hardware,
    "virtual media": lambda task: FENCED_MANAGEMENT.attach_virtual_media(task, "cdrom", IMAGE),
    "no virtual media": lambda task: FENCED_MANAGEMENT.detach_virtual_media(task, None),
    "settings": _stepped("bios", "apply_configuration", settings=SETTINGS),
    "no settings": _stepped("bios", "factory_reset"),
    "volumes": _stepped("raid", "create_configuration", delete_existing=True),
    "no volumes": _stepped("raid", "delete_configuration"),
}


@pytest.fixture
def fenced_machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        running.tree[running.system]["PowerState"] = "On"
        yield running


@pytest.mark.parametrize("name", ACTS)
def test_no_order_arrives_after_the_lock_is_lost(fenced_machine: bmc.Machine, name: str) -> None:
    driver = bmc_tasks.REDFISH

    def make(answers: int) -> expiring_locks.LeasedTask:
        node = fake_task.node(
            driver="redfish", driver_info=fenced_machine.driver_info, target_raid_config=VOLUMES
        )
        return expiring_locks.LeasedTask(node, driver=driver, answers=answers)

    assert expiring_locks.interrupt(ACTS[name], make, lambda: fenced_machine.log) >= 1


# A BMC that is slower than whoever waits for it: its trouble is told while somebody listens.

POWER_IN_TIME = power.RedfishPower()
READ = f"GET {liars.SYSTEM}"


@pytest.mark.parametrize("trick", [liars.silent, liars.drips, liars.drips_body])
@pytest.mark.parametrize("warm", [True, False])
def test_a_bmc_that_hangs_is_told_of_before_the_caller_goes_away(
    liar: liars.Liar, trick: liars.Trick, warm: bool
) -> None:
    task = bmc_tasks.task_at(liar.address)
    if warm:
        POWER_IN_TIME.get_power_state(task)
    liar.tricks[READ] = trick
    with deadline.until(0.5), pytest.raises(errors.BmcUnreachable) as caught:
        POWER_IN_TIME.get_power_state(task)
    assert liar.address in caught.value.message
    assert "no complete answer within" in caught.value.message or "is slow" in caught.value.message
    assert liar.log.count(READ) == 1 + warm


def test_many_answers_that_are_each_quick_enough_have_one_limit_together() -> None:
    with bmc.serve() as machine:
        task = bmc_tasks.task_of(machine)
        lamps = MANAGEMENT.get_supported_indicators(task, "disk")
        assert len(lamps["disk"]) > 2
        machine.log.clear()
        with deadline.until(0.5):
            machine.tricks["GET *Drives/*"] = late
            with pytest.raises(errors.BmcUnreachable, match=r"took more than the 0\.5 s"):
                MANAGEMENT.get_supported_indicators(task, "disk")
        asked = [title for title in machine.log if "/Drives/" in title]
        assert len(asked) < len(lamps["disk"])


def late(handler: bmc.Handler) -> None:
    """Answer, when most of the time is over."""
    handler.serving.stopping.wait(0.3)
    handler.truth()


def test_a_bmc_that_is_busy_for_longer_than_a_caller_waits_is_not_asked_again(
    liar: liars.Liar,
) -> None:
    busy = {"error": {"@Message.ExtendedInfo": [{"MessageId": "IDRAC.2.1.SYS518"}]}}
    liar.tricks[f"PATCH {liars.SYSTEM}"] = liars.says(503, busy)
    task = bmc_tasks.task_at(liar.address)
    with (
        deadline.until(connection.BUSY_SECONDS - 0.1),
        pytest.raises(errors.BmcUnreachable, match="is not ready"),
    ):
        MANAGEMENT.set_boot_device(task, "pxe")
    assert task.pauses == []


def test_a_login_made_in_a_hurry_serves_those_who_have_time(liar: liars.Liar) -> None:
    task = bmc_tasks.task_at(liar.address)
    with deadline.until(0.4):
        POWER_IN_TIME.get_power_state(task)
    liar.tricks[READ] = lambda handler: late_by(handler, 0.5)
    assert POWER_IN_TIME.get_power_state(task) == base.POWER_OFF
    with deadline.limit(0.1), pytest.raises(errors.BmcUnreachable, match=r"within 0\.1 s"):
        POWER_IN_TIME.get_power_state(task)


def late_by(handler: bmc.Handler, seconds: float) -> None:
    handler.serving.stopping.wait(seconds)
    handler.truth()


def test_nothing_is_asked_when_the_time_is_over(liar: liars.Liar) -> None:
    with deadline.until(0), pytest.raises(errors.BmcUnreachable, match="is slow"):
        POWER_IN_TIME.get_power_state(bmc_tasks.task_at(liar.address))
    assert liar.log == []


# What is counted of calls to Redfish BMCs, and what those do who would rather not wait.

COUNTED_POWER = power.RedfishPower()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[metrics.BmcCounters]:
    """Counts of this test alone."""
    made = metrics.BmcCounters()
    monkeypatch.setattr(metrics, "BMCS", made)
    yield made


def calls(made: metrics.BmcCounters) -> dict[tuple[str, str], int]:
    """Return how many calls were counted, by operation and result."""
    told: list[dict[str, Any]] = made.snapshot()["bmc_calls_total"]
    assert {one["kind"] for one in told} == {"redfish"}
    return {(one["operation"], one["result"]): one["value"] for one in told}


def test_each_request_is_counted_with_its_result_and_each_repetition(
    liar: liars.Liar, counted: metrics.BmcCounters
) -> None:
    task = bmc_tasks.task_at(liar.address)
    COUNTED_POWER.get_power_state(task)
    logins = calls(counted)["GET", "ok"] - 1
    liar.tricks[READ] = liars.says_first(1, liars.hangs_up)
    COUNTED_POWER.get_power_state(task)
    assert calls(counted) == {("GET", "ok"): 2 * logins + 2, ("GET", "silence"): 1}
    assert counted.snapshot()["bmc_retries_total"] == [{"kind": "redfish", "value": 1}]
    (seconds,) = counted.snapshot()["bmc_call_seconds"]
    assert seconds["count"] == sum(calls(counted).values())


def test_an_error_that_the_bmc_tells_of_is_no_silence(
    liar: liars.Liar, counted: metrics.BmcCounters
) -> None:
    task = bmc_tasks.task_at(liar.address, redfish_system_id="/redfish/v1/Systems/none")
    with pytest.raises(errors.InvalidParameter):
        COUNTED_POWER.get_power_state(task)
    assert calls(counted)["GET", "error"] == 1


def test_call_with_a_short_deadline_fails_at_once_for_a_silent_bmc(
    liar: liars.Liar, counted: metrics.BmcCounters
) -> None:
    config.CONF.set_override("connection_retry_interval", 1, group="redfish")
    task = bmc_tasks.task_at(liar.address)
    liar.tricks[READ] = liars.hangs_up
    with deadline.limit(deadline.UNHURRIED), pytest.raises(errors.BmcUnreachable):
        COUNTED_POWER.get_power_state(task)
    assert calls(counted)["GET", "silence"] == 1
    assert not task.pauses


def test_patience_bounds_a_request_also_on_a_login_from_before(
    liar: liars.Liar,
) -> None:
    task = bmc_tasks.task_at(liar.address)
    assert COUNTED_POWER.get_power_state(task) == base.POWER_OFF
    liar.tricks[READ] = liars.says_first(1, liars.silent)
    with deadline.limit(0.2), pytest.raises(errors.BmcUnreachable, match=r"within 0\.2 s"):
        COUNTED_POWER.get_power_state(task)
    assert COUNTED_POWER.get_power_state(task) == base.POWER_OFF


def test_patience_ends_with_its_block() -> None:
    assert not deadline.is_limited()
    with deadline.limit(2.0):
        assert (deadline.within(60.0), deadline.within(1.0)) == (2.0, 1.0)
        with deadline.limit(deadline.UNHURRIED):
            assert deadline.within(60.0) == 60.0
    assert not deadline.is_limited()


class Lines:
    """A sink that keeps the texts it gets."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        self.texts.append((source, text))


def test_each_request_is_a_line_of_the_log_without_its_query(liar: liars.Liar) -> None:
    task, lines = bmc_tasks.task_at(liar.address), Lines()
    with log_lines.gathering_run_lines(lines):
        COUNTED_POWER.get_power_state(task)
        liar.tricks[READ] = liars.hangs_up
        with deadline.limit(deadline.UNHURRIED), pytest.raises(errors.BmcUnreachable):
            COUNTED_POWER.get_power_state(task)
    assert {source for source, _ in lines.texts} == {"bmc"}
    texts = [text.rpartition(" 0.")[0] for _, text in lines.texts]
    assert f"GET {liars.SYSTEM} 200" in texts
    assert texts[-1].startswith(f"GET {liars.SYSTEM} no answer (")


# A BMC that gave no answer is noted as silent until it answers; an error is an answer.

SILENT_POWER = power.RedfishPower()


@pytest.fixture
def silent_machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        yield running


@pytest.fixture
def task(silent_machine: bmc.Machine) -> Iterator[BmcTask]:
    made = task_of(silent_machine)
    deadline.SILENT.note(made.node.uuid, silent=False)
    yield made
    deadline.SILENT.note(made.node.uuid, silent=False)


def test_a_bmc_without_an_answer_is_silent_until_its_next_one(
    silent_machine: bmc.Machine, task: BmcTask
) -> None:
    wait_for_answers(1)
    silent_machine.tricks["*"] = bmc.silent
    with pytest.raises(errors.BmcUnreachable), deadline.limit(deadline.UNHURRIED):
        SILENT_POWER.get_power_state(task)
    assert task.node.uuid in deadline.SILENT
    wait_for_answers(60)
    silent_machine.tricks.clear()
    SILENT_POWER.get_power_state(task)
    assert task.node.uuid not in deadline.SILENT


def test_a_bmc_that_was_hurried_is_not_silent(silent_machine: bmc.Machine, task: BmcTask) -> None:
    silent_machine.tricks["*"] = bmc.silent
    with pytest.raises(errors.BmcUnreachable), deadline.limit(deadline.LEAST_ANSWER_SECONDS / 2):
        SILENT_POWER.get_power_state(task)
    assert task.node.uuid not in deadline.SILENT


def test_an_error_is_an_answer(silent_machine: bmc.Machine, task: BmcTask) -> None:
    deadline.SILENT.note(task.node.uuid, silent=True)
    silent_machine.tricks["*"] = bmc.says(503)
    with pytest.raises(errors.BmcUnreachable), deadline.limit(deadline.UNHURRIED):
        SILENT_POWER.get_power_state(task)
    assert task.node.uuid not in deadline.SILENT
