"""An operator's day with one recorded machine: each operation through the API, over real HTTP.

Each operation returns its verdict, or fails. What must happen is derived from the recorded tree.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.recorded import acts, facts
from tests.recorded.strict_bmc import StrictBmc
from tests.support.operator import Operator
from tests.support.wsgi_client import Response

Json = dict[str, Any]

PASS, REFUSED, NOT_OFFERED = "pass", "refused", "not offered"
"""Verdicts: done; refused in an error that names what is missing; the machine lists none of it."""
FAILS = "fails"
"""The verdict that is noted for an operation that fails."""

PATIENCE = 60.0
IMAGE = "http://192.0.2.80/images/tools.iso"
INTERFACES = {
    "boot_interface": "fake",
    "deploy_interface": "fake",
    "bios_interface": "redfish",
    "firmware_interface": "redfish",
    "raid_interface": "redfish",
}


class Day:
    """A node in ``manageable`` for the machine of a BMC, and its operator."""

    def __init__(self, operator: Operator, bmc: StrictBmc) -> None:
        self.operator = operator
        self.bmc = bmc
        self.system = bmc.system
        self.tree = bmc.recorded
        self.api = operator.api
        self.node = ""

    def enroll(self, **driver_info: Any) -> None:
        """Create the node."""
        info = {**self.bmc.driver_info, **driver_info}
        self.node = self.operator.enroll("enroll", driver="redfish", driver_info=info, **INTERFACES)

    @property
    def path(self) -> str:
        """The path of the node."""
        return f"/v1/nodes/{self.node}"

    def shows(self) -> Json:
        """Return the node."""
        return self.operator.shows(self.node)

    def rest(self) -> Json:
        """Wait until no work is left for the node, and return it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            row = self.operator.rig.get(self.node)
            if row["reservation"] is None and row["wake_at"] is None:
                return self.shows()
            time.sleep(0.01)
        raise AssertionError(f"never at rest: {self.shows()}")

    def goes(self, verb: str, **body: Any) -> Json:
        """Send a verb that is accepted; return the node at rest."""
        answer = self.operator.asks(self.node, verb, **body)
        assert answer.status == 202, answer.text
        return self.rest()

    def clean(self, title: str, **args: Any) -> str | None:
        """Carry out a step of manual cleaning; return the error of the step, None if it is done."""
        interface, _, name = title.partition(".")
        step = {"interface": interface, "step": name, **({"args": args} if args else {})}
        answer = self.operator.asks(self.node, "clean", clean_steps=[step])
        if answer.status != 202:
            return answer.text
        shown = self.rest()
        if shown["provision_state"] == "manageable":
            assert shown["last_error"] is None
            return None
        said = str(shown["last_error"])
        back = self.goes("manage")
        assert back["provision_state"] == "manageable", back["last_error"]
        if back["maintenance"]:
            assert self.api.delete(f"{self.path}/maintenance").status == 202
        return said

    def switch(self, target: str) -> Json:
        """Change the power, and return the node."""
        answer = self.api.put(f"{self.path}/states/power", {"target": target})
        assert answer.status == 202, answer.text
        return self.rest()


Operation = Callable[[Day], str]


def refused(said: str | None, words: str) -> str:
    """Return the verdict of an error that names what is missing."""
    assert said is not None, f"not refused; expected an error with {words!r}"
    assert re.search(words, said), f"{words!r} is not in: {said}"
    return REFUSED


def good(answer: Response, status: int = 204) -> None:
    """Check the status of an answer."""
    assert answer.status == status, f"{answer.status}: {answer.body.decode()[:600]}"


# -- enrolment and power --------------------------------------------------------------------------


def manage(day: Day) -> str:
    """Manage the node: the right password, and the power state of the tree."""
    shown = day.shows()
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    word = day.tree[day.system]["PowerState"]
    assert shown["power_state"] == {"On": "power on", "Off": "power off"}[word]
    return PASS


def wrong_password(day: Day) -> str:
    """Name the user whose password is wrong."""
    _fail_login(day)
    return PASS


def one_refused_login(day: Day) -> str:
    """Try a wrong password once for each request, because BMCs lock users out."""
    before = day.bmc.refused_logins
    _fail_login(day)
    assert day.bmc.refused_logins - before == 1
    return PASS


def _fail_login(day: Day) -> None:
    day.enroll(redfish_password="wrong")
    shown = day.goes("manage")
    assert shown["provision_state"] == "enroll"
    refused(shown["last_error"], "refused the credentials of user")


def power(day: Day) -> str:
    """Switch off, on, restart, and off by the button of the system."""
    missing = {"On", "ForceOff"} - facts.resets(day.tree, day.system)
    if missing:
        target = "power off" if "ForceOff" in missing else "power on"
        day.switch("power on" if target == "power off" else "power off")
        return refused(day.switch(target)["last_error"], next(iter(missing)))
    for target, word in (("power off", "Off"), ("power on", "On"), ("rebooting", "On")):
        boots = len(day.bmc.booted)
        shown = day.switch(target)
        assert shown["last_error"] is None
        assert day.bmc.power == word
        assert shown["power_state"] == f"power {word.lower()}"
        assert len(day.bmc.booted) == boots + (word == "On")
    shown = day.switch("soft power off")
    if "GracefulShutdown" not in facts.resets(day.tree, day.system):
        refused(shown["last_error"], "GracefulShutdown")
        return PASS
    assert (shown["last_error"], day.bmc.power) == (None, "Off")
    return PASS


# -- booting --------------------------------------------------------------------------------------


def boot_device(day: Day) -> str:
    """Choose each device for one boot and for good, read it back, and boot from it."""
    path = f"{day.path}/management/boot_device"
    offered = facts.boot_devices(day.tree, day.system)
    listed = day.api.get(f"{path}/supported")
    if not offered:
        answer = day.api.put(path, {"boot_device": "pxe", "persistent": False})
        return refused(answer.text, "boot_device|BootSource|boot device")
    good(listed, 200)
    assert set(listed.json["supported_boot_devices"]) == offered
    for device in sorted(offered):
        good(day.api.put(path, {"boot_device": device, "persistent": False}))
        assert day.api.get(path).json == {"boot_device": device, "persistent": False}
        assert day.switch("rebooting")["last_error"] is None
        assert day.bmc.booted[-1] in facts.DEVICES[device]
    device = "disk" if "disk" in offered else min(offered)
    good(day.api.put(path, {"boot_device": device, "persistent": True}))
    assert day.api.get(path).json["boot_device"] == device
    for _ in range(2):
        assert day.switch("rebooting")["last_error"] is None
        assert day.bmc.booted[-1] in facts.DEVICES[device]
    return PASS


def boot_mode(day: Day) -> str:
    """Set each boot mode that the machine offers; others are refused."""
    offered = facts.boot_modes(day.tree, day.system)
    verdict = REFUSED
    for mode in sorted({"bios", "uefi"}, reverse=True):
        good(day.api.put(f"{day.path}/states/boot_mode", {"target": mode}), 202)
        shown = day.rest()
        if mode in offered:
            assert (shown["last_error"], shown["boot_mode"]) == (None, mode)
            verdict = PASS
        elif shown["boot_mode"] != mode:
            refused(shown["last_error"], "boot_mode|boot mode")
    return verdict


def secure_boot(day: Day) -> str:
    """Switch secure boot on and off, in the boot mode uefi."""
    target = f"{day.path}/states/secure_boot"
    if "uefi" in facts.boot_modes(day.tree, day.system):
        good(day.api.put(f"{day.path}/states/boot_mode", {"target": "uefi"}), 202)
        assert day.rest()["last_error"] is None
    place = facts.follow(day.tree, day.tree[day.system], "SecureBoot")
    if place is None or "SecureBootEnable" not in day.tree[place]:
        good(day.api.put(target, {"target": True}), 202)
        return refused(day.rest()["last_error"], "SecureBoot|secure boot")
    first = bool(day.tree[place]["SecureBootEnable"])
    for wanted in (not first, first):
        good(day.api.put(target, {"target": wanted}), 202)
        shown = day.rest()
        assert (shown["last_error"], shown["secure_boot"]) == (None, wanted)
        assert day.bmc.tree[place]["SecureBootEnable"] is wanted
    return PASS


# -- the machine and its drives -------------------------------------------------------------------


def indicators(day: Day) -> str:
    """Switch each indicator of the tree, and read it back."""
    path = f"{day.path}/management/indicators"
    there = facts.lamps(day.tree, day.system)
    answer = day.api.get(path)
    good(answer, 200)
    listed = answer.json["indicators"]
    assert len(listed) == len(there), (listed, there)
    for one in listed[:6]:
        state = "on" if "on" in one["states"] else one["states"][0]
        place = f"{path}/{one['name']}".replace(" ", "%20")
        good(day.api.put(place, {"state": state}))
        assert day.api.get(place).json == {"state": state}
    return PASS if there else NOT_OFFERED


def nmi(day: Day) -> str:
    """Send an interrupt."""
    day.switch("power on")
    answer = day.api.put(f"{day.path}/management/inject_nmi", {})
    if "Nmi" not in facts.resets(day.tree, day.system):
        return refused(answer.text, "Nmi")
    good(answer)
    assert day.bmc.resets[-1] == "Nmi"
    return PASS


def virtual_media(day: Day) -> str:
    """Attach an image to the virtual CD, see it, replace it, and detach it."""
    drives = facts.drives(day.tree, day.system)
    path = f"{day.path}/vmedia"
    if not any("cdrom" in devices for devices in drives.values()):
        return refused(_attach(day, IMAGE), "no virtual cdrom" if drives else "VirtualMedia")
    for image in (IMAGE, f"{IMAGE}.2"):
        said = _attach(day, image)
        assert said is None, said
        assert _images(day) == [image]
        shown = day.api.get(path)
        good(shown, 200)
        filled = [one for one in shown.json if one["inserted"] and "cdrom" in one["device_types"]]
        assert [one["image"] for one in filled] == [image]
    good(day.api.delete(path))
    assert (day.rest()["last_error"], _images(day)) == (None, [])
    return PASS


def _attach(day: Day, image: str) -> str | None:
    body = {"device_type": "cdrom", "image_url": image}
    answer = day.api.post(f"{day.path}/vmedia", body)
    if answer.status != 204:
        return answer.text
    said = day.rest()["last_error"]
    return None if said is None else str(said)


def _images(day: Day) -> list[str]:
    drives = facts.drives(day.bmc.tree, day.system).items()
    found = (day.bmc.tree[path] for path, devices in drives if "cdrom" in devices)
    return [image for one in found if (image := facts.image(one)) is not None]


def inspection(day: Day) -> str:
    """Find memory, architecture, disks and network cards."""
    memory = facts.memory(day.tree, day.system)
    architecture = facts.architecture(day.tree, day.system)
    addresses = facts.addresses(day.tree, day.system)
    shown = day.goes("inspect")
    missing = [
        word
        for word, found in (
            ("memory_mb", memory),
            ("cpu_arch", architecture),
        )
        if not found
    ]
    if missing:
        return refused(shown["last_error"], missing[0])
    if not addresses:
        return refused(shown["last_error"], "no network interface|network card")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    found = shown["properties"]
    assert (int(found["memory_mb"]), found["cpu_arch"]) == (memory, architecture)
    ports = day.api.get(f"{day.path}/ports").json["ports"]
    assert {one["address"] for one in ports} == addresses
    return PASS


# -- BIOS -----------------------------------------------------------------------------------------


def bios_list(day: Day) -> str:
    """List all BIOS settings with the facts of their registry."""
    place = facts.bios(day.tree, day.system)
    shown = day.api.get(f"{day.path}/bios?detail=true")
    good(shown, 200)
    listed = {one["name"]: one for one in shown.json["bios"]}
    if place is None:
        assert listed == {}
        return NOT_OFFERED
    values = day.tree[place]["Attributes"]
    assert set(listed) == set(values)
    known = facts.registry(day.tree, day.system)
    if facts.offers_registry(day.tree, day.system):
        for name in set(listed) & set(known):
            assert listed[name]["attribute_type"] == known[name].get("Type"), name
            if facts.choices(known[name]):
                assert listed[name]["allowable_values"] == facts.choices(known[name]), name
    return PASS


def bios_values(day: Day) -> str:
    """Show the values of the settings, but no passwords."""
    place = facts.bios(day.tree, day.system)
    if place is None:
        return NOT_OFFERED
    shown = day.api.get(f"{day.path}/bios?detail=true").json["bios"]
    listed = {one["name"]: one["value"] for one in shown}
    known = facts.registry(day.tree, day.system)
    for name, value in day.tree[place]["Attributes"].items():
        secret = known.get(name, {}).get("Type") == "Password" or _is_hash(name, value)
        if isinstance(value, str | int) and value != "" and not secret:
            assert str(listed[name]) == str(value), f"{name}: {listed[name]!r} is not {value!r}"
    return PASS


def _is_hash(name: str, value: Any) -> bool:
    word = re.search(r"password|salt", name, re.IGNORECASE)
    return word is not None and re.fullmatch(r"[0-9A-Fa-f]{16,}", str(value)) is not None


def bios_apply(day: Day) -> str:
    """Change a setting by a boot; a wrong value is refused before it is sent."""
    place = facts.bios(day.tree, day.system)
    chosen = facts.change(day.tree, day.system)
    if place is None:
        settings = [{"name": "BootMode", "value": "Uefi"}]
        said = day.clean("bios.apply_configuration", settings=settings)
        return refused(said, "BIOS settings|no setting of this machine")
    if chosen is None:
        return NOT_OFFERED
    name, value = chosen
    said = day.clean("bios.apply_configuration", settings=[{"name": name, "value": value}])
    assert said is None, said
    assert day.bmc.tree[place]["Attributes"][name] == value
    return PASS


def bios_refuse(day: Day) -> str:
    """Refuse a value that the registry does not list, before it is sent."""
    chosen = facts.change(day.tree, day.system)
    if chosen is None or not facts.offers_registry(day.tree, day.system):
        return NOT_OFFERED
    settings = [{"name": chosen[0], "value": "no-such-value"}]
    said = day.clean("bios.apply_configuration", settings=settings)
    assert said is not None
    assert "must be one of" in said, said
    assert not any(title.startswith("PATCH") for title, _ in day.bmc.changes)
    return PASS


# -- firmware, RAID, clock ------------------------------------------------------------------------


def firmware_list(day: Day) -> str:
    """List the versions of BIOS and BMC."""
    shown = day.api.get(f"{day.path}/firmware")
    good(shown, 200)
    listed = {one["component"]: one["current_version"] for one in shown.json["firmware"]}
    expected = _versions(day.tree, day.system)
    assert expected.items() <= listed.items()
    return PASS if expected else NOT_OFFERED


def _versions(tree: Mapping[str, Json], system: str) -> dict[str, str]:
    managers = [one for _, one in facts.each(tree, tree[system], "Links", "ManagedBy")]
    found = {
        "bios": tree[system].get("BiosVersion"),
        "bmc": managers[0].get("FirmwareVersion") if managers else None,
    }
    told = {name: str(version or "").strip() for name, version in found.items()}
    return {name: version for name, version in told.items() if version}


def firmware_update(day: Day) -> str:
    """Update the BIOS, or else the BMC, from an image on a web server."""
    known = _versions(day.tree, day.system)
    component = "bios" if "bios" in known else "bmc"
    action = facts.updates(day.tree)
    protocols = facts.allowed(day.tree, action or {}, "TransferProtocol") or ["HTTP"]
    scheme = "https" if "HTTPS" in protocols else "http"
    settings = [{"component": component, "url": f"{scheme}://192.0.2.80/{component}.bin"}]
    said = day.clean("firmware.update", settings=settings)
    if action is None:
        return refused(said, "SimpleUpdate")
    assert said is None, said
    assert _versions(day.bmc.tree, day.system)[component] == acts.NEW_VERSION
    return PASS


def raid(day: Day) -> str:
    """Build a volume, and delete all volumes."""
    possible = facts.raid(day.tree, day.system)
    level, count = (possible[1], possible[2]) if possible else ("1", 2)
    disk: Json = {"raid_level": level, "size_gb": 10, "is_root_volume": True}
    if possible:
        disk |= {"controller": possible[0], "number_of_physical_disks": count}
    good(day.api.put(f"{day.path}/states/raid", {"logical_disks": [disk]}))
    said = day.clean("raid.create_configuration", delete_existing=True)
    if possible is None:
        return refused(said, "(?i)controller|disks|volume|storage")
    assert said is None, said
    assert [one["raid_level"] for one in day.shows()["raid_config"]["logical_disks"]] == [level]
    assert len(_volumes(day)) == 1
    assert day.clean("raid.delete_configuration") is None
    assert _volumes(day) == []
    return PASS


def _volumes(day: Day) -> list[str]:
    found: Iterator[str] = (
        path
        for _, storage in facts.members(day.bmc.tree, day.bmc.tree[day.system], "Storage")
        if facts.levels(day.bmc.tree, storage)
        for path, _ in facts.members(day.bmc.tree, storage, "Volumes")
    )
    return list(found)


def clock(day: Day) -> str:
    """Set the clock of the BMC."""
    when = datetime.datetime(2031, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    said = day.clean("management.set_bmc_clock", target_datetime=when.isoformat())
    linked = facts.each(day.tree, day.tree[day.system], "Links", "ManagedBy")
    place = next((path for path, one in linked if "DateTime" in one), None)
    if place is None:
        return refused(said, "DateTime")
    assert said is None, said
    assert datetime.datetime.fromisoformat(day.bmc.tree[place]["DateTime"]) == when
    return PASS


# -- the end --------------------------------------------------------------------------------------


def retire(day: Day) -> str:
    """Put the machine in use, retire it, and delete its node."""
    assert day.goes("provide")["provision_state"] == "available"
    assert day.goes("active")["provision_state"] == "active"
    assert day.bmc.power == "On"
    assert day.operator.patches(day.node, retired=True, retired_reason="old").status == 200
    shown = day.goes("deleted")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert day.bmc.power == "Off"
    assert day.operator.asks(day.node, "provide").status == 409
    good(day.api.delete(day.path))
    return PASS


OPERATIONS: Mapping[str, Operation] = {
    one.__name__: one
    for one in (
        manage,
        wrong_password,
        one_refused_login,
        power,
        boot_device,
        boot_mode,
        secure_boot,
        indicators,
        nmi,
        virtual_media,
        inspection,
        bios_list,
        bios_values,
        bios_apply,
        bios_refuse,
        firmware_list,
        firmware_update,
        raid,
        clock,
        retire,
    )
}
