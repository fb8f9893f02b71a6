"""Files of machines go when their node means them no more, and not before."""

from __future__ import annotations

import datetime
import os
import pathlib
import uuid
from collections.abc import Iterator

import pytest

from ironic_lite.conductor.watch import file_cleanup
from ironic_lite.core import clock, config
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import ports
from ironic_lite.drivers.boot import dnsmasq, loaders
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.images import node_files as files
from ironic_lite.images import published
from ironic_lite.membership import ring
from tests.support import conductor_fixture
from tests.support.statements import count_statements

GONE = "6e0b0a1e-1d6b-4f0a-9d4e-0123456789ab"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """``[deploy]http_root``."""
    config.CONF.set_override("http_root", str(tmp_path / "http"), group="deploy")
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    yield tmp_path / "http"
    config.CONF.clear_override("http_root", group="deploy")
    config.CONF.clear_override("state_path")


@pytest.fixture
def conductor(sqlite_database: Database) -> Iterator[conductor_fixture.ConductorFixture]:
    made = conductor_fixture.build(
        sqlite_database, Registry.load(Settings.read(conductor_fixture.configure()))
    )
    yield made
    made.bury()


@pytest.fixture
def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are old enough."""
    monkeypatch.setattr(file_cleanup, "OLD_SECONDS", -60.0)


def sweep(conductor: conductor_fixture.ConductorFixture) -> None:
    conductor.sweep("old files")


def medium(root: pathlib.Path, node: str, folder: str = "media") -> pathlib.Path:
    file = root / folder / published.secret_name(node, ".iso" if folder == "media" else "")
    published.write(file, "ipa-agent-token=...")
    return file


@pytest.mark.parametrize("folder", ["media", "images"])
def test_of_media_and_images_those_stay_that_their_node_means(
    conductor: conductor_fixture.ConductorFixture, root: pathlib.Path, aged: None, folder: str
) -> None:
    other = medium(root, "11111111-1d6b-4f0a-9d4e-0123456789ab", folder)
    node = conductor.node("available")
    old = medium(root, node, folder)
    meant = medium(root, node, folder)
    conductor.edit(node, driver_internal_info={"driver_notes": {"x": f"{folder}/{meant.name}"}})
    sweep(conductor)
    assert [file.exists() for file in (other, old, meant)] == [False, False, True]


def test_while_somebody_works_on_a_node_its_files_stay(
    conductor: conductor_fixture.ConductorFixture, root: pathlib.Path, aged: None
) -> None:
    """A medium is made before it is noted."""
    node = conductor.node("available")
    made = medium(root, node)
    with conductor.tasks.lock(conductor.who, node):
        sweep(conductor)
        assert made.exists()
    sweep(conductor)
    assert not made.exists()


def test_young_files_stay(
    conductor: conductor_fixture.ConductorFixture, root: pathlib.Path
) -> None:
    """Also if what it is a name for is old."""
    made = medium(root, GONE)
    os.utime(made, (1, 1))
    part = root / "media/.new-1"
    part.write_text("x")
    sweep(conductor)
    assert made.exists()
    assert part.exists()


def test_file_of_a_clock_that_was_ahead_goes_an_hour_after_the_first_look(
    conductor: conductor_fixture.ConductorFixture,
    root: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel sets the time of a change, so the test sets the clock back by two years."""
    made, passed = medium(root, GONE), [0.0]

    def wall() -> datetime.datetime:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        return now + datetime.timedelta(days=-730, seconds=passed[0])

    monkeypatch.setattr(clock, "_CLOCK", clock.Clock(wall, lambda: clock.steady() + passed[0]))
    sweep(conductor)
    passed[0] += 3500
    sweep(conductor)
    assert made.exists()
    passed[0] += 200
    sweep(conductor)
    assert not made.exists()


def test_of_a_node_that_is_no_more_all_goes(
    conductor: conductor_fixture.ConductorFixture, root: pathlib.Path, aged: None
) -> None:
    """Scripts are told by what they lead to; those of others, and everybody's, stay."""
    here = conductor.node("clean wait")
    for number, node in enumerate((GONE, here)):
        for part in ("kernel", "ramdisk"):
            published.write(root / node / part, part)
        base = f"http://192.0.2.1:8080/{node}"
        script = loaders.ipxe(f"{base}/kernel", f"{base}/ramdisk", ["a=b"])
        published.write(root / f"pxelinux.cfg/52-54-00-aa-00-0{number}", script)
    published.write(root / "boot.ipxe", loaders.ipxe_entry())
    published.write(root / "others/file", GONE)
    sweep(conductor)
    left = sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())
    names = ["boot.ipxe", "others/file", "pxelinux.cfg/52-54-00-aa-00-01"]
    assert left == sorted([*names, f"{here}/kernel", f"{here}/ramdisk"])


def test_tftp_files_of_a_deleted_node_go_and_those_of_other_services_stay(
    conductor: conductor_fixture.ConductorFixture,
    root: pathlib.Path,
    aged: None,
    tmp_path: pathlib.Path,
) -> None:
    here, node, deleted = tmp_path / "tftp", conductor.node("available"), conductor.node()
    conductor.ask("destroy_node", deleted)
    config.CONF.set_override("tftp_root", str(here), group="pxe")
    common = [here / "grub" / "grub.cfg", here / "pxelinux.0", here / "other.conf"]
    found: dict[str, list[pathlib.Path]] = {}
    for number, uuid_ in enumerate((deleted, node, GONE)):
        card = f"52:54:00:00:00:0{number}"
        parts = [here / uuid_ / "kernel", here / uuid_ / "ramdisk"]
        dashed = card.replace(":", "-")
        scripts = [here / f"{card}.conf", here / "pxelinux.cfg" / f"01-{dashed}"]
        for file in parts:
            published.write(file, "x")
        published.write(scripts[0], loaders.grub(f"/{uuid_}/kernel", f"/{uuid_}/ramdisk", []))
        published.write(scripts[1], loaders.syslinux(f"/{uuid_}/kernel", f"/{uuid_}/ramdisk", []))
        found[uuid_] = [*parts, *scripts]
    for file in common:
        published.write(file, "text")
    try:
        sweep(conductor)
    finally:
        config.CONF.clear_override("tftp_root", group="pxe")
    assert not any(file.exists() for file in found[deleted])
    assert all(file.exists() for file in (*found[node], *found[GONE], *common))


def test_tftp_files_of_other_services_cost_no_statement_each(
    conductor: conductor_fixture.ConductorFixture,
    root: pathlib.Path,
    aged: None,
    tmp_path: pathlib.Path,
) -> None:
    config.CONF.set_override("tftp_root", str(tmp_path / "tftp"), group="pxe")
    counts = []
    try:
        for count in (1, 20):
            for _ in range(count):
                published.write(tmp_path / "tftp" / str(uuid.uuid4()) / "kernel", "x")
            with count_statements(conductor.database) as sent:
                sweep(conductor)
            counts.append(len(sent))
    finally:
        config.CONF.clear_override("tftp_root", group="pxe")
    assert counts[0] == counts[1]


def test_unfinished_files_are_removed(
    conductor: conductor_fixture.ConductorFixture, root: pathlib.Path, aged: None
) -> None:
    state = pathlib.Path(config.CONF.state_path)
    parts = [root / "media/.new-a", root / ".new-b", state / "downloads/.new-c"]
    parts += [state / "media-bases/.new-d", state / "agent-logs/.new-e"]
    kept = [
        state / "agent-logs/node.tar.gz",
        state / "downloads/abc",
        state / "downloads/abc.json",
        state / "media-bases/x.iso",
    ]
    for file in (*parts, *kept):
        published.write(file, "x")
    sweep(conductor)
    assert not any(file.exists() for file in parts)
    assert all(file.exists() for file in kept)


def test_a_file_that_was_written_anew_meanwhile_stays(root: pathlib.Path) -> None:
    """A conductor of this machine may be booting the node just now."""
    file = root / GONE / "kernel"
    published.write(file, "old")
    (left,) = files.of_nodes(float("inf"))
    published.write(file, "new")
    assert not files.remove(left)
    assert file.read_text() == "new"
    (left,) = files.of_nodes(float("inf"))
    assert files.remove(left)
    assert not file.parent.exists()


def test_a_folder_that_is_not_there_is_not_made(
    conductor: conductor_fixture.ConductorFixture, root: pathlib.Path
) -> None:
    sweep(conductor)
    assert not root.exists()


# -- dnsmasq ---------------------------------------------------------------------------------------

CARD = "52:54:00:aa:00:01"


@pytest.fixture
def hosts(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """The folder of dhcp-hostsdir; that of dhcp-optsdir is beside it."""
    conf, folder = config.CONF, root.parent / "hosts"
    conf.set_override("dhcp_provider", "dnsmasq", group="dhcp")
    conf.set_override("dhcp_hostsdir", str(folder), group="dnsmasq")
    conf.set_override("dhcp_optsdir", str(root.parent / "options"), group="dnsmasq")
    yield folder
    conf.clear_override("dhcp_provider", group="dhcp")
    for name in ("dhcp_hostsdir", "dhcp_optsdir"):
        conf.clear_override(name, group="dnsmasq")


def card(conductor: conductor_fixture.ConductorFixture, node: str) -> None:
    port = {"uuid": str(uuid.uuid4()), "address": CARD, "node_uuid": node, "pxe_enabled": True}
    conductor.database.write(lambda conn: ports.insert(conn, port))


def said(hosts: pathlib.Path) -> str | None:
    """Return what dnsmasq is told of the card, None for nothing."""
    file = hosts / f"ironic-{CARD}.conf"
    return file.read_text() if file.exists() else None


def invited(hosts: pathlib.Path, node: str) -> pathlib.Path:
    """Lead the card to a loader; return the file of its node's options."""
    options = hosts.parent / "options" / f"ironic-{node}.conf"
    published.write(options, dnsmasq.option_lines(node, {"": "snponly.efi"}, "192.0.2.1"))
    published.write(hosts / f"ironic-{CARD}.conf", dnsmasq.host_line(CARD, node))
    return options


IGNORED = dnsmasq.ignored_line(CARD)


def test_a_card_is_ignored_while_a_node_has_it_and_forgotten_with_its_port(
    conductor: conductor_fixture.ConductorFixture,
    hosts: pathlib.Path,
    aged: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = conductor.node("available")
    card(conductor, node)
    published.write(hosts / f"ironic-{CARD}.conf", IGNORED)
    others = hosts / "others.conf"
    others.write_text("52:54:00:aa:00:09,ignore\n")
    sweep(conductor)
    assert said(hosts) == IGNORED
    host = conductor.tasks.runtime.host
    monkeypatch.setattr(
        ring.Ring, "owner", lambda *_: f"{host}:2"
    )  # one more process of this machine
    sweep(conductor)
    assert said(hosts) == IGNORED
    monkeypatch.setattr(ring.Ring, "owner", lambda *_: f"{host}-2")  # another machine has it now
    sweep(conductor)
    assert (said(hosts), others.exists()) == (None, True)


def test_dhcp_host_file_stays_while_its_node_boots_and_goes_in_two_steps(
    conductor: conductor_fixture.ConductorFixture, hosts: pathlib.Path, aged: None
) -> None:
    """dnsmasq remembers what a file said that is gone, so the card is ignored first."""
    node = conductor.node("clean wait")
    card(conductor, node)
    options = invited(hosts, node)
    lead = said(hosts)
    conductor.edit(node, driver_internal_info={"driver_notes": {"network_boot": {"mode": "x"}}})
    sweep(conductor)
    assert (said(hosts), options.exists()) == (lead, True)
    conductor.edit(node, driver_internal_info={})
    with conductor.tasks.lock(conductor.who, node):
        sweep(conductor)
        assert (said(hosts), options.exists()) == (lead, True)
    sweep(conductor)
    assert (said(hosts), options.exists()) == (IGNORED, False)


@pytest.mark.parametrize("moved", [False, True], ids=["deleted", "its card is another node's"])
def test_a_card_is_not_led_for_a_node_that_has_it_no_more(
    conductor: conductor_fixture.ConductorFixture, hosts: pathlib.Path, aged: None, moved: bool
) -> None:
    node = GONE
    if moved:
        node = conductor.node(
            "clean wait", driver_internal_info={"driver_notes": {"network_boot": {}}}
        )
        card(conductor, conductor.node("available"))
    options = invited(hosts, node)
    sweep(conductor)
    assert (said(hosts), options.exists()) == (IGNORED, moved)
    sweep(conductor)
    assert said(hosts) == (IGNORED if moved else None)


def test_recent_dhcp_files_stay(
    conductor: conductor_fixture.ConductorFixture, hosts: pathlib.Path
) -> None:
    options = invited(hosts, GONE)
    sweep(conductor)
    assert (said(hosts), options.exists()) == (dnsmasq.host_line(CARD, GONE), True)


def test_files_of_another_dhcp_server_are_nobodys(
    conductor: conductor_fixture.ConductorFixture, hosts: pathlib.Path, aged: None
) -> None:
    options = invited(hosts, GONE)
    config.CONF.set_override("dhcp_provider", "none", group="dhcp")
    sweep(conductor)
    assert (said(hosts), options.exists()) == (dnsmasq.host_line(CARD, GONE), True)


def test_shared_copy_goes_when_no_node_has_used_it_for_a_day(
    conductor: conductor_fixture.ConductorFixture,
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("used", "unused"):
        source = tmp_path / name
        source.write_text(name)
        source.chmod(0o600)  # others cannot read it, so it is copied
        published.place(source, root / conductor.node("deploying") / name)
    (unused,) = (path for path in root.glob("*/unused"))
    published.remove(unused)
    copies = root / ".shared"
    sweep(conductor)
    assert len(list(copies.iterdir())) == 2
    monkeypatch.setattr(file_cleanup, "OLD_SECONDS", -86400.0 - 60.0)
    sweep(conductor)
    assert [copy.read_text() for copy in copies.iterdir()] == ["used"]
