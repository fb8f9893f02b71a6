"""Networks of a node in our ramdisk: files for systemd-networkd, and the medium that has them."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType
from typing import Any

import pytest

from ironic_lite.images import iso

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/ramdisk/network_data.py"
PUBLISHER = "6e0b0a1e-1d6b-4f0a-9d4e-0123456789ab"
CARD: dict[str, Any] = {
    "id": "card",
    "type": "phy",
    "ethernet_mac_address": "52-54-00-AA-00-01",
    "mtu": 9000,
}
OTHER = {**CARD, "id": "other", "ethernet_mac_address": "52:54:00:aa:00:02", "mtu": None}
BOND = {
    "id": "bond",
    "type": "bond",
    "ethernet_mac_address": "52:54:00:aa:00:01",
    "bond_mode": "802.3ad",
    "bond_miimon": 100,
    "bond_links": ["card", "other"],
}
VLAN = {
    "id": "vlan",
    "type": "vlan",
    "vlan_mac_address": "52:54:00:aa:00:01",
    "vlan_link": "bond",
    "vlan_id": 101,
}
STATIC: dict[str, Any] = {
    "id": "static",
    "type": "ipv4",
    "link": "card",
    "ip_address": "192.0.2.7",
    "netmask": "255.255.255.0",
    "routes": [
        {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"},
        {"network": "198.51.100.0", "netmask": "255.255.255.0", "gateway": "192.0.2.2"},
    ],
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("network_data", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def data(links: list[Any], networks: list[Any], services: Any = ()) -> dict[str, Any]:
    return {"links": links, "networks": networks, "services": [*services]}


def test_card_gets_its_address_and_routes(script: ModuleType) -> None:
    assert script.files(data([CARD], [STATIC])) == {
        "10-link0.network": (
            "[Match]\nPermanentMACAddress=52:54:00:aa:00:01\n[Link]\nMTUBytes=9000\n"
            "[Network]\nDHCP=no\nIPv6AcceptRA=no\n"
            "[Address]\nAddress=192.0.2.7/24\n"
            "[Route]\nGateway=192.0.2.1\nDestination=0.0.0.0/0\n"
            "[Route]\nGateway=192.0.2.2\nDestination=198.51.100.0/24\n"
        )
    }


@pytest.mark.parametrize(
    ("types", "lines"),
    [
        (["ipv4_dhcp"], "DHCP=ipv4\nIPv6AcceptRA=no\n"),
        (["ipv6_dhcpv6-stateful"], "DHCP=ipv6\nIPv6AcceptRA=yes\n"),
        (["ipv4_dhcp", "ipv6_dhcp"], "DHCP=yes\nIPv6AcceptRA=yes\n"),
        (["ipv6_slaac"], "DHCP=no\nIPv6AcceptRA=yes\n"),
        ([], "DHCP=no\nIPv6AcceptRA=no\n"),
    ],
)
def test_addresses_may_come_from_servers(script: ModuleType, types: list[str], lines: str) -> None:
    networks = [{"id": kind, "type": kind, "link": "card"} for kind in types]
    found = script.files(data([CARD], networks))["10-link0.network"]
    assert lines in found
    assert ("KeepConfiguration=dhcp" in found) is ("DHCP=no" not in found)


@pytest.mark.parametrize(
    "given",
    [
        {"ip_address": "2001:db8::7", "netmask": "ffff:ffff:ffff:ffff::"},
        {"ip_address": "2001:db8::7", "netmask": "64"},
        {"ip_address": "2001:db8::7/64"},
    ],
)
def test_prefix_of_ipv6_has_three_forms(script: ModuleType, given: dict[str, Any]) -> None:
    network = {"id": "six", "type": "ipv6", "link": "card", "gateway": "2001:db8::1", **given}
    found = script.files(data([CARD], [network]))["10-link0.network"]
    assert found.endswith("[Address]\nAddress=2001:db8::7/64\n[Route]\nGateway=2001:db8::1\n")


def test_vlan_on_a_bond_of_two_cards(script: ModuleType) -> None:
    found = script.files(data([CARD, OTHER, BOND, VLAN], [{**STATIC, "link": "vlan"}]))
    assert found["10-link0.network"].endswith("[Network]\nBond=link2\n")
    assert found["10-link1.network"] == (
        "[Match]\nPermanentMACAddress=52:54:00:aa:00:02\n[Network]\nBond=link2\n"
    )
    assert found["10-link2.netdev"] == (
        "[NetDev]\nName=link2\nKind=bond\nMACAddress=52:54:00:aa:00:01\n"
        "[Bond]\nMode=802.3ad\nMIIMonitorSec=100ms\n"
    )
    assert found["10-link2.network"] == (
        "[Match]\nName=link2\n[Network]\nVLAN=link3\nDHCP=no\nIPv6AcceptRA=no\n"
    )
    assert found["10-link3.netdev"].endswith(
        "Kind=vlan\nMACAddress=52:54:00:aa:00:01\n[VLAN]\nId=101\n"
    )
    assert "Address=192.0.2.7/24" in found["10-link3.network"]


def test_name_servers_are_found_in_both_places(script: ModuleType) -> None:
    dns = [{"type": "dns", "address": "192.0.2.53"}, {"type": "ntp", "address": "192.0.2.123"}]
    networks = [{**STATIC, "services": [{"type": "dns", "address": "2001:db8::53"}, dns[0]]}]
    assert script.nameservers(data([], networks, dns)) == ["192.0.2.53", "2001:db8::53"]


# -- the program ------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A machine with an empty drive, booted from a medium."""
    found = tmp_path / "root"
    for folder in ("dev", "proc", "etc", "sys/class/block/sda", "sys/class/block/sr0"):
        (found / folder).mkdir(parents=True)
    (found / "sys/class/block/gone").mkdir()
    (found / "dev/sda").write_bytes(b"")
    boot(found, PUBLISHER)
    return found


def boot(root: pathlib.Path, publisher: str) -> None:
    words = f"BOOT_IMAGE=/vmlinuz quiet boot_method=vmedia ir_pub_id={publisher}"
    (root / "proc/cmdline").write_text(f"{words}\n")


def insert(root: pathlib.Path, networks: Any, device: str = "sr0") -> None:
    """Put a medium of the service into a drive."""
    kernel, ramdisk, loader = (root.parent / name for name in ("kernel", "ramdisk", "esp"))
    for part in (kernel, ramdisk, loader):
        part.write_bytes(part.name.encode() * 512)
    recipe = iso.Recipe(kernel, ramdisk, loader, networked=networks is not None)
    padded = None if networks is None else iso.networks_file(networks)
    bases = iso.Bases(root.parent / "bases", 100)
    bases.make(recipe, root / "dev" / device, "text", PUBLISHER, padded)


def configured(root: pathlib.Path) -> dict[str, str]:
    folder = root / "run/systemd/network"
    return {path.name: path.read_text() for path in folder.glob("*")}


def test_medium_of_the_service_configures_the_ramdisk(
    script: ModuleType, root: pathlib.Path
) -> None:
    given = data([CARD], [STATIC], [{"type": "dns", "address": "192.0.2.53"}])
    insert(root, given)
    assert script.main(root, 1) == 0
    assert configured(root) == script.files(given)
    assert (root / "etc/resolv.conf").read_text() == "nameserver 192.0.2.53\n"


def test_medium_of_another_publisher_is_not_read(script: ModuleType, root: pathlib.Path) -> None:
    insert(root, data([CARD], [STATIC]))
    for publisher in ("00000000-1d6b-4f0a-9d4e-0123456789ab", ""):
        boot(root, publisher)
        assert (script.main(root, 1), configured(root)) == (0, {})


@pytest.mark.parametrize("networks", [None, {}])
def test_medium_without_networks_leaves_dhcp(
    script: ModuleType, root: pathlib.Path, networks: Any
) -> None:
    insert(root, networks)
    assert (script.main(root, 1), configured(root)) == (0, {})


def test_medium_may_come_late(
    script: ModuleType, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = data([CARD], [STATIC])
    monkeypatch.setattr(script.time, "sleep", lambda _seconds: insert(root, given))
    assert script.main(root, 2) == 0
    assert configured(root) == script.files(given)


@pytest.mark.parametrize(
    "given",
    [
        data([{**CARD, "ethernet_mac_address": "x\n[Link]\nUnmanaged=yes"}], []),
        data([CARD, {**BOND, "bond_mode": "802.3ad\n[NetDev]"}], []),
        data([CARD], [{**STATIC, "ip_address": "192.0.2.7\nDHCP=yes"}]),
        data([CARD], [{**STATIC, "routes": [{"gateway": "here"}]}]),
        data([{"type": "phy"}], []),
        data([CARD, {**VLAN, "vlan_id": "1\n[Match]"}], []),
        {"links": 5},
        {"links": [5]},
    ],
)
def test_data_that_cannot_be_used_leave_dhcp(
    script: ModuleType, root: pathlib.Path, given: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    insert(root, given)
    assert (script.main(root, 1), configured(root)) == (1, {})
    assert "network_data cannot be used, DHCP on all cards" in capsys.readouterr().out


def test_files_that_cannot_all_be_written_leave_dhcp(
    script: ModuleType, root: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    insert(root, data([CARD], [STATIC], services=[{"type": "dns", "address": "192.0.2.1"}]))
    (root / script.RESOLVER).mkdir(parents=True)
    assert (script.main(root, 1), configured(root)) == (1, {})
    assert "DHCP on all cards: IsADirectoryError" in capsys.readouterr().out


def test_broken_medium_is_no_medium(script: ModuleType, root: pathlib.Path) -> None:
    insert(root, data([CARD], [STATIC]))
    whole = (root / "dev/sr0").read_bytes()
    begin = whole.index(b'{"links"')
    for size in (16 * 2048 + 400, 17 * 2048, 20 * 2048, 24 * 2048 + 40, begin + 30):
        (root / "dev/sr0").write_bytes(whole[:size])
        assert script.main(root, 1) in (0, 1)
        assert configured(root) == {}
