"""The management interface of Redfish."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json
from ironic_lite.domain import states, vocabulary
from ironic_lite.domain.steps import Arg
from ironic_lite.drivers import base, bmc_bases
from ironic_lite.drivers.redfish import boot, hardware, inspect, sensors, virtual_media
from ironic_lite.drivers.redfish.bmc import connection, faults, jobs, quirks, resources
from ironic_lite.drivers.redfish.bmc import library as sushy

LOG = logging.getLogger(__name__)

# Waiting for settings that may take effect only at the next boot.
#
# Most BMCs apply a setting at once or some seconds after they accepted it (202). Some create a job
# that runs at the next boot. For them the machine is restarted and then returned to its former
# power state.


SETTINGS_PAUSE = 15.0
"""Seconds between two checks; a job of firmware settings takes minutes."""

LOOKS, LOOK_PAUSE = 4, 2.0
"""Number and interval in seconds of the checks before the machine is restarted."""

OCCUPIED = frozenset({states.State.ACTIVE, states.State.RESCUE})
"""States of machines with an instance, which are not restarted automatically (S5.24)."""

EffectCheck = Callable[[base.Task], bool]


def await_effect(task: base.Task, what: str, is_so: EffectCheck, uris: Sequence[str] = ()) -> None:
    """Wait until a sent setting has taken effect; restart the machine if it needs that.

    :param what: the setting in words, such as ``boot mode uefi``.
    :param uris: the addresses of the BMC's task, empty without one.
    :raises errors.HardwareError: the setting has no effect after [redfish]boot_mode_config_timeout
        seconds, its task failed, or the machine has an instance.
    """
    left = list(uris)

    def is_done(task: base.Task) -> bool:
        done = is_so(task)
        if left and not done and jobs.check(task, left, f"apply {what}") in jobs.ENDED:
            left.clear()
        return done

    _restart_until(task, what, is_done)


def _restart_until(task: base.Task, what: str, is_so: EffectCheck) -> None:
    if _takes_effect_soon(task, is_so):
        return
    if task.node.provision_state in OCCUPIED:
        raise errors.HardwareError(
            reason=f"The BMC applies {what} at the next boot. The machine has an instance "
            "and is not restarted automatically: reboot it, then repeat the request."
        )
    LOG.info("Node %s: restarting the machine for %s.", task.node.uuid, what)
    before = task.driver.power.get_power_state(task)
    task.switch_power(base.REBOOT)
    task.node.power_state = base.POWER_ON
    done = _took_effect(task, is_so)
    if before == base.POWER_OFF:
        task.switch_power(base.POWER_OFF)
        task.node.power_state = base.POWER_OFF
    if not done:
        raise errors.HardwareError(
            reason=f"The machine was restarted for {what}, but its BMC does not show it after "
            f"{_effect_limit()} s. Check the job queue and the firmware settings on the BMC, or "
            "raise [redfish]boot_mode_config_timeout."
        )


def _takes_effect_soon(task: base.Task, is_so: EffectCheck) -> bool:
    for _ in range(LOOKS - 1):
        if is_so(task):
            return True
        task.pause(LOOK_PAUSE)
    return is_so(task)


def _took_effect(task: base.Task, is_so: EffectCheck) -> bool:
    """Return whether the setting took effect in time; a limit of 0 seconds skips the check."""
    seconds = _effect_limit()
    end = time.monotonic() + seconds
    while seconds and not _check_setting(task, is_so):
        if time.monotonic() >= end:
            return False
        task.pause(SETTINGS_PAUSE)
    return True


def _check_setting(task: base.Task, is_so: EffectCheck) -> bool:
    """Check a BMC that may be busy with the change; an unusable answer counts as not yet
    applied."""
    try:
        return is_so(task)
    except (errors.BmcUnreachable, errors.BmcBadAnswer) as why:
        LOG.info("Node %s: %s Asking again.", task.node.uuid, why)
        return False


def _effect_limit() -> int:
    seconds: int = config.CONF.redfish.boot_mode_config_timeout
    return seconds


# Indicator lamps of a machine: of its system, its chassis and its drives.
#
# Old BMCs have IndicatorLED with three states; newer ones have LocationIndicatorActive, which only
# locates the part.


LED, LOCATION = "IndicatorLED", "LocationIndicatorActive"
_LED_STATES: Mapping[Any, str] = {"Lit": "on", "Off": "off", "Blinking": "blinking"}
_LOCATION_STATES: Mapping[Any, str] = {True: "on", False: "off"}


@dataclasses.dataclass(frozen=True, slots=True)
class Lamp:
    """One lamp, as a property of a document."""

    name: str
    path: str
    key: str
    now: Any
    offered: tuple[str, ...] | None = None

    @property
    def words(self) -> Mapping[Any, str]:
        """Return the mapping of Redfish values to our words."""
        words = _LED_STATES if self.key == LED else _LOCATION_STATES
        if self.offered is None:
            return words
        return {value: word for value, word in words.items() if value in self.offered}

    @property
    def state(self) -> str:
        """Return the lamp's state in our word."""
        words = _LED_STATES if self.key == LED else _LOCATION_STATES
        return words.get(self.now, vocabulary.UNKNOWN)


def _indicator_facts(lamps: Iterator[Lamp]) -> dict[str, Json]:
    return {lamp.name: {"readonly": False, "states": sorted(lamp.words.values())} for lamp in lamps}


def _find_lamp(task: base.Task, component: str, indicator: str) -> Lamp:
    if component not in _FINDERS:
        reason = f"{component!r} has no lamps here, only {', '.join(_FINDERS)}"
        raise errors.InvalidParameter(path="component", reason=reason)
    names = []
    for lamp in _component_lamps(task, component):
        if lamp.name == indicator:
            return lamp
        names.append(lamp.name)
    reason = f"{component} has no lamp {indicator!r}, only {', '.join(names) or 'none'}"
    raise errors.InvalidParameter(path="indicator", reason=reason)


# -- finding lamps -------------------------------------------------------------------------------


def _component_lamps(task: base.Task, component: str) -> Iterator[Lamp]:
    for name, document in _FINDERS[component](task):
        lamp = _read_lamp(name, document)
        if lamp is not None:
            yield lamp


def _read_lamp(name: str, document: Json) -> Lamp | None:
    """Return the lamp of a document, None if it has none."""
    key = next((key for key in (LED, LOCATION) if document.get(key) is not None), None)
    path = resources.text(document, "@odata.id")
    if key is None or path is None:
        return None
    offered = document.get(f"{key}@Redfish.AllowableValues")
    words = tuple(map(str, offered)) if key == LED and isinstance(offered, list) else None
    return Lamp(name, path, key, document[key], words)


_Found = Iterator[tuple[str, Json]]


def _of_system(task: base.Task) -> _Found:
    document = resources.system(task)
    yield _indicator_name(document), document


def _of_chassis(task: base.Task) -> _Found:
    spare = resources.note_unreadable(task, "the chassis")
    for document in resources.listed(task, resources.system(task), "Links", "Chassis", spare=spare):
        yield _indicator_name(document), document


def _of_disks(task: base.Task) -> _Found:
    """Return the drives' lamps; drives lack UUIDs, and their Ids are unique per storage only."""
    spare = resources.note_unreadable(task, "the drives")
    collection = resources.link(resources.system(task), "Storage")
    for storage in resources.members(task, collection, spare=spare):
        for drive in resources.listed(task, storage, "Drives", spare=spare):
            yield f"{storage.get('Id')}:{drive.get('Id')}", drive


def _indicator_name(document: Json) -> str:
    return resources.text(document, "UUID") or str(document.get("Id"))


_FINDERS: Mapping[str, Callable[[base.Task], _Found]] = {
    "system": _of_system,
    "chassis": _of_chassis,
    "disk": _of_disks,
}


# Secure boot by Redfish: its state and its keys.

KEYS_DEFAULT = "ResetAllKeysToDefault"
KEYS_DELETE = "DeleteAllKeys"


def reset_secure_boot_keys(task: base.Task, how: str) -> None:
    """Restore the vendor's secure boot keys, or delete all keys.

    :param how: ``KEYS_DEFAULT`` or ``KEYS_DELETE``.
    :raises errors.UnsupportedDriverExtension: the BMC does not offer that action.
    """
    document = _secure_boot_state(task, how) or {}
    action = resources.value(document, "Actions", "#SecureBoot.ResetKeys")
    target = resources.text(action, "target")
    offered = resources.value(action, "ResetKeysType@Redfish.AllowableValues")
    if target is None or (isinstance(offered, list) and how not in offered):
        raise resources.lacking(task, how, "its SecureBoot resource has no such action")
    uris = jobs.post(task, target, {"ResetKeysType": how})
    jobs.follow(task, uris, f"do {how}", jobs.SHORT_SECONDS, waits=True)


def _secure_boot_state(task: base.Task, method: str) -> Json | None:
    """Return the SecureBoot resource, None if reading it needs a licence.

    :raises errors.UnsupportedDriverExtension: the resource does not exist.
    """
    path = resources.link(resources.known_system(task), "SecureBoot")
    there, found = (
        connection.call(task, lambda link: _read_document(link, path)) if path else (False, None)
    )
    if not there:
        raise resources.lacking(task, method, "it has no SecureBoot resource")
    return None if found is None else {"@odata.id": path, **found}


def _read_document(link: connection.Link, path: str) -> tuple[bool, Json | None]:
    """Return whether the document exists, and its content; None if reading it needs a licence."""
    try:
        return True, link.wire.document(path)
    except sushy.exceptions.ResourceNotFoundError:
        return False, None
    except sushy.exceptions.AccessError as error:
        if quirks.said(error.body, quirks.UNLICENSED):
            quirks.UNLICENSED.log(f"BMC {link.node.address}")
            return True, None
        raise


# The clock of a BMC: a step sets it, because wrong clocks break certificates and log times.

CLOCK_ARGS: Mapping[str, Arg] = {
    "target_datetime": Arg(
        "The time to set in the format of ISO 8601, in UTC unless it has an offset. Default: the "
        "conductor's time."
    ),
    "datetime_local_offset": Arg("The offset of the BMC's local time from UTC, such as +02:00."),
}

CLOCK_DRIFT = 1.0
"""Seconds by which the clock may be wrong before the verification sets it."""

CLOCK_TOLERANCE = 10.0
"""Seconds by which the clock may differ afterwards, as the request itself takes time."""

_OFFSET = re.compile(r"[+-]\d\d:\d\d")


def set_clock(task: base.Task, target: object, offset: object) -> None:
    """Set the clock of the BMC, and check that the BMC shows the time.

    :param target: a time as in ``ARGS``, None for now.
    :param offset: the offset to set as in ``ARGS``, None to leave it.
    :raises errors.InvalidParameter: an argument is no time or no offset.
    :raises errors.UnsupportedDriverExtension: the BMC shows no clock.
    :raises errors.HardwareError: the BMC refused, or shows another time.
    """
    zone, moment = _read_zone(offset), _read_time(target)
    manager, _ = _with_clock(task)
    zone = zone or _known_zone(manager)
    # A BMC without fractions of seconds refuses them; without the half second it would be late.
    exact, half = ("microseconds", 0.0) if _has_fractions(manager) else ("seconds", 0.5)
    moment = moment or _now() + datetime.timedelta(seconds=half)
    body: Json = {"DateTime": moment.astimezone(zone).isoformat(timespec=exact)}
    if offset is not None:
        body["DateTimeLocalOffset"] = offset
    path = str(manager["@odata.id"])
    sent = time.monotonic()
    resources.change(task, path, body)
    _await_time(task, path, moment, sent)


def verify_clock(task: base.Task) -> None:
    """Set the clock of the BMC to now if it is wrong by more than `CLOCK_DRIFT`.

    :raises errors.HardwareError: as `set_clock`.
    """
    try:
        manager, asked = _with_clock(task)
    except errors.UnsupportedDriverExtension as why:
        LOG.warning("Node %s: the clock of its BMC is not checked: %s", task.node.uuid, why)
        return
    shown, answered = _shown_time(manager), _now()
    if shown is None:
        text = "Node %s: the clock of its BMC is not checked: DateTime is no time"
        LOG.warning(text, task.node.uuid)
        return
    drift = datetime.timedelta(seconds=CLOCK_DRIFT)
    # Without fractions it shows the begin of its second.
    second = datetime.timedelta(seconds=0 if _has_fractions(manager) else 1)
    if asked - drift - second <= shown <= answered + drift:
        return
    LOG.warning("Node %s: its BMC shows the time %s; it is set", task.node.uuid, shown.isoformat())
    set_clock(task, None, None)


def _now() -> datetime.datetime:
    return clock.now().replace(tzinfo=datetime.UTC)


def _has_fractions(manager: Json) -> bool:
    return "." in str(manager["DateTime"])


def _with_clock(task: base.Task) -> tuple[Json, datetime.datetime]:
    """Return the first manager of the system that shows a time, and when it was asked."""
    system, asked = resources.system(task), _now()
    for manager in resources.managers(task, system):
        if resources.text(manager, "DateTime") and resources.text(manager, "@odata.id"):
            return manager, asked
        asked = _now()
    raise resources.lacking(task, "set_bmc_clock", "no manager of the system shows DateTime")


def _await_time(task: base.Task, path: str, moment: datetime.datetime, sent: float) -> None:
    """Wait until the BMC shows the time that was set; a time that cannot be parsed is accepted."""
    for look in range(LOOKS):
        manager = resources.read(task, path) or {}
        shown = _shown_time(manager)
        wanted = moment + datetime.timedelta(seconds=time.monotonic() - sent)
        if shown is None or abs((shown - wanted).total_seconds()) <= CLOCK_TOLERANCE:
            return
        if look < LOOKS - 1:
            task.pause(LOOK_PAUSE)
    raise errors.HardwareError(
        reason=f"The BMC accepted the time {moment.isoformat()} but shows "
        f"{resources.text(manager, 'DateTime')} at {path}. Check whether it takes its time from "
        "NTP or from the machine."
    )


def _shown_time(manager: Json) -> datetime.datetime | None:
    try:
        found = datetime.datetime.fromisoformat(resources.text(manager, "DateTime") or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=_known_zone(manager))


def _known_zone(manager: Json) -> datetime.tzinfo:
    """Return the zone in which the BMC shows its time; UTC if it does not say."""
    for text in (
        resources.text(manager, "DateTime"),
        resources.text(manager, "DateTimeLocalOffset"),
    ):
        found = re.search(r"(Z|[+-]\d\d:\d\d)$", text or "")
        if found and text:
            return _read_offset(found[0])
    return datetime.UTC


def _read_offset(text: str) -> datetime.tzinfo:
    zone = datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo
    return zone or datetime.UTC


# -- arguments ---------------------------------------------------------------------------------


def _read_time(target: object) -> datetime.datetime | None:
    if target is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(str(target))
    except ValueError:
        reason = f"{str(target)[:64]!r} is no time such as 2026-01-31T12:00:00+00:00"
        raise errors.InvalidParameter(path="target_datetime", reason=reason) from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _read_zone(offset: object) -> datetime.tzinfo | None:
    if offset is None:
        return None
    try:
        if isinstance(offset, str) and _OFFSET.fullmatch(offset):
            return _read_offset(offset)
    except ValueError:
        pass
    reason = f"{str(offset)[:64]!r} is no offset such as +02:00"
    raise errors.InvalidParameter(path="datetime_local_offset", reason=reason)


_RESETS = ("GracefulRestart", "ForceRestart")


class RedfishManagement(hardware.RedfishInterface, bmc_bases.RestartingManagement):
    """The management interface ``redfish``."""

    # -- boot device and mode -------------------------------------------------------------

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return the devices among pxe, disk, cdrom, bios and uefihttp that the machine offers."""
        return connection.call(task, boot.supported_devices)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Set the device of the next boot or of all boots, also if the BMC cannot persist it.

        :raises errors.InvalidParameter: the machine does not offer that device.
        """
        if device not in boot.TARGETS:
            reason = f"{device!r} is not one of {', '.join(boot.TARGETS)}"
            raise errors.InvalidParameter(path="boot_device", reason=reason)
        boot.choose_device(task, device, persistent=persistent)

    def get_boot_device(self, task: base.Task) -> Json:
        """Return device and persistence; a device set again before each boot is persistent."""
        found = connection.call(task, boot.read_override)
        kept = task.recall(boot.OVERRIDE_NOTE)
        # The BMC of such a node supports only Once, so another device there is meant for one boot.
        if kept is not None and found["boot_device"] in {None, kept}:
            return {"boot_device": kept, "persistent": True}
        return found

    def get_supported_boot_modes(self, task: base.Task) -> list[str]:
        """Return the modes among bios and uefi that the machine offers."""
        return connection.call(task, boot.supported_modes)

    def set_boot_mode(self, task: base.Task, mode: str) -> None:
        """Set bios or uefi, and wait until the BMC shows it; see `await_effect`.

        :raises errors.InvalidParameter: the mode does not exist, or the machine does not offer it.
        :raises errors.UnsupportedDriverExtension: the BMC neither shows nor accepts a mode.
        """
        if mode not in boot.MODES:
            reason = f"{mode!r} is not one of {', '.join(boot.MODES)}"
            raise errors.InvalidParameter(path="boot_mode", reason=reason)
        uris = connection.call(task, lambda link: boot.set_boot_mode(link, mode), read=False)
        if uris is None:
            raise resources.lacking(task, "set_boot_mode", "it does not show or accept a boot mode")
        await_effect(
            task, f"boot mode {mode}", lambda task: self.get_boot_mode(task) in {mode, None}, uris
        )

    def get_boot_mode(self, task: base.Task) -> str | None:
        """Return bios or uefi; None if the machine does not report it."""
        return connection.call(task, boot.boot_mode_of)

    # -- secure boot ----------------------------------------------------------------------

    def get_secure_boot_state(self, task: base.Task) -> bool | None:
        """Return whether secure boot is on; None if the BMC does not report its state.

        :raises errors.UnsupportedDriverExtension: the machine has no SecureBoot resource.
        """
        document = _secure_boot_state(task, "get_secure_boot_state")
        state = None if document is None else document.get("SecureBootEnable")
        return state if isinstance(state, bool) else None

    def set_secure_boot_state(self, task: base.Task, state: bool) -> None:
        """Switch secure boot on or off, and wait until the BMC shows it.

        :raises errors.UnsupportedDriverExtension: the machine has no SecureBoot resource.
        :raises errors.HardwareError: the boot mode is BIOS, the BMC refused, or see `await_effect`.
        """
        document = _secure_boot_state(task, "set_secure_boot_state")
        if document is None:
            reason = "The BMC needs a licence to show secure boot. Install the licence on the BMC."
            raise errors.HardwareError(reason=reason)
        if document.get("SecureBootEnable") is state:
            return
        mode = resources.text(resources.system(task), "Boot", "BootSourceOverrideMode")
        if state and mode == "Legacy":
            raise errors.HardwareError(
                reason="Secure boot needs the boot mode uefi; this machine has the boot mode bios. "
                "Set the boot mode first."
            )
        uris = jobs.change(task, document["@odata.id"], {"SecureBootEnable": state})
        what = f"secure boot {'on' if state else 'off'}"
        await_effect(task, what, lambda task: self.get_secure_boot_state(task) is state, uris)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("keys",), restarts=0)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=("keys",), restarts=0)
    def reset_secure_boot_keys_to_default(self, task: base.Task) -> None:
        """Restore the vendor's keys, see `reset_secure_boot_keys`."""
        reset_secure_boot_keys(task, KEYS_DEFAULT)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=("keys",), restarts=0)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=("keys",), restarts=0)
    def clear_secure_boot_keys(self, task: base.Task) -> None:
        """Delete all keys, see `reset_secure_boot_keys`; no signature is checked until new keys
        come."""
        reset_secure_boot_keys(task, KEYS_DELETE)

    # -- the machine ----------------------------------------------------------------------

    def inject_nmi(self, task: base.Task) -> None:
        """Send the machine a non-maskable interrupt.

        :raises errors.UnsupportedDriverExtension: the BMC offers no reset of type Nmi.
        """
        if not connection.call(task, _inject_nmi, read=False):
            raise resources.lacking(task, "inject_nmi", "it offers no reset of type Nmi")

    def get_supported_indicators(
        self, task: base.Task, component: str | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return the lamps of system, chassis and disks, named by UUID or ``storage:drive``.

        If all components are requested, unreadable ones are left out: some BMCs answer 500 for
        drives.
        """
        found = {}
        for part in _FINDERS:
            if component not in {None, part}:
                continue
            try:
                found[part] = _indicator_facts(_component_lamps(task, part))
            except errors.BmcBadAnswer as why:
                if component is not None:
                    raise
                LOG.info("Node %s: cannot list the lamps of %s: %s", task.node.uuid, part, why)
        return {part: lamps for part, lamps in found.items() if lamps}

    def get_indicator_state(self, task: base.Task, component: str, indicator: str) -> str:
        """Return the state of a lamp.

        :raises errors.InvalidParameter: there is no such lamp.
        """
        return _find_lamp(task, component, indicator).state

    def set_indicator_state(
        self, task: base.Task, component: str, indicator: str, state: str
    ) -> None:
        """Switch a lamp.

        :raises errors.InvalidParameter: there is no such lamp, or it does not have this state.
        """
        lamp = _find_lamp(task, component, indicator)
        value = next((value for value, word in lamp.words.items() if word == state), None)
        if value is None:
            known = ", ".join(sorted(lamp.words.values()))
            reason = f"{indicator} cannot be {state!r}, only {known}"
            raise errors.InvalidParameter(path="state", reason=reason)
        uris = jobs.change(task, lamp.path, {lamp.key: value})
        jobs.follow(task, uris, f"switch {indicator} {state}", jobs.SHORT_SECONDS)

    def get_sensors_data(self, task: base.Task) -> dict[str, dict[str, Json]]:
        """Return fans, temperatures, power supplies and drives, see `sensors.get`."""
        return sensors.read_sensors(task)

    def detect_vendor(self, task: base.Task) -> str | None:
        """Return the vendor of the BMC's service, else of the machine; None if unknown."""
        vendor = resources.text(resources.root(task), "Vendor")
        return vendor or resources.text(resources.known_system(task), "Manufacturer")

    def get_identity(self, task: base.Task) -> Mapping[str, str]:
        """Return UUID and serial number of the system (DSP0268, ComputerSystem)."""
        system = resources.known_system(task)
        told = {key: resources.text(system, key) for key in ("UUID", "SerialNumber")}
        return {key: value for key, value in told.items() if value}

    def get_mac_addresses(self, task: base.Task) -> list[str]:
        """Return the MAC addresses in lower case, of disabled cards only if none is enabled.

        :raises errors.UnsupportedDriverExtension: the BMC reports no address.
        """
        with inspect.Survey(task) as read:
            found = [card["mac_address"] for card in read.interfaces()]
        if not found:
            why = "; ".join(["it lists no MAC address of a card", *read.remarks, *read.faults])
            raise resources.lacking(task, "get_mac_addresses", why)
        return found

    # -- virtual media --------------------------------------------------------------------

    def get_virtual_media(self, task: base.Task) -> list[Json]:
        """Return the virtual drives, see `virtual_media.list_media`."""
        return virtual_media.list_media(task)

    def attach_virtual_media(self, task: base.Task, device_type: str, image_url: str) -> None:
        """Put an image into a virtual drive, see `virtual_media.attach_image`."""
        virtual_media.attach_image(task, device_type, image_url)
        virtual_media.warn_about_cd(task, device_type)

    def detach_virtual_media(
        self, task: base.Task, device_types: Sequence[str] | None = None
    ) -> None:
        """Empty virtual drives, see `virtual_media.empty_drives`."""
        virtual_media.empty_drives(task, device_types)

    # -- the BMC itself -------------------------------------------------------------------

    def restart_bmc(self, task: base.Task) -> None:
        """Restart the managers of the system; `RestartingManagement` waits for them.

        :raises errors.UnsupportedDriverExtension: the BMC offers no restart.
        """
        if not connection.call(task, _reset_bmc, read=False):
            raise self.unsupported(task, "reset_bmc on this BMC: it offers no Manager.Reset")

    @base.clean_step(
        priority=0, argsinfo=CLOCK_ARGS, requires_ramdisk=False, destroys=(), restarts=0
    )
    def set_bmc_clock(
        self,
        task: base.Task,
        target_datetime: str | None = None,
        datetime_local_offset: str | None = None,
    ) -> None:
        """Set the clock of the BMC, see `set_clock`."""
        set_clock(task, target_datetime, datetime_local_offset)

    @base.verify_step(priority=1, destroys=(), restarts=0)
    def verify_bmc_clock(self, task: base.Task) -> None:
        """Set the clock of the BMC if it is wrong and the option requires that."""
        if config.CONF.redfish.enable_verify_bmc_clock:
            verify_clock(task)

    def ask_bmc(self, task: base.Task, seconds: float) -> None:
        """Read the machine's power from the BMC, within the time limit of any request."""
        connection.call(task, connection.Link.power_word)


def _inject_nmi(link: connection.Link) -> bool:
    """Send the interrupt; return False if the system does not support it."""
    system = link.system()
    if sushy.ResetType.NMI not in system.get_allowed_reset_system_values():
        return False
    system.reset_system(sushy.ResetType.NMI)
    return True


def _reset_bmc(link: connection.Link) -> bool:
    """Restart the managers of the system; return False if none supports it."""
    done = False
    for manager in link.system().managers:
        if "#Manager.Reset" not in (manager.json.get("Actions") or {}):
            continue
        known = {reset.value for reset in manager.get_allowed_reset_manager_values()}
        best = next((reset for reset in _RESETS if reset in known), None)
        if best is not None:
            done = True
            with link.wire.unkept():
                if not _restart_bmc(manager, sushy.ResetType(best)):
                    break
    if done:
        # The sessions of a BMC end with its restart.
        link.forget()
    return done


def _restart_bmc(manager: Any, how: sushy.ResetType) -> bool:
    """Restart a BMC; return False if it went silent before it answered, because it obeyed."""
    try:
        manager.reset_manager(how)
    except (sushy.exceptions.ConnectionError, OSError) as error:
        if not faults.is_answer_lost(error):
            raise
        return False
    return True
