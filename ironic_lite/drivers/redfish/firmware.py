"""The firmware interface of Redfish: versions, and updates of one component after another."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import ClassVar, TypeVar

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json, restored
from ironic_lite.domain import steps
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.arguments import Image
from ironic_lite.drivers.redfish import hardware
from ironic_lite.drivers.redfish.bmc import connection, faults, jobs, resources, transport
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

# The update service of a BMC: requests to it, and the progress that it shows beside tasks.
#
# The schema has ``Status.State`` Updating, of the update service and of each firmware (DSP0268).
# Some BMCs write a word of their own below ``Oem`` of the service, such as HPE's ``Oem.Hpe.State``.

_NAMES = ("State", "UpdateState", "UpdateStatus", "FlashStatus")
_ACTION = "#UpdateService.SimpleUpdate"
_DEPTH = 3
_MOST = 64
"""Limit of the objects below ``Oem`` that are searched."""

UPDATING, IDLE = "Updating", "Idle"
_BUSY_WORDS = frozenset(
    [
        "activating",
        "applying",
        "busy",
        "downloading",
        "erasing",
        "flashing",
        "inprogress",
        "preparing",
        "programming",
        "running",
        "staging",
        "starting",
        "transferring",
        "updating",
        "uploading",
        "verifying",
        "writing",
    ]
)
_WRITING = frozenset(["flashing", "programming", "updating", "writing"])
"""Words that mean an update even if they were there before it was requested."""
_ENDED = frozenset(["complete", "completed", "done", "finished", "success"])
_IDLE = _ENDED | frozenset(["enabled", "idle", "none", "ok", "ready"])
_FAILED = frozenset(["critical", "error", "exception", "failed", "failure", "updatefailed"])


def read_service(task: base.Task) -> Json:
    """Return the document of the update service, {} if it does not exist."""
    path = resources.link(resources.root(task), "UpdateService")
    return (resources.read(task, path) if path else None) or {}


def simple_update_target(service: Json) -> str | None:
    """Return the address of update requests."""
    return resources.text(service, "Actions", _ACTION, "target")


def send_request(task: base.Task, image: Image, service: Json) -> tuple[str, Json]:
    """Return the address and body of an update request.

    :raises errors.UnsupportedDriverExtension: the BMC does not accept updates.
    """
    place = simple_update_target(service)
    if place is None:
        raise resources.lacking(task, "update", "it offers no SimpleUpdate")
    parts = urllib.parse.urlsplit(image.url)
    body: Json = {"ImageURI": image.address}
    if image.component != arguments.BMC and _has_several_systems(task):
        # Without a target, the BMC may write the image to all of them, or to another one.
        body["Targets"] = [connection.call(task, connection.Link.system_path)]
    known = resources.value(service, "Actions", _ACTION, "TransferProtocol@Redfish.AllowableValues")
    protocol = parts.scheme.upper()
    if known is None or protocol in known:
        body["TransferProtocol"] = protocol
    # Not inside the URL, which BMCs write into their logs.
    if parts.username:
        body["Username"] = urllib.parse.unquote(parts.username)
    if parts.password:
        body["Password"] = urllib.parse.unquote(parts.password)
    return place, body


def _has_several_systems(task: base.Task) -> bool:
    path = resources.link(resources.root(task), "Systems")
    systems = (resources.read(task, path) if path else None) or {}
    return len(resources.entries(systems, "Members")) > 1


@dataclasses.dataclass(frozen=True, slots=True)
class UpdateState:
    """Meaning of a word. ``changed``: it says now that an update has ended, and did not before."""

    busy: bool = False
    failed: bool = False
    idle: bool = False
    changed: bool = False


def service_word(task: base.Task, service: Json) -> str | None:
    """Return the BMC's word for its update, None if it does not show one.

    :param service: the document of the update service.
    :raises errors.HardwareError: the BMC does not answer.
    """
    told = _service_word(service)
    if _key(told) in _WRITING:
        return told
    states = [resources.text(service, "Status", "State")]
    try:
        inventory = resources.link(service, "FirmwareInventory")
        for one in resources.members(task, inventory, spare=_skip_unreadable):
            states.append(resources.text(one, "Status", "State"))
    except errors.BmcBadAnswer:
        return told
    return UPDATING if UPDATING in states else told or (IDLE if any(states) else None)


def _skip_unreadable(why: errors.HardwareError) -> None:
    if not isinstance(why, errors.BmcBadAnswer):
        raise why


def update_state(now: str | None, before: str | None, *, worked: bool = False) -> UpdateState:
    """Return the meaning of a word.

    A word that says nothing about firmware means work if it is another one than before the request,
    because some services always say that they are running.

    :param before: the word from before the request.
    :param worked: the BMC has shown since then that it works.
    """
    key, other = _key(now), now != before
    if key in _WRITING or (key in _BUSY_WORDS and other):
        return UpdateState(busy=True)
    if key in _FAILED:
        failed = other or worked
        return UpdateState(failed=failed, idle=not failed)
    if key in _IDLE or key in _BUSY_WORDS or not other:
        ended = not worked and key in _ENDED and _key(before) not in {"", *_ENDED}
        return UpdateState(idle=now is not None, changed=ended)
    return UpdateState(busy=now is not None)


def service_message(service: Json) -> str | None:
    """Return the reason of a failure that the service shows, None if it shows none."""
    for part in _objects(resources.value(service, "Oem")):
        result = part.get("Result")
        if isinstance(result, dict) and (said := transport.entry_text(result)):
            return said
    return None


def _service_word(service: Json) -> str | None:
    if resources.text(service, "Status", "State") == UPDATING:
        return UPDATING
    for part in _objects(resources.value(service, "Oem")):
        told = next(filter(None, (resources.text(part, name) for name in _NAMES)), None)
        if told is not None:
            return told
    return None


def _objects(value: object) -> Iterator[Json]:
    """Yield the objects below ``Oem``, the outer ones first."""
    level = [value]
    left = _MOST
    for _ in range(_DEPTH):
        found = [one for one in level if isinstance(one, dict)][:left]
        yield from found
        left -= len(found)
        level = [child for one in found for child in one.values()]


def _key(told: str | None) -> str:
    return "".join(filter(str.isalpha, told or "")).lower()


# Firmware versions of a machine's BIOS, BMC and network cards.


def firmware_components(task: base.Task, system: Json) -> list[base.FirmwareComponent]:
    """Return the reported versions, without cards that the BMC does not list while power is off.

    :raises errors.HardwareError: see `connection.call`.
    """
    found = []
    bios = resources.text(system, "BiosVersion")
    if bios is not None:
        found.append(base.FirmwareComponent(arguments.BIOS, bios))
    manager: Json = {}
    with contextlib.suppress(errors.BmcBadAnswer):
        manager = _read_manager(task, system)
    bmc = resources.text(manager, "FirmwareVersion")
    if bmc is not None:
        model = resources.text(manager, "Model")
        found.append(base.FirmwareComponent(arguments.BMC, bmc, model=model))
    # Some BMCs refuse to list cards until the system has booted.
    with contextlib.suppress(errors.BmcBadAnswer):
        found += _network_cards(task, system)
    return found


def component_version(task: base.Task, component: str) -> str | None:
    """Return the version of one component, None if it is not reported.

    :raises errors.HardwareError: see `connection.call`.
    """
    if component == arguments.BIOS:
        return resources.text(resources.system(task), "BiosVersion")
    if component == arguments.BMC:
        return resources.text(_read_manager(task, resources.system(task)), "FirmwareVersion")
    found = firmware_components(task, resources.system(task))
    return next((one.version for one in found if one.component == component), None)


def probe_versions(task: base.Task) -> None:
    """Read the system and the manager that it names, which a settled BMC must have.

    :raises errors.HardwareError: one of them is missing.
    """
    system = resources.system(task)
    if resources.entries(system, "Links", "ManagedBy") and not _read_manager(task, system):
        address = task.node.driver_info.get("redfish_address")
        raise errors.BmcBadAnswer(address=address, reason="it shows no manager")


def _read_manager(task: base.Task, system: Json) -> Json:
    managers = resources.listed(task, system, "Links", "ManagedBy")
    return next(managers, None) or {}


def _network_cards(task: base.Task, system: Json) -> Iterator[base.FirmwareComponent]:
    spare = resources.note_unreadable(task, "the network cards")
    for chassis in resources.listed(task, system, "Links", "Chassis", spare=spare):
        place = resources.link(chassis, "NetworkAdapters")
        for card in resources.members(task, place, spare=spare):
            which = resources.text(card, "SerialNumber") or resources.text(card, "Id")
            for controller in resources.entries(card, "Controllers"):
                found = resources.text(controller, "FirmwarePackageVersion")
                if which and found:
                    yield _card_version(card, f"{arguments.NIC}{which}", found)
                    break


def _card_version(card: Json, name: str, found: str) -> base.FirmwareComponent:
    return base.FirmwareComponent(
        name,
        found,
        vendor=resources.text(card, "Manufacturer"),
        model=resources.text(card, "Model"),
        serial_number=resources.text(card, "SerialNumber"),
    )


# Firmware updates, one after another, each followed until the BMC has settled.
#
# The whole state is one JSON document on the node (`UpdateWork`), saved between any two changes, so
# that a restarted or another conductor can continue. A request that may have been sent already is
# searched for before it is sent again.
#
# ::
#
#     look -> send -> follow or watch -> prove -> settle -> rest -> look of the next one
#
# An answer without a task does not say that the firmware has been written, nor does a task that has
# vanished. The phase ``watch`` searches for other signs, and does not restart the machine without
# one.


T = TypeVar("T")

FIRST_PAUSE = 10.0
"""Seconds before the first poll of a task, which may have failed at once."""
LONGEST_PAUSE = 300.0
"""Most seconds between two polls; each poll shows the client that the step is alive."""
NEW_SECONDS = 300.0
"""Time before a restart for a task that stays new. Most BMCs show a new task until they have the
image, and write it then without a restart."""
BUSY_SECONDS = 900.0
"""Time limit for a BMC that is busy with other work, or with the request of a dead conductor."""
FORGOTTEN_LOOKS = 3
"""Polls with an unknown task before it counts as forgotten: a starting BMC knows no tasks for a
while, and a machine must not be restarted while its firmware is written."""
_BUSY = frozenset(
    {HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
)
_TITLE = "firmware.update"


@dataclasses.dataclass(slots=True)
class UpdateWork:
    """State of a list of images. Times are seconds since the epoch.

    ``index`` is the current image, ``phase`` its next action, ``since`` the start of the phase.
    ``silent`` is the time of the BMC's last answer if it is silent now. ``by`` is the claim of the
    process that sends the request, ``uris`` are the addresses of its task, ``found`` means that the
    task was searched for and may be of other work, ``before`` is the replaced version, ``sure``
    means that the BMC reported success. ``good`` counts answers in a row, ``lost`` counts those in
    a row without the task. ``known`` are the tasks from before the request, None if they could not
    be read; ``said`` is the word of the update service from then; ``busy`` means that the BMC has
    shown the update in progress.
    """

    began: float
    since: float
    index: int = 0
    phase: str = "look"
    silent: float | None = None
    by: str = ""
    uris: list[str] = dataclasses.field(default_factory=list)
    found: bool = False
    before: str | None = None
    sure: bool = False
    rebooted: bool = False
    good: int = 0
    lost: int = 0
    known: list[str] | None = None
    said: str | None = None
    busy: bool = False

    def enter(self, phase: str) -> None:
        """Enter another phase."""
        self.phase, self.since, self.good = phase, clock.stamp(), 0

    def next(self) -> None:
        """Start with the next image."""
        self.index += 1
        self.by, self.uris, self.before, self.sure, self.rebooted = "", [], None, False, False
        self.lost, self.known, self.said, self.busy, self.found = 0, None, None, False, False
        self.enter("look")

    @property
    def age(self) -> float:
        """Seconds since the start of this phase."""
        return clock.lived_since(self.since)


def begin_updates() -> UpdateWork:
    """Return the state for a new list of images."""
    now = clock.stamp()
    return UpdateWork(began=now, since=now)


def advance(task: base.Task, images: list[Image], work: UpdateWork) -> float | None:
    """Do what is possible now; return the seconds to the next poll, None at the end.

    :raises errors.HardwareError: an update failed; the text names the component and completed
        updates.
    """
    while work.index < len(images):
        image = images[work.index]
        _check_limit(work, image)
        try:
            pause = _PHASES[work.phase](task, image, work)
            work.silent = None
        except (errors.BmcUnreachable, errors.BmcBadAnswer, errors.BmcAccessDenied) as why:
            pause = _tolerate_silence(task, image, work, why)
        if pause is not None:
            return min(pause, LONGEST_PAUSE)
    return None


# -- the phases: each returns the seconds to its next poll, None to continue at once --------------


def _note_version(task: base.Task, image: Image, work: UpdateWork) -> float | None:
    """Note the current version and the intent to send a request, which is saved first."""
    work.before = component_version(task, image.component)
    with contextlib.suppress(errors.BmcBadAnswer):
        work.known = connection.call(task, jobs.recent)
    with contextlib.suppress(errors.BmcBadAnswer):
        work.said = service_word(task, read_service(task))
    work.by = jobs.CLAIMS.make()
    work.enter("send")
    return 0.0


def _send_update(task: base.Task, image: Image, work: UpdateWork) -> float | None:
    unsure, work.by = not jobs.CLAIMS.use(work.by), "sent"
    if unsure and _is_new(work, component_version(task, image.component)):
        work.enter("settle")  # an earlier conductor's request has been carried out
        return None
    document = read_service(task)
    target, body = send_request(task, image, document)

    def post(link: connection.Link) -> transport.Response:
        return link.wire.post(target, data=body)

    # Each search is a call of its own, because a call that fails is repeated as a whole.
    if unsure:
        work.uris = _search_task(task, work, target)
        work.found = bool(work.uris)
    if unsure and not work.uris and update_state(service_word(task, document), work.said).busy:
        work.enter("watch")
        return _first_pause()
    if not work.uris:
        try:
            answer = connection.call(task, _mark_refusal(post), read=False)
        except errors.StepFailed as why:
            if why.facts.get("busy") and work.age < BUSY_SECONDS:
                LOG.info("Node %s: %s", task.node.uuid, image.hide(str(why)))
                work.by = jobs.CLAIMS.make()
                return _poll_interval()
            cause = _hidden(why, image)
            raise update_failed(image, f"the BMC refused it: {why.facts['reason']}") from cause
        work.uris = jobs.places(answer)
    work.enter("follow" if work.uris else "watch")
    return _first_pause()


def _search_task(task: base.Task, work: UpdateWork, target: str) -> list[str]:
    known, ended = work.known or (), work.known is not None
    return connection.call(task, lambda link: jobs.running(link, target, known, ended=ended))


def _follow_update(task: base.Task, image: Image, work: UpdateWork) -> float | None:
    word, said = connection.call(task, lambda link: jobs.look(link, work.uris))
    rests = word == jobs.DONE or word in jobs.FAILED or word in jobs.WAITING
    if rests and work.found and _is_writing(task, work):
        work.busy = True  # whatever the task is for
        return _poll_interval()
    if word in jobs.FAILED:
        said = said or "it gives no reason"
        cause = errors.BmcTaskFailed(task=work.uris[0], state=word, reason=image.hide(said))
        raise update_failed(image, f"the BMC could not do it ({word}): {said}") from cause
    work.lost = work.lost + 1 if word == jobs.FORGOTTEN else 0
    if word == jobs.DONE:
        work.sure = True
        work.enter("watch" if work.found else "prove")
        return None
    if work.lost >= FORGOTTEN_LOOKS:
        work.enter("watch")
        return None
    if work.lost:
        return _first_pause()
    if word in jobs.WAITING and not work.rebooted and image.component != arguments.BMC:
        left = _restart_grace(image, word) - work.age
        if left > 0:
            return min(left, _poll_interval())
        _reboot_machine(task, work)
    return _poll_interval()


def _is_writing(task: base.Task, work: UpdateWork) -> bool:
    """Return whether the BMC shows that it writes firmware."""
    word = service_word(task, read_service(task))
    return update_state(word, work.said, worked=work.busy).busy


def _watch_update(task: base.Task, image: Image, work: UpdateWork) -> float | None:
    """Search for signs of an update that has no task, and wait for its end.

    :raises errors.StepFailed: the update failed, or nothing shows within the grace time whether it
        has ended.
    """
    document = read_service(task)
    target = simple_update_target(document) or ""
    lost = work.uris
    found = [] if work.sure else _search_task(task, work, target)
    if found := [uri for uri in found if uri not in lost]:
        work.uris, work.lost, work.found = found, 0, True
        work.enter("follow")
        return None
    word = service_word(task, document)
    now = update_state(word, work.said, worked=work.busy)
    if now.busy:
        work.busy, work.since = True, clock.stamp()
        return _poll_interval()
    if now.failed:
        said = service_message(document) or "it gives no reason"
        raise update_failed(image, f"the BMC could not do it ({word}): {said}")
    if work.sure or now.changed or (work.busy and now.idle):
        work.sure = True
        work.enter("prove")
        return None
    version = component_version(task, image.component)
    if _is_new(work, version):
        work.enter("settle")
        return None
    options = config.CONF.redfish
    bmc = image.component == arguments.BMC
    wait = options.firmware_update_unseen_wait
    left = (options.firmware_update_bmc_timeout if bmc and lost else wait) - work.age
    if left > 0:
        return min(float(left), _poll_interval())
    if bmc or not options.firmware_update_unseen_restart:
        raise update_failed(image, _unseen_end(image, work, version))
    text = "Node %s: restarting the machine although its BMC does not show the end of the update."
    LOG.warning(text, task.node.uuid)
    work.enter("prove")
    return None


def _unseen_end(image: Image, work: UpdateWork, version: str | None) -> str:
    now = version or "not reported"
    if work.uris:
        reason = f"the BMC forgot its task, and the version is still {now}"
    else:
        reason = (
            "the BMC accepted it, but shows no task, no progress and no new version within "
            f"{work.age:.0f} s: the version is {now}"
        )
    which = "BMC" if image.component == arguments.BMC else "machine"
    return (
        f"{reason}. The firmware may need a restart of the {which} by hand. Look at the log of "
        "the BMC, restart when it no longer writes, and run the step again; see "
        "[redfish]firmware_update_unseen_wait and firmware_update_unseen_restart"
    )


def _restart_grace(image: Image, word: str) -> float:
    """Return the seconds for which a task in this state may go on without a restart."""
    bios = image.component == arguments.BIOS
    grace = 0.0 if bios else float(config.CONF.redfish.firmware_update_nic_starting_wait)
    return max(grace, NEW_SECONDS) if word == jobs.NEW else grace


def _prove_version(task: base.Task, image: Image, work: UpdateWork) -> float | None:
    """Check that another version runs; if none is reported, trust the BMC's result."""
    now = component_version(task, image.component)
    on_boot = image.component != arguments.BMC and not work.rebooted
    blind = work.before is None and not (on_boot and image.component == arguments.BIOS)
    if _is_new(work, now) or ((work.sure or work.rebooted) and blind):
        work.enter("settle")
        return None
    if on_boot:
        _reboot_machine(task, work)
        work.since = clock.stamp()
        return _first_pause()
    options = config.CONF.redfish
    limit, pause = options.firmware_update_reboot_delay, _first_pause()
    if image.component == arguments.BMC:
        limit = options.firmware_update_bmc_timeout
        pause = options.firmware_update_bmc_version_check_interval
    if work.age < limit:
        return float(pause)
    if not work.sure:
        raise update_failed(image, _unseen_end(image, work, now))
    text = "Node %s: the BMC reports the update of %s as done, but its version is still %s."
    LOG.warning(text, task.node.uuid, image.component, now)
    work.enter("settle")
    return None


def _await_stable_bmc(task: base.Task, image: Image, work: UpdateWork) -> float | None:
    """Continue once the BMC has answered several times in a row."""
    wanted, limit = (
        config.CONF.redfish.firmware_update_required_successes,
        config.CONF.redfish.firmware_update_resource_validation_timeout,
    )
    if wanted and limit:
        try:
            probe_versions(task)
        except errors.HardwareError as why:
            work.good = 0
            if work.age >= limit:
                reason = f"{image.component} was updated, but the BMC does not settle within "
                reason += f"{limit:g} s: {why.message}"
                raise errors.StepFailed(step=_TITLE, reason=reason) from why
            return float(config.CONF.redfish.firmware_update_validation_interval)
        work.good += 1
        if work.good < wanted:
            return float(config.CONF.redfish.firmware_update_validation_interval)
    work.enter("rest")
    return float(image.wait) or None


def _rest_before_next(task: base.Task, image: Image, work: UpdateWork) -> float | None:
    left = image.wait - work.age
    if left > 0:
        return left
    work.next()
    return None


_PHASES: Mapping[str, Callable[[base.Task, Image, UpdateWork], float | None]] = {
    "look": _note_version,
    "send": _send_update,
    "follow": _follow_update,
    "watch": _watch_update,
    "prove": _prove_version,
    "settle": _await_stable_bmc,
    "rest": _rest_before_next,
}


def _is_new(work: UpdateWork, version: str | None) -> bool:
    return version is not None and work.before is not None and version != work.before


# -- faults -----------------------------------------------------------------------------------


def update_failed(image: Image, why: str) -> errors.StepFailed:
    """Return the error for an image."""
    reason = f"{image.component} was not updated from {image.shown}: {image.hide(why)}"
    return errors.StepFailed(step=_TITLE, reason=reason)


def _hidden(why: errors.Error, image: Image) -> errors.Error:
    """Return the first cause of an error without the secrets of the image's address."""
    first = why.causes[-1]
    facts = {
        name: image.hide(fact) if isinstance(fact, str) else fact
        for name, fact in first.facts.items()
    }
    return type(first)(image.hide(first.message), **facts)


def _check_limit(work: UpdateWork, image: Image) -> None:
    limit = config.CONF.redfish.firmware_update_overall_timeout
    if limit and clock.lived_since(work.began) > limit:
        reason = f"all updates together take more than {limit:g} s (now in phase {work.phase})"
        raise update_failed(image, f"{reason}; see [redfish]firmware_update_overall_timeout")


def _tolerate_silence(
    task: base.Task, image: Image, work: UpdateWork, why: errors.HardwareError
) -> float:
    """Tolerate the silence of a restarting BMC up to a time limit.

    :raises errors.StepFailed: the silence has lasted longer.
    """
    work.silent = work.silent or clock.stamp()
    own = connection.settings(task).unresponsive_wait
    wait = config.CONF.redfish.firmware_update_wait_unresponsive_bmc if own is None else own
    limit = max(config.CONF.redfish.firmware_update_bmc_timeout, float(wait))
    if clock.lived_since(work.silent) >= limit:
        raise update_failed(image, f"no usable answer for {limit:g} s: {why.message}") from _hidden(
            why, image
        )
    return min(
        _poll_interval(), float(config.CONF.redfish.firmware_update_bmc_version_check_interval)
    )


def _mark_refusal(work: Callable[[connection.Link], T]) -> Callable[[connection.Link], T]:
    """Turn a refusal into an error of its own, distinct from all other faults."""

    def tried(link: connection.Link) -> T:
        try:
            return work(link)
        except sushy.exceptions.HTTPError as error:
            busy = error.status_code in _BUSY
            if not busy and not faults.is_refusal(error):
                raise
            said = faults.detail(error, link.node)
            cause = faults.refused(error, link.node)
            raise errors.StepFailed(step=_TITLE, reason=said, busy=busy) from cause

    return tried


# -- the machine -----------------------------------------------------------------------------


def _reboot_machine(task: base.Task, work: UpdateWork) -> None:
    """Restart the machine, so that tasks waiting for a boot begin."""
    power = task.driver.power
    task.driver.deploy.prepare_restart(task)
    if power.get_power_state(task) == base.POWER_OFF:
        task.switch_power(base.POWER_ON)
    else:
        task.switch_power(base.REBOOT)
    task.forget_agent(keep_token=True)
    task.node.power_state = base.POWER_ON
    work.rebooted = True


def _first_pause() -> float:
    return min(FIRST_PAUSE, _poll_interval())


def _poll_interval() -> float:
    return float(config.CONF.redfish.firmware_update_status_interval)


NOTE = "redfish_firmware"
"""Key of the state of a running step: `UpdateWork` as JSON."""


class RedfishFirmware(hardware.RedfishInterface, base.Firmware):
    """The firmware interface ``redfish``."""

    work_notes: ClassVar[Sequence[str]] = (NOTE,)

    @arguments.bmc_step(argsinfo=arguments.FIRMWARE_ARGS, destroys=("firmware",))
    def update(self, task: base.Task, settings: list[Json]) -> base.Outcome:
        """Let the BMC fetch and write firmware, one component after another.

        This method only reads. The first poll sends the first request, after the intent was saved.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        return _continue_update(task, arguments.images(settings), begin_updates())

    def cache_firmware_components(self, task: base.Task) -> list[base.FirmwareComponent]:
        """Return the versions of BIOS, BMC and network cards.

        :raises errors.UnsupportedDriverExtension: the BMC reports no version.
        """
        found = firmware_components(task, resources.known_system(task))
        if not found:
            raise self.unsupported(task, "firmware versions on this BMC: it reports none")
        return found

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """Continue with the images; see `advance`.

        :raises errors.StepFailed: an image could not be written; the text names it and the reason.
        """
        kept = task.recall(NOTE)
        work = restored(UpdateWork, kept) if kept else begin_updates()
        return _continue_update(task, arguments.images(steps.arguments(step)["settings"]), work)


def _continue_update(
    task: base.Task, images: list[arguments.Image], work: UpdateWork
) -> base.Outcome:
    try:
        pause = advance(task, images, work)
    except errors.HardwareError:
        task.keep(NOTE, None)
        raise
    if pause is None:
        task.keep(NOTE, None)
        return base.DONE
    task.keep(NOTE, dataclasses.asdict(work))
    task.wake_after(pause)
    return base.WAIT
