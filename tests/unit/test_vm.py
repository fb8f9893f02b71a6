"""What judges a virtual machine's run must be able to say no."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
from xml.etree import ElementTree

import pytest

from tests.vm import disk, image, rack, story

ROOT = pathlib.Path(__file__).parents[2]
LEFT = b"LEFT"


@pytest.fixture
def marked(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "disk.raw"
    disk.make(path)
    assert (disk.used(path), disk.holds(path, LEFT)) == (0, False)
    disk.mark(path, LEFT)
    return path


def test_a_disk_with_marks_is_not_erased(marked: pathlib.Path) -> None:
    assert disk.holds(marked, LEFT)
    assert disk.used(marked) >= 4 * 1024 * 1024


@pytest.mark.parametrize("place", [disk.SIZE // 2, disk.SIZE - 1024 * 1024], ids=["middle", "end"])
def test_disk_check_finds_a_single_mark(marked: pathlib.Path, place: int) -> None:
    disk.make(marked)
    with marked.open("r+b") as file:
        file.seek(place)
        file.write(LEFT)
    assert disk.holds(marked, LEFT)
    assert disk.used(marked) == 1024 * 1024


def test_zeros_that_were_written_are_zeros(marked: pathlib.Path) -> None:
    disk.make(marked)
    with marked.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(3 * 1024 * 1024))
    assert disk.used(marked) == 0


@pytest.mark.parametrize(("firmware", "rom"), [("uefi", "no"), ("bios", None)])
def test_a_machine_boots_by_the_firmware_it_is_to_have(
    firmware: str, rom: str | None, tmp_path: pathlib.Path
) -> None:
    machine = rack.Rack(tmp_path, tmp_path, firmware=firmware)
    told = ElementTree.fromstring(machine.description())
    by_uefi = told.find("os[@firmware='efi']") is not None
    card = told.find("devices/interface/rom")
    assert (by_uefi, None if card is None else card.get("enabled")) == (firmware == "uefi", rom)


def test_the_address_of_the_machine_is_the_one_it_was_leased_last(tmp_path: pathlib.Path) -> None:
    machine = rack.Rack(tmp_path, tmp_path)
    assert machine.address == ""
    lines = f"1 52:54:00:00:00:01 192.0.2.1 * *\n2 {rack.MAC} 192.0.2.2 * *\nduid 1\n"
    (tmp_path / "leases").write_text(lines)
    assert machine.address == "192.0.2.2"


def test_a_boot_sector_leaves_the_table_of_partitions_alone() -> None:
    code = image.boot_code("HELLO")
    # Where the text lies is written in the code: mov si, text.
    assert code[int.from_bytes(code[7:9], "little") - 0x7C00 :] == b"HELLO\r\n\0"
    assert len(image.boot_code("x" * 402)) == 440
    with pytest.raises(ValueError, match="too long"):
        image.boot_code("x" * 403)


def test_a_sign_on_the_serial_line_is_told_once() -> None:
    told: list[str] = []
    found = story.Story(lambda: 1.5, told.append)
    line = "BdsDxe: starting Boot0001\r\n[    0.000000] Linux version 6.1\n"
    found.serial(line[:-1])
    found.serial(line)
    agent = "[  50.1] ironic-python-agent[224]: hello\n[  50.2] ironic-python-agent[224]: again\n"
    found.serial(line + agent)
    found.serial(line + agent + line)
    first = ["firmware starts a loader", "kernel runs"]
    meanings = [one.partition("machine: ")[2] for one in told]
    assert meanings == [*first, "agent speaks", *first]


def test_a_node_is_told_of_when_it_has_moved() -> None:
    told: list[str] = []
    found = story.Story(lambda: 0.0, told.append)
    node = {"provision_state": "clean wait", "power_state": "power on", "clean_step": {}}
    found.node(node)
    found.node(node)
    found.node({**node, "clean_step": {"interface": "deploy", "step": "erase_devices"}})
    assert [line[11:] for line in told] == [
        "clean wait, power on",
        "clean wait, power on, deploy.erase_devices",
    ]


@pytest.mark.parametrize("script", ["vm.sh", "ramdisk.sh"])
def test_missing_programs_are_named_before_the_run(tmp_path: pathlib.Path, script: str) -> None:
    few = tmp_path / "bin"
    few.mkdir()
    for name in ("bash", "dirname", "realpath", "id"):
        (few / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [ROOT / "scripts" / script, tmp_path / "there"],
        env={"PATH": str(few), "VM_FOLDER": str(tmp_path / "there")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "root" in done.stderr or "apt-get install --no-install-recommends" in done.stderr
    assert not (tmp_path / "there").exists()
