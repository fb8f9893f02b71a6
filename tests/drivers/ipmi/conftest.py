"""BMCs, programs that play ipmitool, and a task that knows a BMC."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers import bmc_bases
from ironic_lite.drivers.ipmi import tool
from ironic_lite.drivers.registry import Registry, Settings
from tests.emulators import ipmi
from tests.support.bmc_tasks import BmcTask, Program, emulated, task_with
from tests.support.conductor_fixture import configure
from tests.support.operator import Operator

ENABLED = {
    "DEFAULT__default_boot_interface": "fake",  # power is real, no ramdisk is booted
    "DEFAULT__default_deploy_interface": "fake",
    "DEFAULT__enabled_hardware_types": ["ipmi", "manual-management"],
    "DEFAULT__enabled_management_interfaces": ["ipmitool", "noop"],
    "DEFAULT__enabled_power_interfaces": ["ipmitool", "fake"],
    "DEFAULT__enabled_vendor_interfaces": ["ipmitool", "no-vendor"],
}


@pytest.fixture
def bmc(tmp_path: pathlib.Path) -> Iterator[ipmi.Bmc]:
    """A BMC whose machine is off."""
    with emulated(tmp_path / "bmc") as running:
        yield running


@pytest.fixture
def machine(bmc: ipmi.Bmc) -> BmcTask:
    """A task on the machine behind ``bmc``."""
    return task_with(bmc.driver_info())


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Program:
    """A function that puts a shell script in ipmitool's place, and returns the folder it runs in.

    In the script, ``$REAL`` is the real ipmitool.
    """
    real = shutil.which(tool.PROGRAM) or "/nowhere/ipmitool"

    def put(script: str) -> pathlib.Path:
        folder = tmp_path / "program"
        folder.mkdir(exist_ok=True)
        path = folder / "ipmitool"
        path.write_text(f'#!/bin/sh\ncd "{folder}"\nREAL={real}\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return folder

    return put


@pytest.fixture
def recorded(program: Program) -> Callable[[], list[str]]:
    """The real ipmitool; the function returns the commands it was given since the last call."""
    return _recording(program, 'exec "$REAL" "$@"')


@pytest.fixture
def obedient(program: Program) -> Callable[[], list[str]]:
    """The same, with a BMC that takes every raw command and reset."""
    return _recording(
        program, 'case "$*" in *" raw "* | *" reset "*) exit 0 ;; esac\nexec "$REAL" "$@"'
    )


def _recording(program: Program, rest: str) -> Callable[[], list[str]]:
    folder = program(f'echo "$*" >> commands\n{rest}')

    def take() -> list[str]:
        path = folder / "commands"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        # Without the options, the last of which is the cipher suite.
        return [line.partition("-C 3 ")[2] for line in lines]

    return take


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short time-outs, and nothing known of BMCs from another test."""
    monkeypatch.setattr(tool, "BMCS", tool.Bmcs())
    monkeypatch.setattr(tool, "LEAST_SECONDS", 0.3)
    monkeypatch.setattr(tool, "TRIES", 1)
    config.CONF.set_override("min_command_interval", 1, group="ipmi")
    yield
    for name in ("min_command_interval", "max_processes", "cipher_suite_versions"):
        config.CONF.clear_override(name, group="ipmi")
    config.CONF.clear_override("additional_retryable_ipmi_errors", group="ipmi")
    config.CONF.clear_override("disable_boot_timeout", group="ipmi")
    config.CONF.clear_override("default_boot_mode", group="deploy")


@pytest.fixture
def serve(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Operator]]:
    """A function that starts a service which drives ipmi; options as ``group__option``."""
    monkeypatch.setattr(bmc_bases, "RESET_PAUSE", 0.05)
    registry = Registry.load(Settings.read(configure(**ENABLED)))
    assert registry.failures == {}
    started: list[Operator] = []

    def start(**options: Any) -> Operator:
        started.append(Operator(sqlite_database, registry=registry, **ENABLED, **options))
        return started[-1]

    yield start
    for operator in started:
        operator.close()
