"""What the programs leave behind when they are ended: nothing."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from tests.support import service
from tests.support.service import until


@pytest.mark.parametrize("module", ["tests.attack", "tests.chaos"])
def test_sigterm_leaves_no_processes_and_no_folders(module: str) -> None:
    words = {
        "tests.attack": ["--auth", "noauth", "--attacks", "forged-lines"],
        "tests.chaos": ["--database", "sqlite", "--rpc", "local", "--faults", "kill"],
    }[module]
    with tempfile.TemporaryDirectory(prefix="e-") as name:
        folder = pathlib.Path(name)
        program = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=service.ROOT,
            env=service.environment(TMPDIR=name),
            stdout=subprocess.DEVNULL,
        )
        try:
            logs = "*/conductor-*.log"
            until(lambda: any(one.stat().st_size for one in folder.glob(logs)), "its conductors")
            left = service.family(program.pid)
            program.send_signal(signal.SIGTERM)
            assert program.wait(service.PATIENCE) == 128 + signal.SIGTERM
            until(lambda: service.gone(left), "no process is left")
            assert not [*folder.glob("at-*"), *folder.glob("ch-*")]
        finally:
            for one in service.family(program.pid):
                one.kill()
            program.wait()
