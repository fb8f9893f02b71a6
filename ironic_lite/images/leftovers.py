"""Files that are handed out to one node's machine, seen from the disk: whose they are, how old.

A node that was deleted, or that another conductor has now, leaves some behind; a process that is
killed leaves unfinished ones. What is to go is decided by who knows the nodes; nothing is removed
here that has changed since it was looked at.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterable, Iterator

from ironic_lite import config
from ironic_lite.images import published

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SECRET = re.compile(rf"(?P<node>{_UUID})-[\w-]{{22}}(?:\.\w+)?")  # of published.secret_name
_FOLDER = re.compile(_UUID)
_LED_TO = re.compile(rf"/(?P<node>{_UUID})/")
_SCRIPTS = "pxelinux.cfg"
_SCRIPT_BYTES = 16 * 1024
_UNFINISHED = ".new-*"


@dataclasses.dataclass(frozen=True, slots=True)
class Left:
    """A file of a node, as it was when it was found.

    ``named``: its name is its node's secret, so the node says whether it is still meant.
    """

    file: pathlib.Path
    node: str
    named: bool
    seen: tuple[int, int]


def of_nodes(before: float) -> list[Left]:
    """Return the files below ``[deploy]http_root`` that belong to one node each.

    :param before: seconds since the epoch; what was written, or got its name, later is left out.
    """
    found = []
    for file in _files(published.folder().glob("*/*")):
        stamp = seen(file, before)
        whose = stamp and _whose(file)
        if stamp and whose:
            found.append(Left(file, *whose, stamp))
    return found


def unfinished(before: float) -> list[pathlib.Path]:
    """Return what somebody began to write and has not touched since ``before``: he is no more."""
    root, state = published.folder(), config.state_path()
    places = [root, *(path for path in root.glob("*") if path.is_dir())]
    places += [state / "downloads", state / "media-bases"]
    return [
        file
        for place in places
        for file in _files(place.glob(_UNFINISHED))
        if seen(file, before) is not None
    ]


def remove(left: Left) -> bool:
    """Remove a file, unless it is another one by now; tell whether it was removed.

    :raises errors.LocalFileError: it cannot be removed.
    """
    if seen(left.file, float("inf")) != left.seen:
        return False
    published.remove(left.file)
    if left.file.parent.name == left.node:
        published.remove_folder(left.file.parent)
    return True


def _files(paths: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                yield path


def seen(file: pathlib.Path, before: float) -> tuple[int, int] | None:
    """Return what tells whether a file is still the same, None if it is younger or gone."""
    try:
        about = file.stat()
    except OSError:
        return None
    # A link to a file that was fetched long ago is as old as its name.
    return (about.st_ino, about.st_ctime_ns) if about.st_ctime < before else None


def _whose(file: pathlib.Path) -> tuple[str, bool] | None:
    secret = _SECRET.fullmatch(file.name)
    if secret:
        return secret["node"], True
    folder = file.parent.name
    if _FOLDER.fullmatch(folder):
        return folder, False
    led = _LED_TO.search(_text(file)) if folder == _SCRIPTS else None
    return (led["node"], False) if led else None


def _text(file: pathlib.Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_SCRIPT_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
