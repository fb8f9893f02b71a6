"""A recording made by tools/record_bmc is a test with one more command."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from tests.recorded import facts, packing, recordings
from tests.recorded.strict_bmc import PASSWORD, USER, StrictBmc

ROOT = pathlib.Path(__file__).parents[2]
DAY = ("manage", "boot_device", "virtual_media", "inspection", "bios_refuse", "clock")


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_recording_of_the_strict_bmc_passes_the_operators_day(tmp_path: pathlib.Path) -> None:
    recording = recordings.load("emulated-dell")
    documents = recording.documents
    conf = tmp_path / "lite.conf"
    conf.write_text("[redfish]\nallowed_networks = 127.0.0.0/8\n")
    file = tmp_path / "again.json.xz"
    given = ("--config-file", str(conf), "--user", USER)
    system = facts.systems(documents)[0]
    with StrictBmc(documents, system) as bmc:
        place = (bmc.server.address, str(file))
        done = run("-m", "tools.record_bmc", *given, *place, REDFISH_PASSWORD=PASSWORD)
        assert done.returncode == 0, done.stderr
        assert (bmc.changes, bmc.refused_logins) == ([], 0)
    text = json.dumps(packing.unpack(file.read_bytes()))
    serial = str(documents[system]["SerialNumber"])
    assert serial not in text
    assert PASSWORD not in text

    wanted = " or ".join(f"again-{operation}" for operation in DAY)
    options = ("-q", "-p", "no:cacheprovider", "tests/recorded/test_day.py", "-k", wanted)
    told = {"RECORDINGS": str(tmp_path), "RECORDED_ALL": "1"}
    judged = run("-m", "pytest", "-n0", *options, **told)
    assert judged.returncode == 0, judged.stdout
    assert f"{len(DAY)} passed" in judged.stdout


def test_full_disk_is_named_with_the_file(tmp_path: pathlib.Path) -> None:
    documents = recordings.load("emulated-dell").documents
    conf = tmp_path / "lite.conf"
    conf.write_text("[redfish]\nallowed_networks = 127.0.0.0/8\n")
    given = ("--config-file", str(conf), "--user", USER, "--requests", "2")
    with StrictBmc(documents, facts.systems(documents)[0]) as bmc:
        place = (bmc.server.address, "/dev/full")
        done = run("-m", "tools.record_bmc", *given, *place, REDFISH_PASSWORD=PASSWORD)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "record_bmc: " in line]
    assert "/dev/full" in line
    assert "No space left on device" in line
    assert "Traceback" not in done.stderr
