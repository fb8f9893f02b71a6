"""Every console script answers --help without a library that it has no use for."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

SCRIPTS = sorted(
    script.value
    for script in importlib.metadata.entry_points(group="console_scripts")
    if script.value.startswith("ironic_lite.")
)
_HELP = """
import importlib, sys
module, _, name = sys.argv[1].partition(":")
try:
    getattr(importlib.import_module(module), name)(["--help"])
except SystemExit as stop:
    assert not stop.code, stop.code
unwanted = ("eventlet", "greenlet", "kombu", "sushy", "alembic")
sys.exit(", ".join(name for name in unwanted if sys.modules.get(name)) or 0)
"""


def test_there_are_the_seven_scripts() -> None:
    assert [script.removesuffix(":main") for script in SCRIPTS] == [
        f"ironic_lite.cmd.{name}"
        for name in ("all", "api", "conductor", "dbsync", "netboot", "record_bmc", "status")
    ]


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_is_printed_and_nothing_big_loaded(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HELP, script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--config-file" in done.stdout
    assert "--version" in done.stdout
