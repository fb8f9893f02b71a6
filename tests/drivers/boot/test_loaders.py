"""The texts of boot loaders: each finds its kernel, its ramdisk and every word."""

from __future__ import annotations

import shlex
import uuid

import pytest

from ironic_lite.drivers.boot import loaders, network, parameters

WORDS = ["ipa-api-url=http://192.0.2.1:6385", "ipa-agent-token=a-b_c", "x=$y;z"]


def line(text: str, first: str) -> list[str]:
    """Return the words after ``first`` of the one line that begins with it."""
    (found,) = (line.strip() for line in text.splitlines() if line.strip().startswith(f"{first} "))
    return found.split()[1:]


def test_grub_is_told_kernel_ramdisk_and_every_word_once() -> None:
    text = loaders.grub("/vmlinuz", "/initrd", WORDS)
    (told,) = (line.strip() for line in text.splitlines() if line.strip().startswith("linux "))
    # A shell reads quotes as GRUB does.
    assert shlex.split(told) == ["linux", "/vmlinuz", *WORDS]
    assert line(text, "initrd") == ["/initrd"]
    assert "search" not in text


def test_a_parameter_with_spaces_is_one_word_for_grub_which_quotes_it_itself() -> None:
    words = ["a=1", 'dyndbg="file', "x.c", "+p;", 'y"', '"b=2', '3"', 'open="q', "r"]
    text = loaders.grub("/vmlinuz", "/initrd", words)
    (told,) = (line.strip() for line in text.splitlines() if line.strip().startswith("linux "))
    assert shlex.split(told)[2:] == ["a=1", "dyndbg=file x.c +p; y", "b=2 3", "open=q r"]
    assert '"' not in told


def test_longest_command_line_has_room_for_late_parameters() -> None:
    """A kernel cuts its line off in silence."""
    longest = ["x" * parameters.LONGEST]
    line = [*network.with_card(longest, "52:54:00:aa:00:01"), f"ir_pub_id={uuid.uuid4()}"]
    text = loaders.ipxe("k", "r", line)
    (told,) = (one for one in text.splitlines() if one.startswith("kernel "))
    assert len(told.partition(" k ")[2].removesuffix(" || goto failed")) <= 2047


def test_grub_looks_for_a_medium_by_its_label() -> None:
    text = loaders.grub("/vmlinuz", "/initrd", WORDS, label=loaders.LABEL)
    assert "search --no-floppy --set=root --label VMEDIA_BOOT_ISO\n" in text


@pytest.mark.parametrize("word", ["it's", "a;b", "$x", '"q"', "a\\b", "{", "<>", "|", "~"])
def test_a_word_stays_a_word_for_grub(word: str) -> None:
    assert shlex.split(loaders.grub_quoted(word)) == [word]
    assert loaders.grub_quoted(word) != word


def test_syslinux_is_told_the_same() -> None:
    text = loaders.syslinux("vmlinuz", "initrd", WORDS)
    assert line(text, "APPEND") == WORDS
    assert line(text, "KERNEL") == ["vmlinuz"]
    assert line(text, "INITRD") == ["initrd"]


def test_ipxe_is_told_the_same_and_the_kernel_knows_its_ramdisk() -> None:
    text = loaders.ipxe("http://192.0.2.1/n/k", "http://192.0.2.1/n/r", WORDS)
    assert text.startswith("#!ipxe\n")
    kernel = line(text, "kernel")
    assert kernel[:4] == ["--name", "vmlinuz", "http://192.0.2.1/n/k", "initrd=initrd"]
    assert kernel[4:7] == WORDS
    assert line(text, "initrd")[:3] == ["--name", "initrd", "http://192.0.2.1/n/r"]


def test_boot_ipxe_tries_each_card() -> None:
    text = loaders.ipxe_entry()
    assert "chain --autofree pxelinux.cfg/${mac:hexhyp}" in text
    assert "chain --autofree pxelinux.cfg/${net${n}/mac:hexhyp}" in text
