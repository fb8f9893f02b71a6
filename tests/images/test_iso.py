"""Boot media: read again by another reader, byte by byte where firmware reads bytes."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import fcntl
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pycdlib
import pytest

from ironic_lite import errors
from ironic_lite.images import iso, local_files

SECTOR = 2048
PUBLISHER = "6e0b0a1e-1d6b-4f0a-9d4e-0123456789ab"
TEXT = "menuentry ramdisk {\n    linux /vmlinuz ipa-agent-token=secret\n}\n"

Sized = Callable[[str, int], pathlib.Path]


@pytest.fixture
def sized(tmp_path: pathlib.Path) -> Sized:
    """Make a file of some bytes; the same name and size give the same bytes."""

    def make(name: str, size: int) -> pathlib.Path:
        path = tmp_path / name
        path.write_bytes((name.encode() * (size // len(name) + 1))[:size])
        return path

    return make


@pytest.fixture
def uefi(sized: Sized) -> iso.Recipe:
    return iso.Recipe(sized("kernel", 70_001), sized("ramdisk", 300_123), sized("esp", 100 * 512))


@pytest.fixture
def bios(sized: Sized) -> iso.Recipe:
    loader, module = sized("isolinux", 40_000), sized("ldlinux", 30_000)
    return iso.Recipe(sized("kernel", 70_001), sized("ramdisk", 300_123), loader, module)


@pytest.fixture
def bases(tmp_path: pathlib.Path) -> iso.Bases:
    return iso.Bases(tmp_path / "bases", limit_mib=100)


def read(path: pathlib.Path, name: str, view: str = "rr_path") -> bytes:
    """Return a file of a medium, by its Rock Ridge name unless told otherwise."""
    disc, out = pycdlib.PyCdlib(), io.BytesIO()
    disc.open(str(path))
    disc.get_file_from_iso_fp(out, **{view: name})
    disc.close()
    return out.getvalue()


def kept(folder: pathlib.Path) -> set[str]:
    return {path.name for path in folder.glob("*")}


# -- what is on it --------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["rr_path", "joliet_path"])
def test_kernel_and_ramdisk_are_on_it_unchanged(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path, view: str
) -> None:
    made = tmp_path / "node.iso"
    bases.make(uefi, made, TEXT, PUBLISHER)
    assert read(made, "/vmlinuz", view) == uefi.kernel.read_bytes()
    assert read(made, "/initrd", view) == uefi.ramdisk.read_bytes()


def test_the_loaders_text_is_where_loaders_look_and_blank_after_its_end(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / "node.iso"
    bases.make(uefi, made, TEXT, PUBLISHER)
    for name in ("/EFI/BOOT/grub.cfg", "/boot/grub/grub.cfg"):
        found = read(made, name).decode()
        assert found.startswith(TEXT)
        assert found[len(TEXT) :].strip("\n") == ""


def test_a_loader_may_look_elsewhere(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / "node.iso"
    recipe = iso.Recipe(uefi.kernel, uefi.ramdisk, uefi.loader, config="EFI/debian-12/grub.cfg")
    bases.make(recipe, made, TEXT, PUBLISHER)
    assert read(made, "/EFI/debian-12/grub.cfg").decode().startswith(TEXT)
    assert read(made, "/boot/grub/grub.cfg").decode().startswith(TEXT)


def test_the_medium_names_itself_and_its_publisher(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / "node.iso"
    bases.make(uefi, made, TEXT, PUBLISHER)
    volume = made.read_bytes()[16 * SECTOR : 17 * SECTOR]
    assert volume[:6] == b"\x01CD001"
    assert volume[40:72].decode().rstrip() == "VMEDIA_BOOT_ISO"
    assert volume[318 : 318 + 128].decode().rstrip() == PUBLISHER


NETWORKS: dict[str, Any] = {
    "links": [{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}],
    "networks": [{"id": "ü", "type": "ipv4_dhcp", "link": "a"}],
    "services": [],
}
NETWORK_DATA = "/openstack/latest/network_data.json"


@pytest.mark.parametrize("view", ["rr_path", "joliet_path"])
def test_networks_of_a_node_are_where_ramdisks_look(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path, view: str
) -> None:
    made, recipe = tmp_path / "node.iso", dataclasses.replace(uefi, networked=True)
    bases.make(recipe, made, TEXT, PUBLISHER, iso.networks_file(NETWORKS))
    found = read(made, NETWORK_DATA, view)
    assert (len(found), json.loads(found)) == (iso.NETWORK_BYTES, NETWORKS)
    assert read(made, "/boot/grub/grub.cfg").decode().startswith(TEXT)
    # The next medium of the run has the networks of that time.
    other = {**NETWORKS, "services": [{"type": "dns", "address": "192.0.2.53"}]}
    iso.renew(
        made, made, "again\n", PUBLISHER, iso.networks_file(other), uefi=True, config=uefi.config
    )
    assert json.loads(read(made, NETWORK_DATA, view)) == other
    assert read(made, "/boot/grub/grub.cfg").startswith(b"again\n\n")


def test_node_without_networks_has_no_file_of_them(
    uefi: iso.Recipe, bios: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    networked = dataclasses.replace(uefi, networked=True)
    assert networked.key != uefi.key
    bases.make(networked, tmp_path / "a.iso", TEXT, PUBLISHER, iso.networks_file(NETWORKS))
    bases.make(uefi, tmp_path / "b.iso", TEXT, PUBLISHER)
    with pytest.raises(pycdlib.pycdlibexception.PyCdlibInvalidInput):
        read(tmp_path / "b.iso", NETWORK_DATA)
    plain = dataclasses.replace(bios, networked=True)
    bases.make(plain, tmp_path / "c.iso", TEXT, PUBLISHER, iso.networks_file(NETWORKS))
    assert json.loads(read(tmp_path / "c.iso", NETWORK_DATA)) == NETWORKS


def test_networks_that_do_not_fit_are_refused_by_name() -> None:
    empty = len(iso.networks_file({"links": ""}).rstrip())
    room = iso.NETWORK_BYTES - empty
    assert len(iso.networks_file({"links": "x" * room})) == iso.NETWORK_BYTES
    with pytest.raises(errors.InvalidParameter, match="network_data: has 65537 bytes as JSON"):
        iso.networks_file({"links": "x" * (room + 1)})


# -- how it boots ---------------------------------------------------------------------------------


def boot_entry(image: bytes) -> tuple[int, bytes]:
    """Return platform and bytes of the first El Torito entry (El Torito 1.0, 2.1 and 2.2)."""
    record = image[17 * SECTOR : 18 * SECTOR]
    assert record[:6] == b"\x00CD001"
    assert record[7:30] == b"EL TORITO SPECIFICATION"
    (catalog,) = struct.unpack("<I", record[71:75])
    entries = image[catalog * SECTOR :][:64]
    assert entries[0] == 1
    assert sum(struct.unpack("<16H", entries[:32])) & 0xFFFF == 0
    assert entries[30:32] == b"\x55\xaa"
    indicator, medium = entries[32], entries[33]
    assert (indicator, medium) == (0x88, 0)  # bootable, no emulation
    count, place = struct.unpack("<HI", entries[38:44])
    return entries[1], image[place * SECTOR :][: count * 512]


def test_uefi_finds_the_system_partition_by_el_torito(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / "node.iso"
    bases.make(uefi, made, TEXT, PUBLISHER)
    assert boot_entry(made.read_bytes()) == (0xEF, uefi.loader.read_bytes())


def test_uefi_finds_it_on_a_stick_by_the_partition_table(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / "node.iso"
    bases.make(uefi, made, TEXT, PUBLISHER)
    image = made.read_bytes()
    kind, start, count = struct.unpack("<4xB3xII", image[446:462])
    assert (kind, image[462:510], image[510:512]) == (0xEF, bytes(48), b"\x55\xaa")
    assert image[start * 512 : (start + count) * 512] == uefi.loader.read_bytes()


def test_a_system_partition_too_large_to_be_counted_reaches_to_the_end(
    uefi: iso.Recipe, sized: Sized, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / "node.iso"
    large = iso.Recipe(uefi.kernel, uefi.ramdisk, sized("large", 33 * 1024 * 1024))
    bases.make(large, made, TEXT, PUBLISHER)
    assert boot_entry(made.read_bytes()) == (0xEF, b"")
    assert read(made, "/boot/grub/efiboot.img") == large.loader.read_bytes()


def test_bios_finds_isolinux_told_where_it_is(
    bios: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / "node.iso"
    bases.make(bios, made, "DEFAULT ramdisk\n", PUBLISHER)
    image = made.read_bytes()
    platform, first = boot_entry(image)
    assert (platform, len(first)) == (0, 4 * 512)
    loader = bios.loader.read_bytes()
    assert first[:8] == loader[:8]
    # The boot information table: volume descriptor, own place, own length, checksum.
    volume, place, length = struct.unpack("<III", first[8:20])
    assert (volume, length) == (16, len(loader))
    assert image[place * SECTOR :][: len(first)] == first
    assert read(made, "/ISOLINUX/ISOLINUX.CFG;1", "iso_path").startswith(b"DEFAULT ramdisk\n")
    assert read(made, "/ISOLINUX/LDLINUX.C32;1", "iso_path") == (tmp_path / "ldlinux").read_bytes()


# -- what is kept ---------------------------------------------------------------------------------


def test_nodes_share_a_base_and_differ_in_their_text_alone(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    one, other = tmp_path / "one.iso", tmp_path / "other.iso"
    bases.make(uefi, one, TEXT, PUBLISHER)
    before = {path: path.stat().st_ino for path in (tmp_path / "bases").iterdir()}
    bases.make(uefi, other, TEXT.replace("secret", "other"), PUBLISHER)
    assert {path: path.stat().st_ino for path in (tmp_path / "bases").iterdir()} == before
    assert len(before) == 1
    (base,) = before
    assert b"secret" not in base.read_bytes()
    assert b"secret" not in other.read_bytes()
    assert one.stat().st_size == other.stat().st_size


def test_a_base_is_known_by_what_is_in_it_not_by_names(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    moved = tmp_path / "moved"
    moved.write_bytes(uefi.kernel.read_bytes())
    assert iso.Recipe(moved, uefi.ramdisk, uefi.loader).key == uefi.key
    moved.write_bytes(b"another")
    assert iso.Recipe(moved, uefi.ramdisk, uefi.loader).key != uefi.key


def test_least_recently_used_base_makes_room(
    uefi: iso.Recipe, sized: Sized, tmp_path: pathlib.Path
) -> None:
    folder, made = tmp_path / "bases", tmp_path / "node.iso"
    recipes = [iso.Recipe(sized(f"k{n}", 700_000), uefi.ramdisk, uefi.loader) for n in range(3)]
    bases = iso.Bases(folder, limit_mib=3)
    for age, recipe in enumerate(recipes[:2]):
        bases.make(recipe, made, TEXT, PUBLISHER)
        os.utime(folder / f"{recipe.key}.iso", (age + 1, age + 1))
    bases.make(recipes[2], made, TEXT, PUBLISHER)
    assert kept(folder) == {f"{recipe.key}.iso" for recipe in recipes[1:]}
    for age, recipe in enumerate(recipes[1:]):
        os.utime(folder / f"{recipe.key}.iso", (age + 1, age + 1))
    bases.make(recipes[1], made, TEXT, PUBLISHER)
    bases.make(recipes[0], made, TEXT, PUBLISHER)
    assert kept(folder) == {f"{recipe.key}.iso" for recipe in recipes[:2]}
    none = iso.Bases(folder, limit_mib=0)
    none.make(recipes[2], made, TEXT, PUBLISHER)
    assert kept(folder) == {f"{recipes[2].key}.iso"}


@pytest.mark.parametrize("use", ["a lock", "a second name"])
def test_base_in_use_is_not_removed_for_others(
    uefi: iso.Recipe, sized: Sized, tmp_path: pathlib.Path, use: str
) -> None:
    """Its removal would free nothing, and the base would be built again."""
    folder, made = tmp_path / "bases", tmp_path / "node.iso"
    recipes = [iso.Recipe(sized(f"k{n}", 700_000), uefi.ramdisk, uefi.loader) for n in range(3)]
    names = [f"{recipe.key}.iso" for recipe in recipes]
    bases = iso.Bases(folder, limit_mib=3)
    for age, recipe in enumerate(recipes[:2]):
        bases.make(recipe, made, TEXT, PUBLISHER)
        os.utime(folder / names[age], (age + 1, age + 1))
    with (folder / names[0]).open("rb") as used:
        if use == "a lock":
            fcntl.flock(used, fcntl.LOCK_SH)
        else:
            os.link(folder / names[0], tmp_path / "second")
        bases.make(recipes[2], made, TEXT, PUBLISHER)
    assert kept(folder) == {names[0], names[2]}


def test_many_at_once_build_one_base(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[iso.Recipe] = []
    really = iso._build

    def counted(recipe: iso.Recipe, made: object) -> None:
        built.append(recipe)
        really(recipe, made)  # type: ignore[arg-type]

    monkeypatch.setattr(iso, "_build", counted)
    threads = [
        threading.Thread(target=bases.make, args=(uefi, tmp_path / f"{n}.iso", f"{n}\n", PUBLISHER))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(built) == 1
    for number in range(6):
        found = read(tmp_path / f"{number}.iso", "/boot/grub/grub.cfg")
        assert found.startswith(f"{number}\n\n".encode())


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_text_that_does_not_fit_is_refused_before_anything_is_made(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(errors.InvalidParameter, match="16384 are possible"):
        bases.make(uefi, tmp_path / "node.iso", "x" * 16385, PUBLISHER)
    assert not (tmp_path / "node.iso").exists()


def test_a_file_that_is_gone_is_named(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path
) -> None:
    uefi.ramdisk.unlink()
    with pytest.raises(errors.LocalFileError, match=r"ramdisk of the conductor's machine"):
        bases.make(uefi, tmp_path / "node.iso", TEXT, PUBLISHER)


def test_a_full_disk_is_said_and_leaves_nothing_behind(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "out"
    out.mkdir()
    (out / "node.iso").write_bytes(b"the one before")
    monkeypatch.setattr(iso, "_patch", full)
    with pytest.raises(errors.DiskFull, match=r"node.iso"):
        bases.make(uefi, out / "node.iso", TEXT, PUBLISHER)
    assert kept(out) == {"node.iso"}
    assert (out / "node.iso").read_bytes() == b"the one before"
    monkeypatch.setattr(iso, "_build", full)
    with pytest.raises(errors.DiskFull):
        bases.make(iso.Recipe(uefi.ramdisk, uefi.kernel, uefi.loader), out / "x", TEXT, PUBLISHER)
    assert len(kept(tmp_path / "bases")) == 1


def test_file_systems_that_cannot_share_blocks_copy(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(*_: object) -> int:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "copy_file_range", unable)
    bases.make(uefi, tmp_path / "node.iso", TEXT, PUBLISHER)
    assert read(tmp_path / "node.iso", "/initrd") == uefi.ramdisk.read_bytes()


def test_a_base_that_others_take_away_meanwhile_is_built_again(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As conductors that share a state_path do, or media of other kernels."""
    opened, left = pathlib.Path.open, [2]

    def taken(path: pathlib.Path, *args: Any, **more: Any) -> Any:
        if path.parent.name == "bases" and path.exists() and left[0]:
            left[0] -= 1
            path.unlink()
        return opened(path, *args, **more)

    monkeypatch.setattr(pathlib.Path, "open", taken)
    bases.make(uefi, tmp_path / "node.iso", TEXT, PUBLISHER)
    assert left == [0]
    assert read(tmp_path / "node.iso", "/initrd") == uefi.ramdisk.read_bytes()


def test_a_base_is_on_the_disk_before_it_has_its_name(
    uefi: iso.Recipe, bases: iso.Bases, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of one, after a power failure, would be copied for ever."""
    seen: list[set[str]] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(kept(tmp_path / "bases")))
    bases.make(uefi, tmp_path / "node.iso", TEXT, PUBLISHER)
    ((name,),) = seen
    assert name.startswith(".new-")


def test_many_who_want_one_digest_read_the_file_once() -> None:
    found = local_files.Once[int](2)
    begun, go, count = threading.Event(), threading.Event(), []

    def work() -> int:
        count.append(1)
        begun.set()
        assert go.wait(20)
        return 7

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = [pool.submit(found.get, "a", work) for _ in range(4)]
        assert begun.wait(20)
        assert found.get("b", lambda: 8) == 8
        go.set()
        assert [one.result(20) for one in results] == [7] * 4
    assert (len(count), found.turns.waiters("a")) == (1, 0)
    found.get("c", lambda: 9)
    assert found.get("b", lambda: 10) == 10
    with pytest.raises(ZeroDivisionError):
        found.get("d", lambda: 1 // 0)
    assert found.get("d", lambda: 11) == 11


@pytest.mark.parametrize("view", ["rr_path", "joliet_path"])
def test_an_authority_is_where_an_agent_takes_its_options_from(
    bases: iso.Bases, uefi: iso.Recipe, sized: Sized, tmp_path: pathlib.Path, view: str
) -> None:
    pem, target = sized("pem", 1500), tmp_path / "node.iso"
    recipe = dataclasses.replace(uefi, authority=pem)
    assert recipe.key != uefi.key
    bases.make(recipe, target, TEXT, PUBLISHER)
    named = "/etc/ironic-python-agent/authority.pem"
    told = read(target, "/etc/ironic-python-agent.d/authority.conf", view)
    assert told == f"[DEFAULT]\ncafile = {named}\n".encode()
    assert read(target, named, view) == pem.read_bytes()


def unpacked(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of each entry of a cpio archive (newc), by its own rules."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * n :][:8], 16) for n in range(13)]
        size, length = fields[6], fields[11]
        name = archive[at + 110 : at + 110 + length - 1].decode()
        at = -(-(at + 110 + length) // 4) * 4
        if name == "TRAILER!!!":
            assert archive[at:] == b""
            return found
        found[name] = fields[1], archive[at : at + size]
        at = -(-(at + size) // 4) * 4


def test_archive_has_the_files_of_a_medium_and_lets_a_ramdisk_follow(
    tmp_path: pathlib.Path,
) -> None:
    pem = tmp_path / "ca.pem"
    for size in range(4):
        pem.write_bytes(b"x" * size)
        archive = iso.authority_archive(pem)
        assert len(archive) % 4 == 0
        found = unpacked(archive)
        assert {name: mode for name, (mode, _) in found.items()} == {
            "etc": 0o040755,
            "etc/ironic-python-agent": 0o040755,
            "etc/ironic-python-agent.d": 0o040755,
            "etc/ironic-python-agent/authority.pem": 0o100644,
            "etc/ironic-python-agent.d/authority.conf": 0o100644,
        }
        assert found["etc/ironic-python-agent/authority.pem"][1] == b"x" * size
        named = found["etc/ironic-python-agent.d/authority.conf"][1]
        assert named == b"[DEFAULT]\ncafile = /etc/ironic-python-agent/authority.pem\n"


def test_cpio_itself_unpacks_the_archive(tmp_path: pathlib.Path) -> None:
    program = shutil.which("cpio")
    if program is None:
        pytest.skip("NOT TESTED: cpio is not installed; apt-get install cpio")
    (tmp_path / "ca.pem").write_text("an authority")
    folder = tmp_path / "root"
    folder.mkdir()
    subprocess.run(
        [program, "--extract", "--quiet"],
        input=iso.authority_archive(tmp_path / "ca.pem"),
        cwd=folder,
        check=True,
        timeout=20,
    )
    assert (folder / "etc/ironic-python-agent/authority.pem").read_text() == "an authority"
