"""Published files of single nodes on disk: their node and age.

A node that was deleted, or moved to another conductor, leaves files behind; a killed process leaves
unfinished ones. The caller, who knows the nodes, decides about removal; a file that has changed
since it was listed is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Iterable, Iterator

from ironic_lite.core import clock, config, regular_files
from ironic_lite.images import published, room

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SECRET = re.compile(rf"(?P<node>{_UUID})-[\w-]{{22}}(?:\.\w+)?")  # of published.secret_name
_FOLDER = re.compile(_UUID)
_LED_TO = re.compile(rf"/(?P<node>{_UUID})/")
_SCRIPTS = "pxelinux.cfg"
_GRUB = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}\.conf")
_SCRIPT_BYTES = 16 * 1024
_COPY_SECONDS = 24 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class Left:
    """A file of a node, as it was when it was found.

    ``named``: its name is its node's secret, so the node shows whether it is still in use.
    ``by_tftp``: it is below ``[pxe]tftp_root``, where other services may have files, too.
    """

    file: pathlib.Path
    node: str
    named: bool
    seen: tuple[int, int]
    by_tftp: bool = False


def of_nodes(before: float) -> list[Left]:
    """Return the files below ``[deploy]http_root`` and ``[pxe]tftp_root`` of one node each.

    :param before: seconds since the epoch; files written or named later are left out.
    """
    root, by_tftp = published.folder(), pathlib.Path(config.CONF.pxe.tftp_root)
    places = dict.fromkeys((*by_tftp.glob("*/*"), *by_tftp.glob("*.conf")), True)
    places |= dict.fromkeys(root.glob("*/*"), False)
    found = []
    for file in _existing_files(places):
        stamp = seen(file, before)
        whose = stamp and _owner_of_file(file)
        if stamp and whose:
            found.append(Left(file, *whose, stamp, places[file]))
    return found


def unused(before: float) -> list[pathlib.Path]:
    """Return unfinished files not touched since ``before``, whose writer has died.

    Shared copies of files that no node has used for a day are among them.
    """
    root, by_tftp = published.folder(), pathlib.Path(config.CONF.pxe.tftp_root)
    places = [root, *(path for path in root.glob("*") if path.is_dir())]
    places += [room.downloads(), room.bases(), room.agent_logs(), by_tftp / room.SHARED]
    found = [file for place in places for file in place.glob(f"{room.UNFINISHED}*")]
    old = [file for file in _existing_files(found) if seen(file, before) is not None]
    copies = (file for place in (root, by_tftp) for file in (place / room.SHARED).glob("[!.]*"))
    return old + [file for file in _existing_files(copies) if _is_unused_copy(file, before)]


def _is_unused_copy(file: pathlib.Path, before: float) -> bool:
    with contextlib.suppress(FileNotFoundError):  # removed for its room just now
        return file.stat().st_nlink == 1 and seen(file, before - _COPY_SECONDS) is not None
    return False


def remove(left: Left) -> bool:
    """Remove a file unless it was replaced; return whether it was removed.

    :raises errors.LocalFileError: it cannot be removed.
    """
    if seen(left.file, float("inf")) != left.seen:
        return False
    published.remove(left.file)
    if left.file.parent.name == left.node:
        published.remove_folder(left.file.parent)
    return True


def _existing_files(paths: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                yield path


def seen(file: pathlib.Path, before: float) -> tuple[int, int] | None:
    """Return an identity of a file's content, None if it is younger or gone."""
    try:
        about = file.stat()
    except OSError:
        return None
    # A link to a file that was fetched long ago is as old as its name.
    # By `lived`, because a clock that was ahead may have written the file.
    old = clock.lived_since(about.st_ctime) > clock.stamp() - before
    return (about.st_ino, about.st_ctime_ns) if old else None


def _owner_of_file(file: pathlib.Path) -> tuple[str, bool] | None:
    secret = _SECRET.fullmatch(file.name)
    if secret:
        return secret["node"], True
    folder = file.parent.name
    if _FOLDER.fullmatch(folder):
        return folder, False
    script = folder == _SCRIPTS or _GRUB.fullmatch(file.name)
    led = _LED_TO.search(_read_text(file)) if script else None
    return (led["node"], False) if led else None


def _read_text(file: pathlib.Path) -> str:
    try:
        return regular_files.read(file, _SCRIPT_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
