"""Where ramdisks come from, and in which mode a machine boots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import modes, sources
from tests.support import fake_task

KERNEL, RAMDISK = "http://files.example/kernel", "http://files.example/ramdisk"
OWN = {"deploy_kernel": KERNEL, "deploy_ramdisk": RAMDISK}


@pytest.fixture(autouse=True)
def conf() -> Iterator[Any]:
    """The configuration, restored afterwards."""
    yield config.CONF
    config.CONF.clear_override("default_boot_mode", group="deploy")
    config.CONF.clear_override("endpoint_override", group="service_catalog")
    config.CONF.clear_override("public_endpoint", group="api")
    for name in ("deploy_kernel", "deploy_ramdisk", "rescue_kernel", "rescue_ramdisk"):
        config.CONF.clear_override(name, group="conductor")
        config.CONF.clear_override(f"{name}_by_arch", group="conductor")
    for name in ("bootloader", "bootloader_by_arch"):
        config.CONF.clear_override(name, group="conductor")


def give(conf: Any, **values: Any) -> None:
    for name, value in values.items():
        conf.set_override(name, value, group="conductor")


def node(info: dict[str, Any] | None = None, **values: Any) -> Any:
    return fake_task.node(driver_info=info or {}, **values)


# -- where from -----------------------------------------------------------------------------------


def test_the_node_comes_first_then_its_architecture_then_all_machines(conf: Any) -> None:
    give(conf, deploy_kernel="http://c/k", deploy_ramdisk="http://c/r")
    found = sources.parts(node(), "deploy")
    assert (found.kernel, found.ramdisk) == ("http://c/k", "http://c/r")
    assert found.place == "[conductor]deploy_"
    give(conf, deploy_kernel_by_arch={"aarch64": "http://a/k"})
    give(conf, deploy_ramdisk_by_arch={"aarch64": "http://a/r"})
    arm = node(properties={"cpu_arch": "aarch64"})
    assert sources.parts(arm, "deploy").kernel == "http://a/k"
    assert sources.parts(node(properties={"cpu_arch": "x86_64"}), "deploy").kernel == "http://c/k"
    arm.driver_info = OWN
    found = sources.parts(arm, "deploy")
    assert (found.kernel, found.ramdisk, found.place) == (KERNEL, RAMDISK, "driver_info/deploy_")


def test_a_nodes_kernel_does_not_meet_the_ramdisk_of_another(conf: Any) -> None:
    give(conf, deploy_kernel="http://c/k", deploy_ramdisk="http://c/r")
    with pytest.raises(errors.MissingParameter) as why:
        sources.parts(node({"deploy_kernel": KERNEL}), "deploy")
    assert "driver_info/deploy_ramdisk" in why.value.message
    assert "driver_info/deploy_kernel" not in why.value.message


@pytest.mark.parametrize("mode", base.RAMDISKS)
def test_all_that_is_missing_is_named_at_once(mode: str) -> None:
    prefix = {"rescue": "rescue"}.get(mode, "deploy")
    with pytest.raises(errors.MissingParameter) as why:
        sources.parts(node(), mode)
    for name in (f"{prefix}_kernel", f"{prefix}_ramdisk"):
        assert f"driver_info/{name}" in why.value.message
        assert f"[conductor]{name}" in why.value.message
    assert "_iso" not in why.value.message


def test_a_whole_image_comes_before_its_parts_where_it_can_be_booted() -> None:
    info = {**OWN, "deploy_iso": "https://files.example/a.iso"}
    assert sources.parts(node(info), "deploy", whole=True).iso == "https://files.example/a.iso"
    assert sources.parts(node(info), "deploy").iso is None
    with pytest.raises(errors.MissingParameter, match="or driver_info/rescue_iso"):
        sources.parts(node(info), "rescue", whole=True)


def test_a_rescue_has_parts_of_its_own() -> None:
    info = {**OWN, "rescue_kernel": "http://r/k", "rescue_ramdisk": "http://r/r"}
    assert sources.parts(node(info), "rescue").kernel == "http://r/k"
    assert sources.parts(node(info), "inspect").kernel == KERNEL


@pytest.mark.parametrize(
    "url",
    ["ftp://files.example/k", "k", "http:///k", 7, "http://a b/"],
    ids=["scheme", "relative", "no-host", "number", "space"],
)
def test_invalid_url_is_refused_by_its_key(url: object) -> None:
    with pytest.raises(errors.InvalidParameter, match=r"^driver_info/deploy_kernel: "):
        sources.parts(node({**OWN, "deploy_kernel": url}), "deploy")
    with pytest.raises(errors.InvalidParameter, match=r"^driver_info/deploy_iso: "):
        sources.check({"deploy_iso": url}, tuple(sources.MEDIA))


def test_the_boot_loader_is_found_as_the_ramdisk_is(conf: Any) -> None:
    with pytest.raises(errors.MissingParameter, match=r"driver_info/bootloader .*\[conductor\]"):
        sources.bootloader(node())
    give(conf, bootloader="file:///srv/esp.img")
    assert sources.bootloader(node()) == "file:///srv/esp.img"
    assert sources.bootloader(node({"bootloader": "http://b/e"})) == "http://b/e"


@pytest.mark.parametrize("given", ["http://192.0.2.7:6385", "http://192.0.2.7:6385/v1/"])
def test_agents_are_told_where_the_api_is_without_its_version(conf: Any, given: str) -> None:
    with pytest.raises(errors.MissingParameter, match=r"\[service_catalog\]endpoint_override"):
        sources.api_url()
    conf.set_override("public_endpoint", "https://metal.example", group="api")
    assert sources.api_url() == "https://metal.example"
    conf.set_override("endpoint_override", given, group="service_catalog")
    assert sources.api_url() == "http://192.0.2.7:6385"


# -- the mode -------------------------------------------------------------------------------------


def says(mode: str) -> dict[str, Any]:
    return {"capabilities": f"a:b,boot_mode:{mode}"}


def test_the_mode_is_the_instances_then_the_machines_then_the_one_seen(conf: Any) -> None:
    conf.set_override("default_boot_mode", "bios", group="deploy")
    assert modes.wanted(node()) == "bios"
    assert modes.wanted(node(boot_mode="uefi")) == "uefi"
    assert modes.wanted(node(boot_mode="uefi", properties=says("bios"))) == "bios"
    assert modes.wanted(node(boot_mode="uefi", instance_info=says("bios"))) == "bios"


@pytest.mark.parametrize(
    "given",
    [{"boot_mode": "BIOS"}, '{"boot_mode": "bios"}', "boot_mode:bios"],
    ids=["object", "json", "text"],
)
def test_capabilities_come_in_three_forms(given: object) -> None:
    assert modes.wanted(node(instance_info={"capabilities": given})) == "bios"


@pytest.mark.parametrize("given", [5, "boot_option:local", "{no json"])
def test_capabilities_that_say_nothing_of_it_leave_it_open(given: object) -> None:
    assert modes.wanted(node(boot_mode="bios", properties={"capabilities": given})) == "bios"


def test_secure_boot_is_one_of_uefi(conf: Any) -> None:
    conf.set_override("default_boot_mode", "bios", group="deploy")
    assert modes.wanted(node(instance_info={"capabilities": {"secure_boot": "true"}})) == "uefi"
    both = {"capabilities": {"secure_boot": "true", "boot_mode": "bios"}}
    with pytest.raises(errors.InvalidParameter, match="secure_boot needs boot_mode uefi"):
        modes.wanted(node(instance_info=both))


def test_two_that_differ_are_not_chosen_between() -> None:
    with pytest.raises(errors.InvalidParameter, match="bios differs from the uefi of") as why:
        modes.wanted(node(properties=says("uefi"), instance_info=says("bios")))
    assert why.value.facts["path"] == "instance_info/capabilities"


def test_a_mode_that_is_none_is_refused_where_it_stands() -> None:
    with pytest.raises(errors.InvalidParameter, match=r"^properties/capabilities: boot_mode 'cd'"):
        modes.wanted(node(properties=says("cd")))


def test_an_iso_that_a_boot_interface_cannot_boot_is_refused_by_name() -> None:
    told = fake_task.node(instance_info={"boot_iso": "http://192.0.2.1/live.iso"})
    with pytest.raises(errors.InvalidParameter, match="redfish-virtual-media or ipxe") as why:
        sources.parts(told, sources.INSTANCE)
    assert why.value.facts["path"] == "instance_info/boot_iso"
    assert sources.parts(told, sources.INSTANCE, whole=True).iso == "http://192.0.2.1/live.iso"
