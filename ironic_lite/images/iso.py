"""Bootable media of a kernel and a ramdisk: a shared base, a small text per node.

A base holds everything that is the same for all nodes, and files of blanks at the places of the
loader's text and of the node's networks. Its name is the digest of its parts. The medium of a node
is a copy of the base with these files and the publisher overwritten. All sizes and places stay, so
the layout is made only once (ECMA-119; El Torito 1.0; UEFI 2.10, 13.3.2).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import io
import json
import os
import pathlib
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

import orjson

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.images import checksums, local_files

if TYPE_CHECKING:
    import pycdlib

LABEL = "VMEDIA_BOOT_ISO"
SECTOR = 2048
CONFIG_BYTES = 16 * 1024
"""Size of the loader's text: four times the longest command line, all quoted."""
NETWORK_BYTES = 64 * 1024
"""Size of the file with the node's networks."""

KERNEL, RAMDISK, AUTHORITY = "/vmlinuz", "/initrd", "/authority.cpio"
"""Their paths for the loader; the last is there if the recipe has an authority."""

_LAYOUT = 2  # part of a base's name: raise it with each change of the layout
_ESP = "/boot/grub/efiboot.img"
_ISOLINUX = "/isolinux/isolinux.bin"
_ISOLINUX_CONFIG = "/isolinux/isolinux.cfg"
_LDLINUX = "/isolinux/ldlinux.c32"
_GRUB_CONFIG = "/boot/grub/grub.cfg"
_CATALOG = "/BOOT.CAT;1"
_AUTHORITY = "/etc/ironic-python-agent/authority.pem"
_AGENT_CONFIG = "/etc/ironic-python-agent.d/authority.conf"
_NETWORK_DATA = "/openstack/latest/network_data.json"
_TRUSTING = f"[DEFAULT]\ncafile = {_AUTHORITY}\n".encode()
"""Options an agent booted from a medium reads from it before its own."""

_PUBLISHER = (16 * SECTOR + 318, 128)  # ECMA-119 8.4.20: where it stands, and its length
_EFI = 0xEF  # El Torito platform id, and MBR type of an EFI system partition
_SHORT = 0xFFFF  # the most sectors El Torito can count
_VIRTUAL_SECTOR = 512
_ISOLINUX_SECTORS = 4
_TRIES = 3  # a base removed meanwhile to make room is built again


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """The parts of a base: local files.

    :param loader: the image of an EFI system partition (at most 4 GiB); in BIOS mode isolinux.bin.
    :param module: ldlinux.c32 in BIOS mode, of the same release as isolinux.bin; else None.
    :param config: where the loader looks for its text, besides ``/boot/grub/grub.cfg``.
    :param authority: a PEM file of the authorities that the agent trusts for https; None for those
        of the ramdisk.
    :param networked: it has a file for the networks of a node.
    """

    kernel: pathlib.Path
    ramdisk: pathlib.Path
    loader: pathlib.Path
    module: pathlib.Path | None = None
    config: str = "EFI/BOOT/grub.cfg"
    authority: pathlib.Path | None = None
    networked: bool = False

    @property
    def uefi(self) -> bool:
        """True for booting machines in UEFI mode; else BIOS mode."""
        return self.module is None

    @property
    def key(self) -> str:
        """The digest of all its parts, 64 hexadecimal characters."""
        files = (self.kernel, self.ramdisk, self.loader, *([self.module] if self.module else ()))
        facts = [_LAYOUT, self.config, *(checksums.known_digest(path, "sha256") for path in files)]
        if self.authority is not None:
            facts.append(f"authority {checksums.known_digest(self.authority, 'sha256')}")
        facts += ["networked"] if self.networked else []
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


class Bases:
    """Bases in a folder of limited size; the least recently used go first.

    :param folder: on the file system of the media; some file systems then copy without reading.
    :param limit_mib: MiB that all bases may take; the one in use stays, however large. 0 keeps only
        that one.
    """

    def __init__(self, folder: pathlib.Path, limit_mib: int) -> None:
        self._folder = folder
        self._limit = limit_mib * local_files.MIB
        self._building = local_files.KeyedLock()

    def make(
        self,
        recipe: Recipe,
        target: pathlib.Path,
        text: str,
        publisher: str,
        networks: bytes | None = None,
    ) -> None:
        """Write the medium of one node, replacing ``target`` at once.

        :param text: for the loader.
        :param networks: from `networks_file`, if the recipe is networked.
        :param publisher: the publisher identifier, at most 128 ASCII characters.
        :raises errors.InvalidParameter: the text is too long.
        :raises errors.Unavailable: the disk is full.
        :raises errors.LocalFileError: a file cannot be read or written.
        """
        contents = _node_files(recipe.uefi, recipe.config, text, networks)

        def write() -> None:
            with self._open_base(recipe) as base, _replacing_file(target) as made:
                local_files.copy(base, made)
                _patch(made, contents, publisher)

        with _translate_file_errors(recipe.loader, target):
            local_files.once_more(target.parent, write, _coming_bytes(recipe))

    @contextlib.contextmanager
    def _open_base(self, recipe: Recipe) -> Iterator[BinaryIO]:
        """Yield the open base, built if missing; its lock keeps it while it is in use."""
        key = recipe.key
        path = self._folder / f"{key}.iso"
        with self._building.take(key):
            base = self._build_base(recipe, path)
        with base:
            fcntl.flock(base, fcntl.LOCK_SH)  # in use, see `room`
            os.utime(base.fileno())
            local_files.trim(self._folder, self._limit)
            yield base

    def _build_base(self, recipe: Recipe, path: pathlib.Path) -> BinaryIO:
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):
                return path.open("rb")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            local_files.trim(self._folder, self._limit - _coming_bytes(recipe))
            local_files.once_more(
                path.parent, lambda: _write_base(recipe, path), _coming_bytes(recipe)
            )
        return path.open("rb")


def renew(
    last: pathlib.Path,
    target: pathlib.Path,
    text: str,
    publisher: str,
    networks: bytes | None = None,
    *,
    uefi: bool,
    config: str,
) -> None:
    """Write a medium with the parts of another one, which was made by `Bases.make`.

    :param last: that medium; it stays unless it is ``target``.
    :param networks: None unless the other one has such a file.
    :param uefi, config: as in its recipe.
    :raises errors.Error: as `Bases.make`.
    """
    contents = _node_files(uefi, config, text, networks)

    def write() -> None:
        with last.open("rb") as base, _replacing_file(target) as made:
            local_files.copy(base, made)
            _patch(made, contents, publisher)

    with _translate_file_errors(last, target):
        local_files.once_more(target.parent, write, last.stat().st_size)


def authority_archive(authority: pathlib.Path) -> bytes:
    """Return a ramdisk (cpio, newc) with the files for the agent, for machines without a medium.

    A kernel unpacks it before the ramdisk that follows; its size is a multiple of 4 for that.

    :param authority: as in a recipe.
    :raises OSError: it cannot be read.
    """
    files = {_AUTHORITY: local_files.read_regular(authority), _AGENT_CONFIG: _TRUSTING}
    folders = {str(one) for path in files for one in pathlib.PurePosixPath(path).parents}
    parts = [_cpio_entry(folder, 0o040755) for folder in sorted(folders - {"/"})]
    parts += [_cpio_entry(path, 0o100644, content) for path, content in files.items()]
    return b"".join([*parts, _cpio_entry("TRAILER!!!", 0)])


def _cpio_entry(path: str, mode: int, content: bytes = b"") -> bytes:
    name = path.removeprefix("/").encode() + b"\0"
    # Inode, mode, owner, group, links, time, size, device numbers, size of the name, checksum.
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name
    return b"".join(part.ljust(-(-len(part) // 4) * 4, b"\0") for part in (head, content))


def _coming_bytes(recipe: Recipe) -> int:
    return sum(path.stat().st_size for path in (recipe.kernel, recipe.ramdisk, recipe.loader))


# -- building -------------------------------------------------------------------------------------


def _write_base(recipe: Recipe, path: pathlib.Path) -> None:
    with _replacing_file(path, lasting=True) as made:
        _build(recipe, made)


def _build(recipe: Recipe, made: BinaryIO) -> None:
    """Lay out and write a base."""
    disc = _new_disc()
    disc.new(interchange_level=3, vol_ident=LABEL, rock_ridge="1.09", joliet=3)
    tree = _Tree(disc)
    blank_networks = networks_file({}) if recipe.networked else None
    with contextlib.ExitStack() as opened:
        places = {KERNEL: recipe.kernel, RAMDISK: recipe.ramdisk}
        if recipe.uefi:
            places[_ESP] = recipe.loader
        elif recipe.module is not None:
            places |= {_ISOLINUX: recipe.loader, _LDLINUX: recipe.module}
        if recipe.authority is not None:
            places[_AUTHORITY] = recipe.authority
            archive = authority_archive(recipe.authority)
            for name, content in ((_AGENT_CONFIG, _TRUSTING), (AUTHORITY, archive)):
                tree.add(name, io.BytesIO(content), len(content))
        for name, path in places.items():
            file = opened.enter_context(local_files.open_regular(path))
            tree.add(name, file, path.stat().st_size)
        blanks = _node_files(recipe.uefi, recipe.config, "", blank_networks)
        for name, blank in blanks.items():
            tree.add(name, io.BytesIO(blank), len(blank))
        _make_bootable(disc, recipe)
        disc.write_fp(made)
        if recipe.uefi:
            _add_partition_table(disc, made, recipe.loader.stat().st_size)
    disc.close()


def _new_disc() -> pycdlib.PyCdlib:
    import pycdlib  # noqa: PLC0415  # takes 2 MiB, and few nodes boot from a medium

    return pycdlib.PyCdlib()


class _Tree:
    """Adds files by their plain paths, with their folders."""

    def __init__(self, disc: pycdlib.PyCdlib) -> None:
        self._disc = disc
        self._folders = {""}

    def add(self, name: str, file: BinaryIO | io.BytesIO, length: int) -> None:
        """Add one file at ``/folder/name``."""
        self._add_folders(name.rpartition("/")[0])
        plain = name.rpartition("/")[2]
        self._disc.add_fp(
            file, length, iso_path=f"{_iso_path(name)};1", rr_name=plain, joliet_path=name
        )

    def _add_folders(self, folder: str) -> None:
        if folder in self._folders:
            return
        self._add_folders(folder.rpartition("/")[0])
        plain = folder.rpartition("/")[2]
        self._disc.add_directory(
            _iso_path(f"{folder}/").rstrip("/"), rr_name=plain, joliet_path=folder
        )
        self._folders.add(folder)


def _iso_path(name: str) -> str:
    """Return a path in ISO 9660's characters; readers of Rock Ridge see the original."""
    folder, slash, plain = name.upper().rpartition("/")
    kept = re.sub(r"[^A-Z0-9_/]", "_", folder)  # without dots
    return kept + slash + re.sub(r"[^A-Z0-9_.]", "_", plain)


def _loader_configs(uefi: bool, config: str) -> tuple[str, ...]:
    if not uefi:
        return (_ISOLINUX_CONFIG,)
    given = "/" + config.strip("/")
    same = given.upper() == _GRUB_CONFIG.upper()
    return (_GRUB_CONFIG,) if same else (given, _GRUB_CONFIG)


def _make_bootable(disc: pycdlib.PyCdlib, recipe: Recipe) -> None:
    if not recipe.uefi:
        disc.add_eltorito(
            f"{_iso_path(_ISOLINUX)};1",
            _CATALOG,
            boot_load_size=_ISOLINUX_SECTORS,
            boot_info_table=True,
        )
        return
    sectors = -(-recipe.loader.stat().st_size // _VIRTUAL_SECTOR)
    # A count below two sectors means all up to the medium's end, for sizes too large to count.
    disc.add_eltorito(
        f"{_iso_path(_ESP)};1",
        _CATALOG,
        boot_load_size=sectors if sectors <= _SHORT else 0,
        platform_id=_EFI,
        efi=True,
    )


def _add_partition_table(disc: pycdlib.PyCdlib, made: BinaryIO, length: int) -> None:
    """Add a partition table, for firmware that treats the medium as a USB stick."""
    start = _file_offset(disc, _ESP) // _VIRTUAL_SECTOR
    count = -(-length // _VIRTUAL_SECTOR)
    entry = struct.pack("<B3sB3sII", 0, b"\xfe\xff\xff", _EFI, b"\xfe\xff\xff", start, count)
    made.seek(446)
    made.write(entry)
    made.seek(510)
    made.write(b"\x55\xaa")


# -- patching -------------------------------------------------------------------------------------


def _padded_text(text: str) -> bytes:
    """Return a loader's text, padded with blank lines to the size of its file.

    :raises errors.InvalidParameter: it does not fit.
    """
    data = text.encode("ascii")
    if len(data) > CONFIG_BYTES:
        reason = f"make a boot configuration of {len(data)} bytes; {CONFIG_BYTES} are possible"
        raise errors.InvalidParameter(path="kernel_append_params", reason=reason)
    return data.ljust(CONFIG_BYTES, b"\n")


def networks_file(network_data: JsonView) -> bytes:
    """Return the file with the networks of a node, padded to its size.

    :raises errors.InvalidParameter: they do not fit.
    """
    data = orjson.dumps(network_data)
    if len(data) > NETWORK_BYTES:
        reason = f"has {len(data)} bytes as JSON; boot media have room for {NETWORK_BYTES}"
        raise errors.InvalidParameter(path="network_data", reason=reason)
    return data.ljust(NETWORK_BYTES, b"\n")


def _node_files(uefi: bool, config: str, text: str, networks: bytes | None) -> dict[str, bytes]:
    """Return the contents of the files that differ between nodes, by path."""
    found = dict.fromkeys(_loader_configs(uefi, config), _padded_text(text))
    return {**found, **({} if networks is None else {_NETWORK_DATA: networks})}


def _patch(made: BinaryIO, contents: Mapping[str, bytes], publisher: str) -> None:
    offset, length = _PUBLISHER
    disc = _new_disc()
    disc.open_fp(made)
    places = {_file_offset(disc, name): content for name, content in contents.items()}
    disc.close()
    for place, content in places.items():
        made.seek(place)
        made.write(content)
    made.seek(offset)
    made.write(publisher.encode("ascii").ljust(length)[:length])


def _file_offset(disc: pycdlib.PyCdlib, name: str) -> int:
    """Return the offset of a file in the medium, in bytes."""
    record = disc.get_record(iso_path=f"{_iso_path(name)};1")
    return int(record.extent_location()) * SECTOR


# -- files ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _replacing_file(target: pathlib.Path, *, lasting: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that replaces ``target`` on success, and is removed otherwise.

    :param lasting: it is kept for ever, so wait until the disk has all of it. The folder decides
        who may read it: BMCs read it through a web server.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            os.fchmod(file.fileno(), 0o644)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        pathlib.Path(name).replace(target)
    except BaseException:
        pathlib.Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _translate_file_errors(parts: pathlib.Path, target: pathlib.Path) -> Iterator[None]:
    """Raise errors of files as errors of this service."""
    from pycdlib import pycdlibexception  # noqa: PLC0415  # with pycdlib, see `_new_disc`

    try:
        with local_files.explained(target):
            yield
    except pycdlibexception.PyCdlibException as why:
        raise errors.LocalFileError(
            path=str(parts), reason=f"no bootable medium can be made with it: {why}"
        ) from None
