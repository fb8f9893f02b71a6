"""The hardware type ``fake-hardware`` and its interfaces, for tests and rehearsals."""

from __future__ import annotations

import logging
import posixpath
import urllib.parse
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import erasure_results, raid
from ironic_lite.drivers import arguments, base
from ironic_lite.drivers.fake import behaviour

LOG = logging.getLogger(__name__)

POWER_STATE = "fake_power_state"

_POWER_ENDS = {
    base.POWER_ON: base.POWER_ON,
    base.POWER_OFF: base.POWER_OFF,
    base.SOFT_POWER_OFF: base.POWER_OFF,
    base.REBOOT: base.POWER_ON,
    base.SOFT_REBOOT: base.POWER_ON,
}
"""Targets, and the states in which they end."""


class FakePower(behaviour.Staged, base.Power):
    """Stores the power state on the node. A new machine is off (conflict C36)."""

    def get_power_state(self, task: base.Task) -> str | None:
        """Return what was last set, ``power off`` at first.

        :raises errors.HardwareError: driver_info/fake_fail_power says so.
        """
        message = behaviour.read_behaviour(task).fail_power
        if message is not None:
            raise errors.HardwareError(reason=message)
        state: str = task.recall(POWER_STATE, base.POWER_OFF)
        return state

    def get_power_and_health(self, task: base.Task) -> tuple[str | None, str | None]:
        """Return the power state, and driver_info/fake_health."""
        return self.get_power_state(task), behaviour.read_behaviour(task).health

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Remember the state that ``target`` ends in.

        :raises errors.InvalidParameter: there is no such target.
        :raises errors.PowerFailure: driver_info/fake_fail_power says so.
        """
        if target not in _POWER_ENDS:
            raise errors.InvalidParameter(
                path="target", reason=f"{target!r} is not one of {', '.join(_POWER_ENDS)}"
            )
        message = behaviour.read_behaviour(task).fail_power
        if message is not None:
            raise errors.PowerFailure(target=target, reason=message)
        task.keep(POWER_STATE, _POWER_ENDS[target])

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """End with the power on.

        :raises errors.PowerFailure: driver_info/fake_fail_power says so.
        """
        self.set_power_state(task, base.SOFT_REBOOT if soft else base.REBOOT, timeout)

    def get_supported_power_states(self, task: base.Task) -> tuple[str, ...]:
        """Return all targets there are."""
        return tuple(_POWER_ENDS)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=1)
    def cycle(self, task: base.Task) -> None:
        """Switch the machine off and on again."""
        self.reboot(task)
        task.node.power_state = base.POWER_ON


BOOT_DEVICE = "fake_boot_device"
BOOT_MODE = "fake_boot_mode"
BOOT_DEVICES = (
    "pxe",
    "disk",
    "cdrom",
    "bios",
    "safe",
    "wanboot",
    "iscsiboot",
    "floppy",
    "uefihttp",
)
BOOT_MODES = base.BOOT_MODES
SECURE_BOOT = "fake_secure_boot"
NMIS = "fake_nmis"
LAMPS = "fake_indicators"
MEDIA = "fake_virtual_media"
INDICATORS: Mapping[str, Mapping[str, JsonView]] = {
    "chassis": {"led-0": {"readonly": True, "states": ["off", "on"]}},
    "system": {"led": {"readonly": False, "states": ["blinking", "off", "on"]}},
}
"""The lamps of every fake machine."""


class FakeManagement(behaviour.Staged, base.Management):
    """Stores requested values on the node. A new machine boots from the network."""

    def get_supported_boot_devices(self, task: base.Task) -> list[str]:
        """Return all devices there are."""
        return list(BOOT_DEVICES)

    def set_boot_device(self, task: base.Task, device: str, *, persistent: bool = False) -> None:
        """Remember the device.

        :raises errors.InvalidParameter: naming ``boot_device``.
        """
        _one_of("boot_device", device, BOOT_DEVICES)
        task.keep(BOOT_DEVICE, {"boot_device": device, "persistent": persistent})

    def get_boot_device(self, task: base.Task) -> Json:
        """Return what was set last."""
        return dict(task.recall(BOOT_DEVICE) or {"boot_device": "pxe", "persistent": False})

    def get_supported_boot_modes(self, task: base.Task) -> list[str]:
        """Return both."""
        return list(BOOT_MODES)

    def set_boot_mode(self, task: base.Task, mode: str) -> None:
        """Remember the mode.

        :raises errors.InvalidParameter: naming ``boot_mode``.
        """
        _one_of("boot_mode", mode, BOOT_MODES)
        behaviour.play_call(task, "management.set_boot_mode")
        task.keep(BOOT_MODE, mode)

    def get_boot_mode(self, task: base.Task) -> str | None:
        """Return what was set last, None if nothing was."""
        mode: str | None = task.recall(BOOT_MODE)
        return mode

    def get_secure_boot_state(self, task: base.Task) -> bool | None:
        """Return what was set last; a new machine does not check signatures."""
        state: bool = task.recall(SECURE_BOOT, False)
        return state

    def set_secure_boot_state(self, task: base.Task, state: bool) -> None:
        """Remember the state.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        behaviour.play_call(task, "management.set_secure_boot_state")
        task.keep(SECURE_BOOT, state)

    def inject_nmi(self, task: base.Task) -> None:
        """Count the interrupts.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        behaviour.play_call(task, "management.inject_nmi")
        task.keep(NMIS, task.recall(NMIS, 0) + 1)

    def get_supported_indicators(
        self, task: base.Task, component: str | None = None
    ) -> dict[str, dict[str, Json]]:
        """Return a lamp that can be switched, and one that cannot."""
        return {
            part: {name: dict(facts) for name, facts in lamps.items()}
            for part, lamps in INDICATORS.items()
            if component in (None, part)
        }

    def get_indicator_state(self, task: base.Task, component: str, indicator: str) -> str:
        """Return what was set last, ``off`` at first.

        :raises errors.InvalidParameter: naming ``component`` or ``indicator``.
        """
        _indicator_facts(component, indicator)
        state: str = (task.recall(LAMPS) or {}).get(f"{indicator}@{component}", "off")
        return state

    def set_indicator_state(
        self, task: base.Task, component: str, indicator: str, state: str
    ) -> None:
        """Remember the state.

        :raises errors.InvalidParameter: naming ``component``, ``indicator`` or ``state``.
        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        lamp = _indicator_facts(component, indicator)
        if lamp["readonly"]:
            reason = f"{indicator} of {component} cannot be switched"
            raise errors.InvalidParameter(path="indicator", reason=reason)
        _one_of("state", state, lamp["states"])
        behaviour.play_call(task, "management.set_indicator_state")
        task.keep(LAMPS, {**(task.recall(LAMPS) or {}), f"{indicator}@{component}": state})

    def get_sensors_data(self, task: base.Task) -> dict[str, dict[str, Json]]:
        """Return one temperature.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        behaviour.play_call(task, "management.get_sensors_data")
        return {"Temperature": {"Inlet": {"Sensor Reading": "21 degrees C", "Status": "ok"}}}

    def detect_vendor(self, task: base.Task) -> str | None:
        """Return driver_info/fake_vendor."""
        return behaviour.read_behaviour(task).vendor

    def get_mac_addresses(self, task: base.Task) -> list[str]:
        """Return what an inspection would find, too: driver_info/fake_ports."""
        return sorted(behaviour.read_behaviour(task).ports)

    def get_virtual_media(self, task: base.Task) -> list[Json]:
        """Return one drive of each type, and what is in it."""
        held = task.recall(MEDIA) or {}
        return [
            {"media_types": [kind], "inserted": kind in held, "image": held.get(kind)}
            for kind in base.VIRTUAL_MEDIA
        ]

    def attach_virtual_media(self, task: base.Task, device_type: str, image_url: str) -> None:
        """Remember the image, but nothing secret of its address.

        :raises errors.InvalidParameter: naming ``device_type``.
        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        _one_of("device_type", device_type, base.VIRTUAL_MEDIA)
        behaviour.play_call(task, "management.attach_virtual_media")
        held = {**(task.recall(MEDIA) or {}), device_type: masking.address(image_url)}
        task.keep(MEDIA, held)

    def detach_virtual_media(
        self, task: base.Task, device_types: Sequence[str] | None = None
    ) -> None:
        """Forget the images.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        behaviour.play_call(task, "management.detach_virtual_media")
        gone = base.VIRTUAL_MEDIA if device_types is None else device_types
        held = task.recall(MEDIA) or {}
        task.keep(MEDIA, {kind: url for kind, url in held.items() if kind not in gone} or None)

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=0)
    def reset_bmc(self, task: base.Task) -> None:
        """Restart the BMC; its settings for the machine stay."""

    @base.verify_step(priority=10, destroys=(), restarts=0)
    def verify_access(self, task: base.Task) -> None:
        """Show that the BMC can be spoken to.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``verify``.
        """
        behaviour.fail_verb(task, "verify")


def _indicator_facts(component: str, indicator: str) -> JsonView:
    _one_of("component", component, INDICATORS)
    _one_of("indicator", indicator, INDICATORS[component])
    return INDICATORS[component][indicator]


def _one_of(path: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        reason = f"{value!r} is not one of {', '.join(known)}"
        raise errors.InvalidParameter(path=path, reason=reason)


class FakeBoot(behaviour.Staged, base.Boot):
    """Does nothing, and succeeds."""


class FakeDeploy(behaviour.Staged, base.Deploy):
    """Its steps write nothing; power changes go to the node's power interface."""

    def adopt(self, task: base.Task) -> None:
        """Adopt the machine.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``adopt``.
        """
        behaviour.fail_verb(task, "adopt")

    def tear_down(self, task: base.Task) -> None:
        """Switch the machine off, unless its power must stay on.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``delete``; or power fails.
        """
        behaviour.fail_verb(task, "delete")
        if not task.node.disable_power_off:
            task.switch_power(base.POWER_OFF)
            task.node.power_state = base.POWER_OFF

    def prepare(self, task: base.Task) -> None:
        """Forget a ramdisk of an earlier deployment; the step ``deploy`` boots another."""
        task.keep(behaviour.RAMDISK, None)

    def clean_up(self, task: base.Task) -> None:
        """Stop the ramdisk."""
        task.keep(behaviour.RAMDISK, None)

    def prepare_cleaning(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, if there is one."""
        return self._boot_ramdisk(task)

    def tear_down_cleaning(self, task: base.Task) -> None:
        """Stop the ramdisk."""
        task.keep(behaviour.RAMDISK, None)

    def prepare_service(self, task: base.Task) -> base.Outcome:
        """Boot the ramdisk, if there is one."""
        return self._boot_ramdisk(task)

    def tear_down_service(self, task: base.Task) -> None:
        """Stop the ramdisk."""
        task.keep(behaviour.RAMDISK, None)

    def agent_steps(self, task: base.Task, kind: base.StepKind) -> base.AgentReport | None:
        """Return what the running ramdisk lists, of all kinds.

        Where only an agent knows the clean steps of this interface
        (driver_info/fake_steps_unavailable), it lists these (S1.25, S1.35).
        """
        running, script = task.recall(behaviour.RAMDISK), behaviour.read_behaviour(task)
        if running is None:
            return None
        if script.agent:
            disk = script.agent[min(running, len(script.agent) - 1)]
            listed, version = dict(disk.steps), disk.version
        else:
            listed, version = {}, "1"
        if script.steps_unavailable is not None:
            own = super().get_clean_steps(task)
            listed[base.StepKind.CLEAN] = own + listed.get(base.StepKind.CLEAN, [])
        steps = {each: {behaviour.MANAGER: some} for each, some in listed.items()}
        return base.AgentReport(steps, {behaviour.MANAGER: version})

    def get_clean_steps(self, task: base.Task) -> list[base.StoredStep]:
        """Return the clean steps.

        :raises errors.StepsUnavailable: only an agent knows them (S1.26), as
            driver_info/fake_steps_unavailable says.
        """
        wait = behaviour.read_behaviour(task).steps_unavailable
        if wait is not None:
            raise errors.StepsUnavailable(node=task.node.uuid, seconds=wait)
        return super().get_clean_steps(task)

    def _erase(self, task: base.Task) -> None:
        disks = behaviour.read_behaviour(task).erasures
        if disks is not None:
            report = {"kind": erasure_results.KIND, "managers": {"fake": "1"}, "disks": disks}
            task.report_erasure(report)
            erasure_results.refuse_failed(report)

    def _boot_ramdisk(self, task: base.Task) -> base.Outcome:
        script = behaviour.read_behaviour(task)
        if script.agent or script.steps_unavailable is not None:
            task.keep(behaviour.RAMDISK, 0)
        if not script.agent:
            return base.DONE
        task.wake_after(behaviour.step_seconds(script))
        return base.WAIT

    @base.clean_step(priority=10, abortable=True, destroys=("data",), restarts=0)
    def erase_devices(self, task: base.Task) -> None:
        """Erase the disks of driver_info/fake_erasures, if there are any.

        :raises errors.HardwareError: one of them fails.
        """
        self._erase(task)

    @base.clean_step(priority=99, abortable=True, destroys=("data",), restarts=0)
    def erase_devices_metadata(self, task: base.Task) -> None:
        """Erase partition tables."""

    @base.deploy_step(priority=100, rerunnable=True, destroys=(), restarts=0)
    def deploy(self, task: base.Task) -> base.Outcome | None:
        """Start the deployment: boot the ramdisk, if there is one."""
        booted = task.recall(behaviour.RAMDISK) is not None
        return (
            None if booted or not behaviour.read_behaviour(task).agent else self._boot_ramdisk(task)
        )

    @base.deploy_step(priority=80, rerunnable=True, destroys=("data",), restarts=0, lasting=True)
    def write_image(self, task: base.Task) -> None:
        """Write the image to the disk."""

    @base.deploy_step(priority=20, rerunnable=True, destroys=(), restarts=1)
    def boot_instance(self, task: base.Task) -> None:
        """Start the instance; the machine is on from here."""
        task.keep(behaviour.RAMDISK, None)
        task.switch_power(base.POWER_ON)
        task.node.power_state = base.POWER_ON


FOUND: JsonView = {"cpu_arch": "x86_64", "cpus": 8, "memory_mb": 16384, "local_gb": 100}
"""Properties of every fake machine."""


class FakeInspect(behaviour.Staged, base.Inspect):
    """Finds a plain server; the operator's values stay."""

    def inspect_hardware(self, task: base.Task) -> base.Outcome:
        """Fill in the properties now, or at the end of a wait.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``inspect``.

        Source: S5.8.
        """
        if behaviour.begin_wait(task, "inspect"):
            return base.WAIT
        return self.poll_inspection(task)

    def poll_inspection(self, task: base.Task) -> base.Outcome:
        """Fill in properties, inventory and a port for each card of ``fake_ports``: the wait ends.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``inspect``.
        """
        behaviour.fail_verb(task, "inspect")
        known = {key: value for key, value in task.node.properties.items() if value is not None}
        task.node.properties = {**task.node.properties, **FOUND, **known}
        told = behaviour.read_behaviour(task)
        cards = sorted(told.ports)
        task.add_ports(cards)
        task.keep_inventory(_fake_inventory(cards, told.erasures or []), {})
        return base.DONE


_DISK_FACTS = ("name", "serial", "wwn", "model", "vendor")


def _fake_inventory(cards: list[str], erasures: list[Json]) -> Json:
    """Return the inventory in the format of ironic-python-agent.

    :param erasures: the disks that the erasing step reports; without one the machine has one disk.
    """
    names = ((f"eth{number}", address) for number, address in enumerate(cards))
    size, memory = FOUND["local_gb"] * 1024**3, FOUND["memory_mb"]
    return {
        "interfaces": [{"name": name, "mac_address": address} for name, address in names],
        "cpu": {"count": FOUND["cpus"], "architecture": FOUND["cpu_arch"]},
        "memory": {"physical_mb": memory, "total": memory * 1024**2},
        "disks": [
            {name: one[name] for name in _DISK_FACTS if name in one}
            | {"size": one.get("size", size)}
            for one in erasures or [{"name": "/dev/fake"}]
        ],
    }


class FakeRescue(behaviour.Staged, base.Rescue):
    """Does nothing, and succeeds."""

    def rescue(self, task: base.Task) -> base.Outcome:
        """End at once, or at the end of a wait.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``rescue``.
        """
        if behaviour.begin_wait(task, "rescue"):
            return base.WAIT
        return self.poll_rescue(task)

    def poll_rescue(self, task: base.Task) -> base.Outcome:
        """End the rescue: the wait is over.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``rescue``.
        """
        behaviour.fail_verb(task, "rescue")
        return base.DONE

    def unrescue(self, task: base.Task) -> None:
        """Return to the instance.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``unrescue``.
        """
        behaviour.fail_verb(task, "unrescue")


BIOS_SETTINGS = "fake_bios_settings"


class FakeBIOS(behaviour.Staged, base.BIOS):
    """Stores the list of ``{"name", "value"}`` on the node, under ``SETTINGS``."""

    @arguments.bmc_step(argsinfo=arguments.BIOS_ARGS, destroys=("settings",), restarts=0)
    def apply_configuration(self, task: base.Task, settings: list[Json]) -> None:
        """Change the given settings and leave the others as they are.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        known = {entry["name"]: entry["value"] for entry in task.recall(BIOS_SETTINGS) or ()}
        known.update(arguments.settings(settings))
        task.keep(BIOS_SETTINGS, [{"name": name, "value": known[name]} for name in sorted(known)])

    @arguments.bmc_step(destroys=("settings",), restarts=0)
    def factory_reset(self, task: base.Task) -> None:
        """Forget all settings."""
        task.keep(BIOS_SETTINGS, None)

    def cache_bios_settings(self, task: base.Task) -> list[base.BiosSetting]:
        """Return the stored settings."""
        told = task.recall(BIOS_SETTINGS) or ()
        return [base.BiosSetting(entry["name"], entry["value"]) for entry in told]


FIRMWARE_VERSIONS = "fake_firmware"


class FakeFirmware(behaviour.Staged, base.Firmware):
    """Stores each component's image on the node, under ``VERSIONS``.

    The name of an image without its extension counts as its version.
    """

    @arguments.bmc_step(argsinfo=arguments.FIRMWARE_ARGS, destroys=("firmware",), restarts=0)
    def update(self, task: base.Task, settings: list[Json]) -> None:
        """Take the images, in their order.

        :raises errors.InvalidParameter: naming ``settings``.
        """
        known = dict(task.recall(FIRMWARE_VERSIONS) or {})
        for image in arguments.images(settings):
            name = posixpath.basename(urllib.parse.urlsplit(image.url).path)
            known[image.component] = posixpath.splitext(name)[0] or "unknown"
        task.keep(FIRMWARE_VERSIONS, known)

    def cache_firmware_components(self, task: base.Task) -> list[base.FirmwareComponent]:
        """Return the stored versions."""
        known = task.recall(FIRMWARE_VERSIONS) or {}
        return [base.FirmwareComponent(name, known[name]) for name in sorted(known)]


class FakeRAID(behaviour.Staged, base.RAID):
    """Writes the volumes to the node; its disks have unlimited capacity."""

    def validate(self, task: base.Task) -> None:
        """Check the ``fake_`` keys and, if there is one, the node's target_raid_config.

        :raises errors.InvalidParameter: naming the path.
        """
        super().validate(task)
        if task.node.target_raid_config:
            raid.check(task.node.target_raid_config, "target_raid_config")

    @base.clean_step(
        priority=0,
        abortable=True,
        requires_ramdisk=False,
        argsinfo=raid.CREATE_ARGS,
        destroys=("data", "volumes"),
        restarts=0,
    )
    def create_configuration(
        self,
        task: base.Task,
        *,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> None:
        """Build the volumes of the node's ``target_raid_config``; without one, build nothing.

        :raises errors.InvalidParameter: an argument is wrong.
        """
        raid.flag("delete_existing", delete_existing)
        target = task.node.target_raid_config
        if not target:
            return
        asked = raid.check(target, "target_raid_config")
        disks = raid.wanted(asked, create_root_volume, create_nonroot_volumes)
        self.show_raid(task, disks)

    @arguments.bmc_step(destroys=("data", "volumes"), restarts=0)
    def delete_configuration(self, task: base.Task) -> None:
        """Remove all volumes."""
        self.show_raid(task, [])

    @arguments.volumes_step(restarts=0)
    def apply_configuration(
        self,
        task: base.Task,
        *,
        raid_config: Json,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = False,
    ) -> None:
        """Build the volumes of ``raid_config``.

        :raises errors.InvalidParameter: naming ``raid_config``, or another argument.
        """
        asked = raid.check(raid_config, "raid_config")
        disks = raid.wanted(asked, create_root_volume, create_nonroot_volumes)
        raid.flag("delete_existing", delete_existing)
        self.show_raid(task, disks)


class FakeConsole(behaviour.Staged, base.Console):
    """A console without output, which cannot be reached."""

    def start_console(self, task: base.Task) -> None:
        """Succeed."""

    def stop_console(self, task: base.Task) -> None:
        """Succeed."""

    def get_console(self, task: base.Task) -> Json:
        """Return an empty address."""
        return {}


VENDOR_VALUE = "fake_vendor_value"
VENDOR_BLINKS = "fake_vendor_blinks"


class FakeVendor(behaviour.Staged, base.Vendor):
    """One method for each kind of call, and a step that writes to the log."""

    def check_passthru(self, task: base.Task, name: str, call: base.Call) -> None:
        """Require the ``value`` to be stored.

        :raises errors.MissingParameter: naming ``value``.
        """
        super().check_passthru(task, name, call)
        if name == "remember" and call.verb != "DELETE" and "value" not in call.info:
            raise errors.MissingParameter(path="value")

    @base.passthru(
        methods=("GET", "POST"), lock=False, description="Return what the call was made with."
    )
    def echo(self, task: base.Task, call: base.Call) -> Json:
        """Return it."""
        return {"verb": call.verb, "info": dict(call.info)}

    @base.passthru(methods=("GET",), lock=False, attach=True, description="Return a text file.")
    def leaflet(self, task: base.Task, call: base.Call) -> str:
        """Return two lines."""
        return f"Node {task.node.uuid}\nis not there.\n"

    @base.passthru(
        methods=("POST", "PUT", "PATCH", "DELETE"),
        description="Keep the JSON value of the key value on the node, or forget it (DELETE).",
    )
    def remember(self, task: base.Task, call: base.Call) -> Json:
        """Keep it; return what was kept before."""
        before = task.recall(VENDOR_VALUE)
        task.keep(VENDOR_VALUE, None if call.verb == "DELETE" else call.info["value"])
        return {"before": before}

    @base.passthru(async_call=True, description="Take the time of a step, and count the calls.")
    def blink(self, task: base.Task, call: base.Call) -> None:
        """Count.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        behaviour.play_call(task, "vendor.blink")
        task.keep(VENDOR_BLINKS, task.recall(VENDOR_BLINKS, 0) + 1)

    @base.driver_passthru(methods=("GET", "POST"), description="Return what the call brings.")
    def repeat(self, call: base.Call) -> Json:
        """Return it."""
        return dict(call.info)

    @base.driver_passthru(async_call=True, description="Write one line into the conductor's log.")
    def note(self, call: base.Call) -> None:
        """Write it."""
        LOG.info("The fake vendor was called for no node.")

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=0)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=(), restarts=0)
    def log_passthrough(self, task: base.Task) -> None:
        """Write one line."""
        LOG.info("The fake vendor was called for node %s.", task.node.uuid)


class FakeHardware(base.HardwareType):
    """Works with every interface; prefers ``fake``, and ``noop`` where there is no fake one."""

    any_interface: ClassVar[bool] = True
    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "bios": ("fake", "no-bios"),
        "boot": ("fake",),
        "console": ("fake", "no-console"),
        "deploy": ("fake",),
        "firmware": ("fake", "no-firmware"),
        "inspect": ("fake", "no-inspect"),
        "management": ("fake", "noop"),
        "network": ("noop",),
        "power": ("fake",),
        "raid": ("fake", "no-raid"),
        "rescue": ("fake", "no-rescue"),
        "storage": ("noop",),
        "vendor": ("fake", "no-vendor"),
    }
