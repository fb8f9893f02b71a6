"""Logging in to a machine that is rescued: ssh with a password, which nobody is asked for."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess

USER = "rescue"
_SECONDS = 60
_OPTIONS = {
    "StrictHostKeyChecking": "no",  # each ramdisk makes a key of its own
    "UpdateHostKeys": "no",
    "PreferredAuthentications": "password",
    "NumberOfPasswordPrompts": "1",
    "ConnectTimeout": "20",
    "LogLevel": "ERROR",
}


class Refused(Exception):
    """Nobody was let in, or a command failed; what ssh said."""


@dataclasses.dataclass(frozen=True)
class Login:
    """A way in.

    :param folder: where the program lies that tells ssh the password.
    """

    folder: pathlib.Path
    address: str
    password: str

    def run(self, command: str) -> str:
        """Run a command of the machine's shell, and return what it prints.

        :raises Refused: it cannot be run, or fails.
        """
        teller = self.folder / "password.sh"
        teller.write_text('#!/bin/sh\nprintf "%s\\n" "$VM_PASSWORD"\n')
        teller.chmod(0o700)
        # A file of its own: ssh puts a new file in place of it, and so it would of /dev/null.
        chosen = _OPTIONS | {"UserKnownHostsFile": str(self.folder / "known_hosts")}
        options = [word for item in chosen.items() for word in ("-o", "=".join(item))]
        told = {"SSH_ASKPASS": str(teller), "SSH_ASKPASS_REQUIRE": "force"}
        try:
            done = subprocess.run(
                ["ssh", *options, f"{USER}@{self.address}", command],
                env=os.environ | told | {"VM_PASSWORD": self.password},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Refused(f"{command}: not within {_SECONDS} s") from None
        if done.returncode:
            raise Refused(f"{command}: {done.returncode}: {done.stderr.strip()}")
        return done.stdout
