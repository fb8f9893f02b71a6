"""``python -m tools.record_bmc``: an anonymised recording of a BMC, for tests of the service."""

from __future__ import annotations

from ironic_lite.core import threads
from ironic_lite.core.options import Configuration

threads.native()  # before anything imports an oslo library

import getpass  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import sys  # noqa: E402
import urllib.parse  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from oslo_config import cfg  # noqa: E402

from ironic_lite import errors  # noqa: E402
from ironic_lite.cmd import entry  # noqa: E402
from ironic_lite.core import config  # noqa: E402
from ironic_lite.core.json_types import Json  # noqa: E402

PROG = "record_bmc"
PASSWORD = "REDFISH_PASSWORD"  # the name of a variable
ABOUT = (
    "Read all Redfish documents of a BMC by GET alone, and write them into one file without serial "
    f"numbers, addresses and names. The password comes from --password-file, from {PASSWORD} in "
    "the environment, or from a prompt."
)
_EACH = 100
"""Documents after which the progress is printed."""

OPTIONS: tuple[Any, ...] = (
    cfg.StrOpt("bmc", positional=True, required=True, help="Address, as redfish_address of a node"),
    cfg.StrOpt("file", positional=True, required=True, help="File to write, such as r750.json.xz"),
    cfg.StrOpt("user", help="User of the BMC; one who may only read is enough"),
    cfg.StrOpt("password-file", help="File with the password"),
    cfg.StrOpt("verify-ca", default="true", help="As redfish_verify_ca of a node"),
    cfg.StrOpt(
        "auth",
        default="basic",
        choices=["basic", "session", "auto"],
        help="As redfish_auth_type of a node; a session is opened by POST, ended by DELETE",
    ),
    cfg.IntOpt("requests", default=20000, min=1, help="Most requests"),
    cfg.IntOpt("seconds", default=3600, min=1, help="Most seconds"),
    cfg.IntOpt("megabytes", default=256, min=1, help="Most MiB that the BMC may send"),
)


def _record_bmc(conf: Configuration) -> int:
    asked = {option.dest: conf[option.dest] for option in OPTIONS}
    file = pathlib.Path(asked["file"])
    if not file.parent.is_dir():
        raise config.ConfigError(reason=f"file: the folder {file.parent} does not exist")
    walks = entry.load("tools.record_bmc.walk")
    infos = entry.load("ironic_lite.drivers.redfish.bmc.info")
    given = {
        "redfish_address": asked["bmc"],
        "redfish_verify_ca": asked["verify_ca"],
        "redfish_auth_type": asked["auth"],
    }
    password = _read_password(asked) if asked["user"] else None
    if password is not None:
        given |= {"redfish_username": asked["user"], "redfish_password": password}
    node = infos.parse(given, ca_folder=conf.redfish.ca_folder)
    limits = walks.Limits(asked["requests"], asked["seconds"], asked["megabytes"] * 1024**2)
    walk = walks.Walk(node, limits, _show_progress)
    walk.run()
    host = urllib.parse.urlsplit(node.address).hostname
    texts = [text for text in (host, asked["user"], password) if text]
    content = walks.packed(walk, texts)
    try:
        file.write_bytes(content)
    except OSError as why:
        reason = f"{why.strerror}, so the recording in it is missing or not complete"
        raise errors.LocalFileError(path=str(file), reason=reason) from None
    print(f"{file}: {len(walk.documents)} documents")
    for reason, count in sorted(walk.left_out.items()):
        print(f"left out: {count} ({reason})")
    if walk.ended:
        print(f"{PROG}: the recording is not complete: {walk.ended}", file=sys.stderr)
    return 1 if walk.ended else 0


def _read_password(asked: Json) -> str:
    """Return the password.

    :raises config.ConfigError: its file cannot be read.
    """
    if asked["password_file"]:
        try:
            return pathlib.Path(asked["password_file"]).read_text().rstrip("\n")
        except (OSError, UnicodeDecodeError) as why:
            raise config.ConfigError(reason=f"password-file: cannot be read: {why}") from None
    return os.environ.get(PASSWORD) or getpass.getpass(f"Password of {asked['user']}: ")


def _show_progress(count: int) -> None:
    if count % _EACH == 0:
        print(f"{count} documents", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    sys.exit(entry.run(PROG, ABOUT, _record_bmc, argv, cli_opts=OPTIONS))


if __name__ == "__main__":
    main()
