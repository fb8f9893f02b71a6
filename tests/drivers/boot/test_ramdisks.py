"""Ramdisks: their sources, media, loaders and parameters, and files after a lost lock."""

from __future__ import annotations

import io
import pathlib
import re
import shlex
import uuid
from collections.abc import Iterator
from typing import Any

import pycdlib
import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.agent import images
from ironic_lite.drivers.boot import loaders, medium, modes, network, sources
from ironic_lite.images import published
from tests.support import expiring_locks, fake_task
from tests.support.fake_task import FakeTask, node

# Where ramdisks come from, and in which mode a machine boots.

KERNEL, RAMDISK = "http://files.example/kernel", "http://files.example/ramdisk"
OWN = {"deploy_kernel": KERNEL, "deploy_ramdisk": RAMDISK}


@pytest.fixture(autouse=True)
def conf() -> Iterator[Any]:
    """The configuration, restored afterwards."""
    yield config.CONF
    config.CONF.clear_override("default_boot_mode", group="deploy")
    config.CONF.clear_override("endpoint_override", group="service_catalog")
    config.CONF.clear_override("public_endpoint", group="api")
    config.CONF.clear_override("external_callback_url", group="deploy")
    for name in ("deploy_kernel", "deploy_ramdisk", "rescue_kernel", "rescue_ramdisk"):
        config.CONF.clear_override(name, group="conductor")
        config.CONF.clear_override(f"{name}_by_arch", group="conductor")
    for name in ("bootloader", "bootloader_by_arch"):
        config.CONF.clear_override(name, group="conductor")


def give(conf: Any, **values: Any) -> None:
    for name, value in values.items():
        conf.set_override(name, value, group="conductor")


def booted_node(info: dict[str, Any] | None = None, **values: Any) -> Any:
    return fake_task.node(driver_info=info or {}, **values)


# -- where from -----------------------------------------------------------------------------------


def test_the_node_comes_first_then_its_architecture_then_all_machines(conf: Any) -> None:
    give(conf, deploy_kernel="http://c/k", deploy_ramdisk="http://c/r")
    found = sources.parts(booted_node(), "deploy")
    assert (found.kernel, found.ramdisk) == ("http://c/k", "http://c/r")
    assert found.place == "[conductor]deploy_"
    give(conf, deploy_kernel_by_arch={"aarch64": "http://a/k"})
    give(conf, deploy_ramdisk_by_arch={"aarch64": "http://a/r"})
    arm = booted_node(properties={"cpu_arch": "aarch64"})
    assert sources.parts(arm, "deploy").kernel == "http://a/k"
    assert (
        sources.parts(booted_node(properties={"cpu_arch": "x86_64"}), "deploy").kernel
        == "http://c/k"
    )
    arm.driver_info = OWN
    found = sources.parts(arm, "deploy")
    assert (found.kernel, found.ramdisk, found.place) == (KERNEL, RAMDISK, "driver_info/deploy_")


def test_a_nodes_kernel_does_not_meet_the_ramdisk_of_another(conf: Any) -> None:
    give(conf, deploy_kernel="http://c/k", deploy_ramdisk="http://c/r")
    with pytest.raises(errors.MissingParameter) as why:
        sources.parts(booted_node({"deploy_kernel": KERNEL}), "deploy")
    assert "driver_info/deploy_ramdisk" in why.value.message
    assert "driver_info/deploy_kernel" not in why.value.message


@pytest.mark.parametrize("mode", base.RAMDISKS)
def test_all_that_is_missing_is_named_at_once(mode: str) -> None:
    prefix = {"rescue": "rescue"}.get(mode, "deploy")
    with pytest.raises(errors.MissingParameter) as why:
        sources.parts(booted_node(), mode)
    for name in (f"{prefix}_kernel", f"{prefix}_ramdisk"):
        assert f"driver_info/{name}" in why.value.message
        assert f"[conductor]{name}" in why.value.message
    assert "_iso" not in why.value.message


def test_a_whole_image_comes_before_its_parts_where_it_can_be_booted() -> None:
    info = {**OWN, "deploy_iso": "https://files.example/a.iso"}
    assert (
        sources.parts(booted_node(info), "deploy", whole=True).iso == "https://files.example/a.iso"
    )
    assert sources.parts(booted_node(info), "deploy").iso is None
    with pytest.raises(errors.MissingParameter, match="or driver_info/rescue_iso"):
        sources.parts(booted_node(info), "rescue", whole=True)


def test_a_rescue_has_parts_of_its_own() -> None:
    info = {**OWN, "rescue_kernel": "http://r/k", "rescue_ramdisk": "http://r/r"}
    assert sources.parts(booted_node(info), "rescue").kernel == "http://r/k"
    assert sources.parts(booted_node(info), "inspect").kernel == KERNEL


@pytest.mark.parametrize(
    "url",
    ["ftp://files.example/k", "k", "http:///k", 7, "http://a b/"],
    ids=["scheme", "relative", "no-host", "number", "space"],
)
def test_invalid_url_is_refused_by_its_key(url: object) -> None:
    with pytest.raises(errors.InvalidParameter, match=r"^driver_info/deploy_kernel: "):
        sources.parts(booted_node({**OWN, "deploy_kernel": url}), "deploy")
    with pytest.raises(errors.InvalidParameter, match=r"^driver_info/deploy_iso: "):
        settings.values(sources.MEDIA, {"deploy_iso": url})


def test_the_boot_loader_is_found_as_the_ramdisk_is(conf: Any) -> None:
    with pytest.raises(errors.MissingParameter, match=r"driver_info/bootloader .*\[conductor\]"):
        sources.bootloader(booted_node())
    give(conf, bootloader="file:///srv/esp.img")
    assert sources.bootloader(booted_node()) == "file:///srv/esp.img"
    assert sources.bootloader(booted_node({"bootloader": "http://b/e"})) == "http://b/e"


@pytest.mark.parametrize("given", ["http://192.0.2.7:6385", "http://192.0.2.7:6385/v1/"])
def test_agents_are_told_where_the_api_is_without_its_version(conf: Any, given: str) -> None:
    with pytest.raises(errors.MissingParameter, match=r"\[service_catalog\]endpoint_override"):
        sources.api_url()
    conf.set_override("public_endpoint", "https://metal.example", group="api")
    assert sources.api_url() == "https://metal.example"
    conf.set_override("endpoint_override", given, group="service_catalog")
    assert sources.api_url() == "http://192.0.2.7:6385"


def test_agents_of_media_may_have_another_way_to_the_api(conf: Any) -> None:
    conf.set_override("external_callback_url", "https://metal.example:6385/", group="deploy")
    assert sources.api_url(media=True) == "https://metal.example:6385"
    with pytest.raises(errors.MissingParameter):
        sources.api_url()
    conf.set_override("public_endpoint", "http://192.0.2.7:6385", group="api")
    assert sources.api_url() == "http://192.0.2.7:6385"
    assert sources.api_url(media=True) == "https://metal.example:6385"


# -- the mode -------------------------------------------------------------------------------------


def says(mode: str) -> dict[str, Any]:
    return {"capabilities": f"a:b,boot_mode:{mode}"}


def test_the_mode_is_the_instances_then_the_machines_then_the_one_seen(conf: Any) -> None:
    conf.set_override("default_boot_mode", "bios", group="deploy")
    assert modes.wanted(booted_node()) == "bios"
    assert modes.wanted(booted_node(boot_mode="uefi")) == "uefi"
    assert modes.wanted(booted_node(boot_mode="uefi", properties=says("bios"))) == "bios"
    assert modes.wanted(booted_node(boot_mode="uefi", instance_info=says("bios"))) == "bios"


@pytest.mark.parametrize(
    "given",
    [{"boot_mode": "BIOS"}, '{"boot_mode": "bios"}', "boot_mode:bios"],
    ids=["object", "json", "text"],
)
def test_capabilities_come_in_three_forms(given: object) -> None:
    assert modes.wanted(booted_node(instance_info={"capabilities": given})) == "bios"


@pytest.mark.parametrize("given", [5, "boot_option:local", "{no json"])
def test_capabilities_that_say_nothing_of_it_leave_it_open(given: object) -> None:
    assert modes.wanted(booted_node(boot_mode="bios", properties={"capabilities": given})) == "bios"


def test_secure_boot_is_one_of_uefi(conf: Any) -> None:
    conf.set_override("default_boot_mode", "bios", group="deploy")
    assert (
        modes.wanted(booted_node(instance_info={"capabilities": {"secure_boot": "true"}})) == "uefi"
    )
    both = {"capabilities": {"secure_boot": "true", "boot_mode": "bios"}}
    with pytest.raises(errors.InvalidParameter, match="secure_boot needs boot_mode uefi"):
        modes.wanted(booted_node(instance_info=both))


def test_two_that_differ_are_not_chosen_between() -> None:
    with pytest.raises(errors.InvalidParameter, match="bios differs from the uefi of") as why:
        modes.wanted(booted_node(properties=says("uefi"), instance_info=says("bios")))
    assert why.value.facts["path"] == "instance_info/capabilities"


def test_a_mode_that_is_none_is_refused_where_it_stands() -> None:
    with pytest.raises(errors.InvalidParameter, match=r"^properties/capabilities: boot_mode 'cd'"):
        modes.wanted(booted_node(properties=says("cd")))


def test_an_iso_that_a_boot_interface_cannot_boot_is_refused_by_name() -> None:
    told = fake_task.node(instance_info={"boot_iso": "http://192.0.2.1/live.iso"})
    with pytest.raises(errors.InvalidParameter, match="redfish-virtual-media or ipxe") as why:
        sources.parts(told, sources.INSTANCE)
    assert why.value.facts["path"] == "instance_info/boot_iso"
    assert sources.parts(told, sources.INSTANCE, whole=True).iso == "http://192.0.2.1/live.iso"


# What a medium brings for its agent, besides kernel, ramdisk and their parameters.

BIOS = {"capabilities": "boot_mode:bios"}
CHANGED = ((None, "state_path"), (None, "isolinux_bin"), (None, "ldlinux_c32"))


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Kernel, ramdisk, loaders and an authority."""
    for name in ("kernel", "ramdisk", "isolinux.bin", "ldlinux.c32", "ca.pem"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
    conf = config.CONF
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("state_path", str(tmp_path / "state"))
    conf.set_override("isolinux_bin", str(tmp_path / "isolinux.bin"))
    conf.set_override("ldlinux_c32", str(tmp_path / "ldlinux.c32"))
    conf.set_override("file_url_allowed_paths", [str(tmp_path)], "conductor")
    yield tmp_path
    for group, name in (
        *CHANGED,
        ("conductor", "file_url_allowed_paths"),
        ("agent", "api_ca_file"),
    ):
        conf.clear_override(name, group)


def _files(folder: pathlib.Path, place: str) -> list[str]:
    """Return what the agent finds of its own on a medium."""
    task = FakeTask(node(properties=BIOS))
    kernel, ramdisk = ((folder / name).as_uri() for name in ("kernel", "ramdisk"))
    medium.make(task, sources.Parts(place, kernel=kernel, ramdisk=ramdisk), [], "media/n.iso")
    disc = pycdlib.PyCdlib()
    disc.open(str(published.root() / "media/n.iso"))
    listed = [f"{at}/{name}" for at, _, names in disc.walk(rr_path="/") for name in names]
    found = [name for name in listed if name.startswith("/etc/")]
    for name in found:
        out = io.BytesIO()
        disc.get_file_from_iso_fp(out, rr_path=name)
        expected = b"ca.pem" * 1000 if name.endswith(".pem") else b"[DEFAULT]\ncafile = "
        assert out.getvalue().startswith(expected)
    disc.close()
    return found


def test_loader_of_a_medium_names_the_second_ramdisk(folder: pathlib.Path) -> None:
    """For machines whose kernel does not see the medium."""
    for value, wanted in ((None, ["/initrd"]), ("ca.pem", ["/authority.cpio", "/initrd"])):
        if value:
            config.CONF.set_override("api_ca_file", str(folder / value), "agent")
        _files(folder, "driver_info/deploy_")
        image = (published.root() / "media/n.iso").read_bytes()
        (found,) = re.findall(rb"\n    INITRD (\S+)\n", image)
        assert found.decode().split(",") == wanted


def test_an_agent_is_given_whom_to_believe(folder: pathlib.Path) -> None:
    """A ramdisk of a distribution knows no authority of one's own."""
    assert _files(folder, "driver_info/deploy_") == []
    config.CONF.set_override("api_ca_file", str(folder / "ca.pem"), "agent")
    assert sorted(_files(folder, "driver_info/deploy_")) == [
        "/etc/ironic-python-agent.d/authority.conf",
        "/etc/ironic-python-agent/authority.pem",
    ]
    assert _files(folder, "instance_info/") == []


def test_an_authority_that_is_not_there_is_named(folder: pathlib.Path) -> None:
    config.CONF.set_override("api_ca_file", str(folder / "none.pem"), "agent")
    with pytest.raises(errors.LocalFileError, match=r"none\.pem.*api_ca_file"):
        _files(folder, "driver_info/deploy_")


# The texts of boot loaders: each finds its kernel, its ramdisk and every word.

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
    longest = ["x" * loaders.LONGEST_LINE]
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
    assert "chain --autofree pxelinux.cfg/${mac:hexhyp} && goto disk ||\n" in text
    assert "chain --autofree pxelinux.cfg/${net${n}/mac:hexhyp} && goto disk ||\n" in text
    assert text.count("chain ") == 2


def test_boot_ipxe_tries_the_fallback_after_all_cards() -> None:
    lines = loaders.ipxe_entry("inspector.ipxe").splitlines()
    at = lines.index("chain --autofree inspector.ipxe && goto disk ||")
    assert lines[at - 1] == ":none"
    assert lines[-2] == ":disk"
    assert lines[-1].startswith("iseq ${platform} efi && exit 1 || sanboot ")
    assert loaders.ipxe_disk("x").splitlines() == ["#!ipxe", "# /x/", "exit"]


# The kernel command line: what is said, in which order, and what cannot be said.

DEFAULT = "nofb vga=normal"


def test_our_own_parameters_come_first_and_none_is_left_out() -> None:
    own = {"ipa-api-url": "http://192.0.2.1:6385", "BOOTIF": None, "ipa-debug": "1"}
    assert loaders.kernel_words(own, DEFAULT) == [
        "ipa-api-url=http://192.0.2.1:6385",
        "ipa-debug=1",
        "nofb",
        "vga=normal",
    ]


def test_the_instance_comes_before_the_node_and_that_before_the_configuration() -> None:
    node = fake_task.node()
    assert loaders.operator_parameters(node, DEFAULT) == DEFAULT
    node.driver_info = {"kernel_append_params": "console=ttyS0"}
    assert loaders.operator_parameters(node, DEFAULT) == "console=ttyS0"
    node.instance_info = {"kernel_append_params": "quiet %default%"}
    assert loaders.operator_parameters(node, DEFAULT) == "quiet nofb vga=normal"


def test_nothing_at_all_can_be_added() -> None:
    node = fake_task.node(driver_info={"kernel_append_params": ""})
    assert loaders.operator_parameters(node, DEFAULT) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (True, "must be a string, not bool"),
        ("a\nb", "one line of printable"),
        ("a\tb", "one line of printable"),
        ("köln", "one line of printable"),
        ("x" * 1952, "has 1952 characters"),
        ("quiet ; reboot", "';' would end the line"),
        ("quiet && shell", "'&&' would end the line"),
        ("quiet #", "'#' would end the line"),
    ],
    ids=["boolean", "line", "tab", "umlaut", "long", "semicolon", "and", "comment"],
)
def test_invalid_kernel_parameter_is_refused_by_its_place(text: object, said: str) -> None:
    node = fake_task.node(driver_info={"kernel_append_params": text})
    with pytest.raises(
        errors.InvalidParameter, match=r"^driver_info/kernel_append_params: "
    ) as why:
        loaders.operator_parameters(node, DEFAULT)
    assert said in why.value.message


@pytest.mark.parametrize("value", ["a b", "a\nb", "é"], ids=["space", "line", "accent"])
def test_a_value_of_ours_is_one_word(value: str) -> None:
    with pytest.raises(errors.InvalidParameter, match=r"^ipa-api-url: must be one printable word"):
        loaders.kernel_words({"ipa-api-url": value}, "")


def test_a_line_that_is_too_long_as_a_whole_is_refused() -> None:
    with pytest.raises(errors.InvalidParameter, match="has 1952 characters; a kernel reads 1951"):
        loaders.kernel_words({"a": "x" * 1000}, "y" * 949)
    assert loaders.kernel_words({"a": "x" * 1000}, "y" * 948)


def test_the_card_is_named_where_there_is_but_one() -> None:
    assert loaders.bootif(["52:54:00:AA:bb:cc"]) == "01-52-54-00-aa-bb-cc"
    assert loaders.bootif([]) is None
    assert loaders.bootif(["52:54:00:aa:bb:cc", "52:54:00:aa:bb:cd"]) is None


# A conductor that has lost a node leaves the files alone that its machine boots from.


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    config.CONF.set_override("http_root", str(tmp_path), group="deploy")
    yield tmp_path
    config.CONF.clear_override("http_root", group="deploy")


def test_files_of_a_node_that_was_lost_stay(root: pathlib.Path) -> None:
    task = expiring_locks.LeasedTask(fake_task.node(), answers=0)
    uuid = task.node.uuid
    files = [root / uuid / "kernel", root / medium.FOLDER / f"{uuid}-x.iso", root / "image"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("another conductor's")
    task.keep(images.SERVED_NAME, "image")
    for act in (network.IPXEBoot().clean_up_ramdisk, medium.remove, images.remove):
        with pytest.raises(errors.LockLost):
            act(task)
    assert all(file.exists() for file in files)
