"""Files of machines: found at a new conductor, and removed when no node needs them."""

from __future__ import annotations

import datetime
import os
import pathlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors, membership
from ironic_lite.conductor.watch import local_state
from ironic_lite.core import clock, config
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import holds, ports
from ironic_lite.drivers.boot import loaders, network
from ironic_lite.drivers.fake.hardware import FakeConsole
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.images import published
from tests.support import conductor_fixture
from tests.support.statements import count_statements
from tests.support.thread_limit import no_new_threads

# A node that came from another conductor finds its boot files at the new one.

OPTIONS: dict[str, Any] = {"DEFAULT__enabled_boot_interfaces": ["fake", "ipxe"]}


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """``[deploy]http_root`` of the one conductor of this process."""
    given = {
        ("deploy", "http_root"): str(tmp_path / "http"),
        ("deploy", "http_url"): "http://192.0.2.1:8080",
        ("service_catalog", "endpoint_override"): "http://192.0.2.1:6385",
        ("conductor", "file_url_allowed_paths"): [str(tmp_path)],
    }
    for (group, name), value in given.items():
        config.CONF.set_override(name, value, group=group)
    yield tmp_path / "http"
    for group, name in given:
        config.CONF.clear_override(name, group=group)


@pytest.fixture
def start(sqlite_database: Database) -> Iterator[Callable[..., conductor_fixture.ConductorFixture]]:
    """A function that starts a conductor of this name."""
    started = []
    drivers = Registry.load(Settings.read(conductor_fixture.configure(**OPTIONS)))

    def begin(host: str, **values: Any) -> conductor_fixture.ConductorFixture:
        options = {**OPTIONS, "DEFAULT__host": host, **values}
        started.append(conductor_fixture.build(sqlite_database, drivers, **options))
        return started[-1]

    yield begin
    for one in started:
        one.bury()


def waiting(
    conductor: conductor_fixture.ConductorFixture, tmp_path: pathlib.Path, state: str = "clean wait"
) -> str:
    """Add a node whose ramdisk was booted by a conductor that is no more."""
    info = {}
    for name in ("deploy_kernel", "deploy_ramdisk"):
        (tmp_path / name).write_text(name)
        info[name] = f"file://{tmp_path}/{name}"
    notes = {"driver_notes": {network.NOTE: {"params": {"ipa-x": "1"}, "mode": "deploy"}}}
    node = conductor.node(
        state, driver_info=info, driver_internal_info=notes, boot_interface="ipxe"
    )
    add_card(conductor, node, f"52:54:00:{node[:2]}:{node[2:4]}:{node[4:6]}")
    return node


def add_card(conductor: conductor_fixture.ConductorFixture, node: str, address: str) -> str:
    """Add a port; return its UUID."""
    uuid_ = str(uuid.uuid4())
    row = {"uuid": uuid_, "address": address, "node_uuid": node, "pxe_enabled": True}
    conductor.database.write(lambda conn: ports.insert(conn, row))
    return uuid_


def cards(conductor: conductor_fixture.ConductorFixture, node: str) -> list[str]:
    found = conductor.database.read(lambda conn: ports.of_node(conn, node))
    return [port.address for port in found]


def sweep(conductor: conductor_fixture.ConductorFixture) -> None:
    conductor.sweep("moved nodes")
    idle(conductor)


def look(watch: local_state.LocalState, conductor: conductor_fixture.ConductorFixture) -> None:
    watch.sweep()
    idle(conductor)


def idle(conductor: conductor_fixture.ConductorFixture) -> None:
    assert conductor.service.runtime.workers.wait_idle(60)


def scripts(root: pathlib.Path) -> list[str]:
    folder = root / "pxelinux.cfg"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("state", ["clean wait", "wait call-back", "active", "rescue"])
def test_the_new_owner_writes_what_the_machine_boots_from(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    state: str,
) -> None:
    conductor = start("here")
    node = waiting(conductor, tmp_path, state)
    before = conductor.get(node)
    sweep(conductor)
    assert (root / node / "kernel").read_text() == "deploy_kernel"
    (script,) = scripts(root)
    assert " ipa-x=1 " in (root / "pxelinux.cfg" / script).read_text()
    after = conductor.get(node)
    assert after["reservation"] is None
    assert after["provision_state"] == before["provision_state"]
    (card,) = cards(conductor, node)
    notes = {**before["driver_internal_info"]["driver_notes"], network.CARDS: [card]}
    assert after["driver_internal_info"] == {"driver_notes": notes}


def test_a_leave_is_followed_at_once_and_otherwise_nothing_is_done(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    here, there = start("here"), start("there")
    here.sweep("joins and leaves")
    idle(here)
    nodes = [waiting(here, tmp_path) for _ in range(8)]
    here.sweep("joins and leaves")
    idle(here)
    assert scripts(root) == [], "nobody has come or gone"
    assert there.service.stop()
    here.sweep("joins and leaves")
    idle(here)
    assert {node for node in nodes if (root / node / "kernel").exists()} == set(nodes)


@pytest.mark.parametrize("state", ["available", "enroll", "clean failed"])
def test_node_that_boots_nothing_by_itself_gets_no_files(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    state: str,
) -> None:
    conductor = start("here")
    waiting(conductor, tmp_path, state)
    sweep(conductor)
    assert scripts(root) == []


def test_each_conductor_looks_after_its_own(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    one, _ = start("one"), start("two")
    nodes = {waiting(one, tmp_path) for _ in range(30)}  # so that each certainly has some
    members = one.service.ownership.members()
    mine = {n for n in nodes if membership.owner(members, "", "fake-hardware", n) == "one"}
    assert 0 < len(mine) < 30
    sweep(one)
    assert {path.name for path in root.iterdir() if path.name in nodes} == mine


def test_boot_files_that_fail_are_tried_again(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    conductor = start("here")
    node, other = waiting(conductor, tmp_path), waiting(conductor, tmp_path)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    with conductor.tasks.lock(conductor.who, node):
        look(watch, conductor)
        assert [path.name for path in root.iterdir() if path.name in {node, other}] == [other]
    kernel = tmp_path / "deploy_kernel"
    kernel.rename(tmp_path / "away")
    look(watch, conductor)
    assert len(scripts(root)) == 1
    assert conductor.get(node)["reservation"] is None
    (tmp_path / "away").rename(kernel)
    look(watch, conductor)
    assert len(scripts(root)) == 2


def test_a_node_without_a_port_that_boots_warns_once_until_its_ports_change(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []
    monkeypatch.setattr(
        FakeConsole, "start_console", lambda _console, task: started.append(task.node.uuid)
    )
    conductor = start("here")
    node = waiting(conductor, tmp_path)
    conductor.edit(node, console_interface="fake", console_enabled=True)
    (card,) = conductor.database.read(lambda conn: ports.of_node(conn, node))
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)

    def boots(value: bool) -> None:
        change = {"pxe_enabled": value}
        conductor.database.write(lambda conn: ports.update(conn, card.uuid, change))

    boots(False)
    for _ in range(3):
        look(watch, conductor)
    assert caplog.text.count("has no port with pxe_enabled") == 1
    assert started == [node], "its console does not wait for the port"
    boots(True)
    look(watch, conductor)
    assert (len(scripts(root)), started) == (1, [node])


def test_another_fault_of_the_ports_is_tried_again(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def refuse(_boot: object, task: Any) -> None:
        asked.append(task.node.uuid)
        raise errors.HardwareError(reason="the switch is away", path="ports")

    monkeypatch.setattr(network.NetworkBoot, "take_over", refuse)
    conductor = start("here")
    node = waiting(conductor, tmp_path)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    for _ in range(2):
        look(watch, conductor)
    assert asked == [node, node]


def test_a_bug_with_one_node_leaves_no_other_without_its_files(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    conductor = start("here")
    broken, other = waiting(conductor, tmp_path), waiting(conductor, tmp_path)
    conductor.edit(broken, driver_internal_info={"driver_notes": {network.NOTE: "of another make"}})
    for _ in range(2):
        sweep(conductor)
        assert [path.name for path in root.iterdir() if path.name in {broken, other}] == [other]
    assert conductor.get(broken)["reservation"] is None


def test_a_node_is_looked_at_once_per_owner(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    conductor = start("here")
    waiting(conductor, tmp_path)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    look(watch, conductor)
    (script,) = scripts(root)
    (root / "pxelinux.cfg" / script).unlink()
    look(watch, conductor)
    assert scripts(root) == []


@pytest.mark.parametrize("kind", ["disk", "ramdisk"])
def test_boot_files_of_a_node_at_rest_follow_its_ports(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    kind: str,
) -> None:
    conductor = start("here")
    node = waiting(conductor, tmp_path, "active")
    if kind == "disk":
        config.CONF.set_override("enable_netboot_fallback", True, group="pxe")
        conductor.edit(node, driver_internal_info={})
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)

    def follow() -> list[str]:
        look(watch, conductor)
        notes = conductor.get(node)["driver_internal_info"]["driver_notes"]
        assert notes[network.CARDS] == cards(conductor, node)
        return scripts(root)

    try:
        (first,) = follow()
        added = add_card(conductor, node, "52:54:00:ff:ff:01")
        assert follow() == sorted([first, "52-54-00-ff-ff-01"])
        change = {"address": "52:54:00:ff:ff:02"}
        conductor.database.write(lambda conn: ports.update(conn, added, change))
        assert follow() == sorted([first, "52-54-00-ff-ff-02"])
        conductor.database.write(lambda conn: ports.delete(conn, added))
        assert follow() == [first]
        (root / "pxelinux.cfg" / first).unlink()
        assert follow() == [], "no port has changed"
    finally:
        config.CONF.clear_override("enable_netboot_fallback", group="pxe")


def test_boot_files_are_noted_although_the_console_does_not_start(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_console: FakeConsole, _task: Any) -> None:
        raise errors.HardwareError(reason="no port is free")

    monkeypatch.setattr(FakeConsole, "start_console", refuse)
    conductor = start("here")
    node = waiting(conductor, tmp_path, "active")
    conductor.edit(node, console_interface="fake", console_enabled=True)
    sweep(conductor)
    assert network.CARDS in conductor.get(node)["driver_internal_info"]["driver_notes"]


def test_nodes_at_rest_without_media_are_read_once_by_their_notes(
    start: Callable[..., conductor_fixture.ConductorFixture],
) -> None:
    conductor = start("here")
    for state in ("available", "manageable", "clean failed") * 4:
        conductor.node(state)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    counts = []
    for _ in range(2):
        with count_statements(conductor.database) as sent:
            look(watch, conductor)
        counts.append(len([one for one in sent if "FROM nodes" in one]))
    assert counts == [2, 1]


def test_a_node_that_another_one_has_moved_is_looked_at_again(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    """Calls go to another one while its owner is silent; it comes back and owns the node still."""
    conductor, stand_in = start("here"), start("there")
    assert stand_in.service.stop(), "the ring knows one owner all the time"
    node = waiting(conductor, tmp_path)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    look(watch, conductor)
    (script,) = scripts(root)
    with stand_in.tasks.lock(stand_in.who, node) as task:
        task.move("resume")
        task.move("wait")
        (root / "pxelinux.cfg" / script).write_text("of the time before")
    look(watch, conductor)
    assert " ipa-x=1 " in (root / "pxelinux.cfg" / script).read_text()


@pytest.mark.parametrize("state", ["active", "available", "clean failed"])
def test_a_console_that_was_started_is_started_by_the_new_owner(
    start: Callable[..., conductor_fixture.ConductorFixture],
    monkeypatch: pytest.MonkeyPatch,
    state: str,
) -> None:
    asked: list[str] = []

    def begin(_console: FakeConsole, task: Any) -> None:
        asked.append(task.node.uuid)
        if asked == [node]:
            raise errors.HardwareError(reason="no port is free")

    monkeypatch.setattr(FakeConsole, "start_console", begin)
    conductor = start("here")
    node = conductor.node(state, console_interface="fake", console_enabled=True)
    conductor.node(state, console_interface="fake")
    conductor.node(state, console_interface="no-console", console_enabled=True)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    for _ in range(3):
        look(watch, conductor)
    assert asked == [node, node], "once in vain, and no more than once well"
    after = conductor.get(node)
    assert (after["reservation"], after["console_enabled"]) == (None, True)
    conductor.edit(node, provision_updated_at=clock.now())
    look(watch, conductor)
    assert asked == [node, node], "that a node has moved cuts nobody off"
    for enabled in (False, True):
        conductor.edit(node, console_enabled=enabled)
        look(watch, conductor)
    assert asked == [node] * 3, "it was started anew, perhaps elsewhere"
    look(local_state.LocalState(conductor.tasks, conductor.service.ownership), conductor)
    assert asked == [node] * 4, "another one knows nothing of that"


# -- many of them ----------------------------------------------------------------------------


class Slow:
    """A boot interface whose machines take as long as the test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *held: str) -> None:
        self.begun: list[str] = []
        self.go_on = threading.Event()
        self.most = 0
        self._now = 0
        self._held = held
        self._guard = threading.Lock()
        monkeypatch.setattr(network.NetworkBoot, "take_over", lambda _boot, task: self._take(task))

    def _take(self, task: Any) -> None:
        with self._guard:
            self.begun.append(task.node.uuid)
            self._now += 1
            self.most = max(self.most, self._now)
        if not self._held or task.node.uuid in self._held:
            assert self.go_on.wait(60)
        with self._guard:
            self._now -= 1


def test_a_slow_machine_holds_up_neither_the_sweep_nor_the_others(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conductor = start("here")
    slow, *others = (waiting(conductor, tmp_path) for _ in range(4))
    machines = Slow(monkeypatch, slow)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    watch.sweep()
    conductor_fixture.wait_for(lambda: set(machines.begun) == {slow, *others})
    conductor_fixture.wait_for(
        lambda: all(conductor.get(one)["reservation"] is None for one in others)
    )
    watch.sweep()
    machines.go_on.set()
    idle(conductor)
    look(watch, conductor)
    assert sorted(machines.begun) == sorted([slow, *others])


def test_node_that_may_boot_soonest_comes_first(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conductor = start("here", conductor__periodic_max_workers=1)
    given = ("active", "clean hold", "clean wait", "rescue", "service wait")
    nodes = {state: waiting(conductor, tmp_path, state) for state in given}
    machines = Slow(monkeypatch)
    machines.go_on.set()
    look(local_state.LocalState(conductor.tasks, conductor.service.ownership), conductor)
    order = ("clean wait", "service wait", "clean hold", "active", "rescue")
    assert machines.begun == [nodes[state] for state in order]
    assert machines.most == 1


def test_restored_nodes_are_limited_to_some_at_once(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conductor = start("here", conductor__periodic_max_workers=3)
    nodes = {waiting(conductor, tmp_path) for _ in range(9)}
    machines = Slow(monkeypatch)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    watch.sweep()
    conductor_fixture.wait_for(lambda: len(machines.begun) == 3)
    watch.sweep()
    machines.go_on.set()
    idle(conductor)
    assert machines.most == 3
    assert len(machines.begun) == 9
    assert set(machines.begun) == nodes


def test_nodes_of_one_project_leave_workers_to_others(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conductor = start("here", conductor__periodic_max_workers=4)
    nodes = [waiting(conductor, tmp_path) for _ in range(6)]
    for node in nodes[:5]:
        conductor.edit(node, owner="p")
    machines = Slow(monkeypatch)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    watch.sweep()
    conductor_fixture.wait_for(lambda: set(machines.begun) == {*nodes[:2], nodes[5]})
    machines.go_on.set()
    idle(conductor)
    assert sorted(machines.begun) == sorted(nodes)


def test_sweeps_without_a_worker_leave_no_fewer_workers_to_later_ones(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    conductor = start("here", conductor__periodic_max_workers=1)
    node = waiting(conductor, tmp_path)
    watch = local_state.LocalState(conductor.tasks, conductor.service.ownership)
    with no_new_threads():
        watch.sweep()
    look(watch, conductor)
    assert (root / node / "kernel").exists()


def test_driver_that_ends_its_thread_stops_no_other_node(
    start: Callable[..., conductor_fixture.ConductorFixture],
    root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conductor = start("here", conductor__periodic_max_workers=1)
    bad, good = waiting(conductor, tmp_path), waiting(conductor, tmp_path)
    taken: list[str] = []

    def take(_boot: object, task: Any) -> None:
        if task.node.uuid == bad:
            raise SystemExit
        taken.append(task.node.uuid)

    monkeypatch.setattr(network.NetworkBoot, "take_over", take)
    look(local_state.LocalState(conductor.tasks, conductor.service.ownership), conductor)
    assert taken == [good]


# Files of machines go when their node means them no more, and not before.

GONE = "6e0b0a1e-1d6b-4f0a-9d4e-0123456789ab"


@pytest.fixture
def files_root(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
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
    monkeypatch.setattr(local_state, "OLD_SECONDS", -60.0)


def sweep_leftovers(conductor: conductor_fixture.ConductorFixture) -> None:
    conductor.sweep("old files")


def deleted(conductor: conductor_fixture.ConductorFixture) -> str:
    """Add a node, delete it, and return its UUID."""
    node = conductor.node()
    conductor.ask("destroy_node", node)
    return node


def medium(root: pathlib.Path, node: str, folder: str = "media") -> pathlib.Path:
    file = root / folder / published.secret_name(node, ".iso" if folder == "media" else "")
    published.write(file, "ipa-agent-token=...")
    return file


@pytest.mark.parametrize("folder", ["media", "images"])
def test_of_media_and_images_those_stay_that_their_node_means(
    conductor: conductor_fixture.ConductorFixture, files_root: pathlib.Path, aged: None, folder: str
) -> None:
    other, foreign = (medium(files_root, one, folder) for one in (deleted(conductor), GONE))
    node = conductor.node("available")
    old = medium(files_root, node, folder)
    meant = medium(files_root, node, folder)
    conductor.edit(node, driver_internal_info={"driver_notes": {"x": f"{folder}/{meant.name}"}})
    sweep_leftovers(conductor)
    assert [file.exists() for file in (other, old, meant, foreign)] == [False, False, True, True]


def test_of_observed_nodes_all_files_stay(
    conductor: conductor_fixture.ConductorFixture, files_root: pathlib.Path, aged: None
) -> None:
    """Those that Ironic had left in the folder may still be in use."""
    node = conductor.node("active")
    observed = {
        **dict.fromkeys(holds.COLUMNS[1:]),
        **{"uuid": GONE, "node_uuid": node, "kind": "observe", "reason": "x", "blocks": "machine"},
        "created_at": clock.now(),
    }
    conductor.database.write(lambda conn: holds.add_all(conn, [observed]))
    file = medium(files_root, node)
    sweep_leftovers(conductor)
    assert file.exists()
    conductor.database.write(lambda conn: holds.end(conn, GONE, {"ended_at": clock.now()}))
    sweep_leftovers(conductor)
    assert not file.exists()


def test_while_somebody_works_on_a_node_its_files_stay(
    conductor: conductor_fixture.ConductorFixture, files_root: pathlib.Path, aged: None
) -> None:
    """A medium is made before it is noted."""
    node = conductor.node("available")
    made = medium(files_root, node)
    with conductor.tasks.lock(conductor.who, node):
        sweep_leftovers(conductor)
        assert made.exists()
    sweep_leftovers(conductor)
    assert not made.exists()


def test_young_files_stay(
    conductor: conductor_fixture.ConductorFixture, files_root: pathlib.Path
) -> None:
    """Also if what it is a name for is old."""
    made = medium(files_root, GONE)
    os.utime(made, (1, 1))
    part = files_root / "media/.new-1"
    part.write_text("x")
    sweep_leftovers(conductor)
    assert made.exists()
    assert part.exists()


def test_file_of_a_clock_that_was_ahead_goes_an_hour_after_the_first_look(
    conductor: conductor_fixture.ConductorFixture,
    files_root: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel sets the time of a change, so the test sets the clock back by two years."""
    made, passed = medium(files_root, deleted(conductor)), [0.0]

    def wall() -> datetime.datetime:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        return now + datetime.timedelta(days=-730, seconds=passed[0])

    monkeypatch.setattr(clock, "_CLOCK", clock.Clock(wall, lambda: clock.steady() + passed[0]))
    sweep_leftovers(conductor)
    passed[0] += 3500
    sweep_leftovers(conductor)
    assert made.exists()
    passed[0] += 200
    sweep_leftovers(conductor)
    assert not made.exists()


def test_of_a_node_that_is_no_more_all_goes(
    conductor: conductor_fixture.ConductorFixture, files_root: pathlib.Path, aged: None
) -> None:
    """Scripts are told by what they lead to; those of others, and everybody's, stay."""
    here, gone = conductor.node("clean wait"), deleted(conductor)
    for number, node in enumerate((gone, here)):
        for part in ("kernel", "ramdisk"):
            published.write(files_root / node / part, part)
        base = f"http://192.0.2.1:8080/{node}"
        script = loaders.ipxe(f"{base}/kernel", f"{base}/ramdisk", ["a=b"])
        published.write(files_root / f"pxelinux.cfg/52-54-00-aa-00-0{number}", script)
        grub = loaders.grub(f"/{node}/kernel", f"/{node}/ramdisk", ["a=b"])
        published.write(files_root / f"52:54:00:aa:00:0{number}.conf", grub)
    published.write(files_root / "boot.ipxe", loaders.ipxe_entry())
    published.write(files_root / "others/file", GONE)
    sweep_leftovers(conductor)
    left = sorted(
        str(file.relative_to(files_root)) for file in files_root.rglob("*") if file.is_file()
    )
    names = ["52:54:00:aa:00:01.conf", "boot.ipxe", "others/file", "pxelinux.cfg/52-54-00-aa-00-01"]
    assert left == sorted([*names, f"{here}/kernel", f"{here}/ramdisk"])


def test_tftp_files_of_a_deleted_node_go_and_those_of_other_services_stay(
    conductor: conductor_fixture.ConductorFixture,
    files_root: pathlib.Path,
    aged: None,
    tmp_path: pathlib.Path,
) -> None:
    here, node, gone = tmp_path / "tftp", conductor.node("available"), deleted(conductor)
    config.CONF.set_override("tftp_root", str(here), group="pxe")
    common = [here / "grub" / "grub.cfg", here / "pxelinux.0", here / "other.conf"]
    found: dict[str, list[pathlib.Path]] = {}
    for number, uuid_ in enumerate((gone, node, GONE)):
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
        sweep_leftovers(conductor)
    finally:
        config.CONF.clear_override("tftp_root", group="pxe")
    assert not any(file.exists() for file in found[gone])
    assert all(file.exists() for file in (*found[node], *found[GONE], *common))


def test_tftp_files_of_other_services_cost_no_statement_each(
    conductor: conductor_fixture.ConductorFixture,
    files_root: pathlib.Path,
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
                sweep_leftovers(conductor)
            counts.append(len(sent))
    finally:
        config.CONF.clear_override("tftp_root", group="pxe")
    assert counts[0] == counts[1]


def test_unfinished_files_are_removed(
    conductor: conductor_fixture.ConductorFixture, files_root: pathlib.Path, aged: None
) -> None:
    state = pathlib.Path(config.CONF.state_path)
    parts = [files_root / "media/.new-a", files_root / ".new-b", state / "downloads/.new-c"]
    parts += [state / "media-bases/.new-d", state / "agent-logs/.new-e"]
    kept = [
        state / "agent-logs/node.tar.gz",
        state / "downloads/abc",
        state / "downloads/abc.json",
        state / "media-bases/x.iso",
    ]
    for file in (*parts, *kept):
        published.write(file, "x")
    sweep_leftovers(conductor)
    assert not any(file.exists() for file in parts)
    assert all(file.exists() for file in kept)


def test_a_file_that_was_written_anew_meanwhile_stays(files_root: pathlib.Path) -> None:
    """A conductor of this machine may be booting the node just now."""
    file = files_root / GONE / "kernel"
    published.write(file, "old")
    (left,) = published.of_nodes(float("inf"))
    published.write(file, "new")
    assert not published.remove_left(left)
    assert file.read_text() == "new"
    (left,) = published.of_nodes(float("inf"))
    assert published.remove_left(left)
    assert not file.parent.exists()


def test_a_folder_that_is_not_there_is_not_made(
    conductor: conductor_fixture.ConductorFixture, files_root: pathlib.Path
) -> None:
    sweep_leftovers(conductor)
    assert not files_root.exists()


# -- dnsmasq ---------------------------------------------------------------------------------------

CARD = "52:54:00:aa:00:01"


@pytest.fixture
def hosts(files_root: pathlib.Path) -> Iterator[pathlib.Path]:
    """The folder of dhcp-hostsdir; that of dhcp-optsdir is beside it."""
    conf, folder = config.CONF, files_root.parent / "hosts"
    conf.set_override("dhcp_provider", "dnsmasq", group="dhcp")
    conf.set_override("dhcp_hostsdir", str(folder), group="dnsmasq")
    conf.set_override("dhcp_optsdir", str(files_root.parent / "options"), group="dnsmasq")
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
    published.write(options, network.option_lines(node, {"": "snponly.efi"}, "192.0.2.1"))
    published.write(hosts / f"ironic-{CARD}.conf", network.host_line(CARD, node))
    return options


IGNORED = network.ignored_line(CARD)


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
    sweep_leftovers(conductor)
    assert said(hosts) == IGNORED
    host = conductor.tasks.runtime.host
    monkeypatch.setattr(
        membership.Ring, "owner", lambda *_: f"{host}:2"
    )  # one more process of this machine
    sweep_leftovers(conductor)
    assert said(hosts) == IGNORED
    monkeypatch.setattr(
        membership.Ring, "owner", lambda *_: f"{host}-2"
    )  # another machine has it now
    sweep_leftovers(conductor)
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
    sweep_leftovers(conductor)
    assert (said(hosts), options.exists()) == (lead, True)
    conductor.edit(node, driver_internal_info={})
    with conductor.tasks.lock(conductor.who, node):
        sweep_leftovers(conductor)
        assert (said(hosts), options.exists()) == (lead, True)
    sweep_leftovers(conductor)
    assert (said(hosts), options.exists()) == (IGNORED, False)


@pytest.mark.parametrize("moved", [False, True], ids=["deleted", "its card is another node's"])
def test_a_card_is_not_led_for_a_node_that_has_it_no_more(
    conductor: conductor_fixture.ConductorFixture, hosts: pathlib.Path, aged: None, moved: bool
) -> None:
    node = deleted(conductor)
    if moved:
        node = conductor.node(
            "clean wait", driver_internal_info={"driver_notes": {"network_boot": {}}}
        )
        card(conductor, conductor.node("available"))
    options = invited(hosts, node)
    sweep_leftovers(conductor)
    assert (said(hosts), options.exists()) == (IGNORED, moved)
    sweep_leftovers(conductor)
    assert said(hosts) == (IGNORED if moved else None)


def test_recent_dhcp_files_stay(
    conductor: conductor_fixture.ConductorFixture, hosts: pathlib.Path
) -> None:
    options = invited(hosts, GONE)
    sweep_leftovers(conductor)
    assert (said(hosts), options.exists()) == (network.host_line(CARD, GONE), True)


def test_files_of_another_dhcp_server_are_nobodys(
    conductor: conductor_fixture.ConductorFixture, hosts: pathlib.Path, aged: None
) -> None:
    options = invited(hosts, GONE)
    config.CONF.set_override("dhcp_provider", "none", group="dhcp")
    sweep_leftovers(conductor)
    assert (said(hosts), options.exists()) == (network.host_line(CARD, GONE), True)


def test_shared_copy_goes_when_no_node_has_used_it_for_a_day(
    conductor: conductor_fixture.ConductorFixture,
    files_root: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("used", "unused"):
        source = tmp_path / name
        source.write_text(name)
        source.chmod(0o600)  # others cannot read it, so it is copied
        published.place(source, files_root / conductor.node("deploying") / name)
    (unused,) = (path for path in files_root.glob("*/unused"))
    published.remove(unused)
    copies = files_root / ".shared"
    sweep_leftovers(conductor)
    assert len(list(copies.iterdir())) == 2
    monkeypatch.setattr(local_state, "OLD_SECONDS", -86400.0 - 60.0)
    sweep_leftovers(conductor)
    assert [copy.read_text() for copy in copies.iterdir()] == ["used"]
