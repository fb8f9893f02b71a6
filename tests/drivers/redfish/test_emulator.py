"""The emulator's launcher: it starts, says why if it cannot, and never outlives its parent."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

from ironic_lite.demo import emulator

PARENT = """
import os
from ironic_lite.demo import emulator
running = emulator.Emulator(folder=__import__("pathlib").Path(os.environ["FOLDER"])).start()
print(running.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")


def test_emulator_removes_its_files_when_stopped() -> None:
    running = emulator.Emulator(count=2).start()
    pid, folder = running.pid, running.folder
    assert pid
    assert folder
    assert [machine.name for machine in running.machines] == ["machine-0", "machine-1"]
    running.stop()
    running.stop()
    assert not is_there(pid)
    assert not folder.exists()


def test_emulator_ends_when_its_parent_is_killed(tmp_path: pathlib.Path) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", PARENT],
        env={**os.environ, "FOLDER": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    pid = int(parent.stdout)
    end = time.monotonic() + 10
    while is_there(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_there(pid)


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(emulator.EmulatorError, match=f"Port {port} of .* is taken"):
            emulator.Emulator(port=port).start()


def test_emulator_that_does_not_start_reports_its_output(tmp_path: pathlib.Path) -> None:
    with pytest.raises(emulator.EmulatorError, match=r"(?s)does not start.*no-such-file"):
        emulator.Emulator(auth_file=tmp_path / "no-such-file").start()


def test_without_sushy_tools_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(emulator.EmulatorError, match="pip install sushy-tools"):
        emulator.find()
