"""The test command brings the programs that tests start, or says what to install: no failure."""

from __future__ import annotations

import pathlib
import subprocess
from typing import NamedTuple

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "programs.sh"
SERVERS = {"dnsmasq": "", "nginx": "", "haproxy": ""}
BROWSER = {"chromium-headless-shell": ""}
WHOLE = {"ipmitool": "", "ipmi_sim": "", "socat": "", "parted": "", "sgdisk": "", "qemu-img": ""}
WHOLE_BUT_BROWSER = WHOLE | SERVERS
WHOLE = WHOLE_BUT_BROWSER | BROWSER
PACKAGES = (
    *("ipmitool", "openipmi", "socat", "parted", "gdisk", "qemu-utils"),
    *("dnsmasq-base", "nginx-light", "haproxy", "chromium-headless-shell"),
)
ALL = " ".join(PACKAGES)
ROOT = {"id": "echo 0"}
USER = {"id": "echo 1000"}
APT = {
    "chmod": 'exec /bin/chmod "$@"',
    "rm": 'exec /bin/rm "$@"',
    "timeout": 'shift\nexec "$@"',
    "apt-get": 'echo "$DEBIAN_FRONTEND $*" >> {log}',
}
BROKEN = {**APT, "apt-get": 'echo "$DEBIAN_FRONTEND $*" >> {log}\nexit 100'}


class Case(NamedTuple):
    """The programs of a machine, the packages that are installed, and what is said of the rest."""

    programs: dict[str, str]
    installed: tuple[str, ...] = ()
    said: str = ""


CASES = {
    "all is there": Case({**WHOLE, **ROOT, **APT}),
    "nothing is there": Case({**ROOT, **APT}, PACKAGES),
    "another Chromium is there": Case({**WHOLE_BUT_BROWSER, "chromium": "", **ROOT, **APT}),
    "one is there": Case({"ipmitool": "", **ROOT, **APT}, PACKAGES[1:]),
    "not root": Case({**USER, **APT}, said=f"{ALL}: not root; some tests are skipped."),
    "no Debian": Case(ROOT, said=f"{ALL}: no apt-get; some tests are skipped."),
    "no network": Case(
        {**ROOT, **BROKEN}, PACKAGES, f"{ALL}: apt-get failed; some tests are skipped."
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_missing_programs_are_installed_or_named(case: Case, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    log.touch()
    bin, policy = tmp_path / "bin", tmp_path / "policy"
    bin.mkdir()
    for name, does in case.programs.items():
        (bin / name).write_text(f"#!/bin/sh\n{does.replace('{log}', str(log))}\n")
        (bin / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", str(SCRIPT)],
        env={"PATH": str(bin), "POLICY": str(policy)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert not policy.exists()
    calls = [line for line in log.read_text().splitlines() if " install " in line]
    if case.installed:
        (call,) = calls
        assert call.startswith("noninteractive ")
        assert call.endswith(f"--no-install-recommends {' '.join(case.installed)}")
    else:
        assert log.read_text() == ""
    if case.said:
        assert case.said in done.stderr
        assert f"    apt-get install --no-install-recommends {ALL}" in done.stderr
    else:
        assert done.stderr == ""
    assert bool(done.stdout) is bool(case.installed)
