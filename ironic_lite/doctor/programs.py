"""Checks of the programs and files of other packages that the enabled drivers need."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator

from ironic_lite.core.configuration import Configuration
from ironic_lite.domain.examination import Verdict, failed, passed, warning

_OF_IPMI = frozenset({"ipmi"})


def find_programs(conf: Configuration, nodes: dict[str, int] | None = None) -> Iterator[Verdict]:
    """Check ipmitool, socat and isolinux, if enabled drivers need them.

    :param nodes: numbers of nodes by hardware type. A missing program is a fault if nodes need it.
        None: unknown.
    """
    if _OF_IPMI & set(conf.enabled_hardware_types):
        count = sum((nodes or {}).get(name, 0) for name in _OF_IPMI)
        yield _check_program("ipmitool", f"{count} nodes of the hardware type ipmi", bool(count))
        if "ipmitool-socat" in conf.enabled_console_interfaces:
            yield _check_program("socat", "consoles of the interface ipmitool-socat", True)
    if "redfish-virtual-media" in conf.enabled_boot_interfaces:
        yield from _find_isolinux(conf)


def _check_program(name: str, users: str, needed: bool) -> Verdict:
    place = shutil.which(name)
    if place is not None:
        return passed(f"{name} is {place}")
    do = f"Install the package with {name} on this machine, or disable the drivers that use it."
    text = f"{name} is not installed; needed by {users}"
    return failed(text, do) if needed else warning(text, do)


def _find_isolinux(conf: Configuration) -> Iterator[Verdict]:
    given = {"isolinux_bin": conf.isolinux_bin, "ldlinux_c32": conf.ldlinux_c32}
    missing = [
        f"[DEFAULT]{option} {path}"
        for option, path in given.items()
        if not pathlib.Path(path).is_file()
    ]
    if not missing:
        yield passed("isolinux is installed, for virtual media in BIOS mode")
        return
    text = f"missing: {', '.join(missing)}; needed by virtual media in BIOS mode"
    do = "Install the packages isolinux and syslinux-common, or correct the options."
    if conf.deploy.default_boot_mode == "bios":
        yield failed(text, do)
    else:
        yield passed(f"{text}, which is not [deploy]default_boot_mode")
