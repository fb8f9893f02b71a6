"""The ramdisk: how it is built, and what it does after its agent has ended for a rescue."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "ramdisk" / "rescue"
HASH = "$6$salt$of/the.password"
CALLED = ("useradd", "systemctl", "networkctl", "sleep")
_RECORD = '#!/bin/sh\necho "${0##*/} $*" >> "$LOG"\n'


class Ramdisk:
    """A folder that the script takes for ``/``, and programs that only say they were called."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.root, self.programs, self.log = folder / "root", folder / "bin", folder / "log"
        for name in ("etc/ipa-rescue-config", "etc/sudoers.d", "sys/class/net/lo"):
            (self.root / name).mkdir(parents=True)
        for name, carrier in (("eno1", "1"), ("eno2", "0")):
            (self.root / "sys/class/net" / name / "device").mkdir(parents=True)
            (self.root / "sys/class/net" / name / "carrier").write_text(f"{carrier}\n")
        self.programs.mkdir()
        for name in CALLED:
            self.program(name, _RECORD)
        self.program("chpasswd", _RECORD + 'cat >> "$LOG"\n')
        self.program("id", "#!/bin/sh\nexit 1\n")
        self.program("ip", "#!/bin/sh\necho '2: eno1  inet 192.0.2.7/24 brd 192.0.2.255'\n")
        self.answers("")

    def answers(self, variables: str) -> None:
        """Let DHCP give this; nobody answers for ""."""
        found = f'{variables} sh "$script" bound' if variables else "exit 1"
        self.program("busybox", f"#!/bin/sh\nfor script; do :; done\n{found}\n")

    def program(self, name: str, text: str) -> None:
        file = self.programs / name
        file.write_text(text)
        file.chmod(0o755)

    def told(self, password: str) -> None:
        (self.root / "etc/ipa-rescue-config/ipa-rescue-password").write_text(password)

    def run(self) -> tuple[int, list[str]]:
        """Return the script's exit status, and the calls of programs."""
        more = {"ROOT": str(self.root), "LOG": str(self.log), "TURNS": "2"}
        more["PATH"] = f"{self.programs}:/usr/bin:/bin"
        done = subprocess.run(
            ["sh", str(SCRIPT)], env=os.environ | more, capture_output=True, timeout=20, check=False
        )
        return done.returncode, self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def ramdisk(tmp_path: pathlib.Path) -> Ramdisk:
    return Ramdisk(tmp_path)


BEGUN = [
    "useradd --create-home --shell /bin/bash rescue",
    "chpasswd --encrypted",
    f"rescue:{HASH}",
    "systemctl start ssh.service",
]


def test_a_user_is_made_of_the_hash_and_let_in(ramdisk: Ramdisk) -> None:
    ramdisk.told(HASH)
    assert ramdisk.run() == (0, [*BEGUN, "sleep 30", "sleep 30"])
    rights = ramdisk.root / "etc/sudoers.d/rescue"
    assert rights.read_text() == "rescue ALL=(ALL) NOPASSWD: ALL\n"
    assert rights.stat().st_mode & 0o777 == 0o440


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ("ip=198.51.100.7 mask=24", ["networkctl reconfigure eno1"]),
        ("ip=192.0.2.7 mask=24", []),
        ("", []),
    ],
    ids=["another network", "the same one", "nobody answers"],
)
def test_machine_loses_its_address_only_for_a_given_one(
    ramdisk: Ramdisk, answer: str, asked: list[str]
) -> None:
    ramdisk.told(HASH)
    ramdisk.answers(answer)
    assert ramdisk.run() == (0, [*BEGUN, *asked, "sleep 30", *asked, "sleep 30"])


@pytest.mark.parametrize("text", ["", "let me in", "$"])
def test_invalid_password_hash_permits_no_login(ramdisk: Ramdisk, text: str) -> None:
    ramdisk.told(text)
    assert ramdisk.run() == (1, [])


@pytest.mark.parametrize(("body", "status"), [("false; true", 1), ("true", 0)])
def test_a_stage_of_the_build_ends_at_the_command_that_fails(
    tmp_path: pathlib.Path, body: str, status: int
) -> None:
    cut = "sed -n '/^say()/p; /^once()/,/^}/p' \"$0\""
    script = f'set -euo pipefail; work=$1; stage() {{ {body}; }}; eval "$({cut})"; once stage'
    build = SCRIPT.parents[1] / "ramdisk.sh"
    command = ["bash", "-c", script, str(build), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    assert (done.returncode, (tmp_path / "stage.done").exists()) == (status, status == 0)
