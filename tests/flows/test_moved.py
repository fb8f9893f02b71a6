"""A node that came from another conductor finds its boot files at the new one."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import local_state
from ironic_lite.core import clock, config
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import ports
from ironic_lite.drivers.boot import network
from ironic_lite.drivers.fake.console import FakeConsole
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.membership import ring
from tests.support import conductor_fixture
from tests.support.thread_limit import no_new_threads

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
    row = {"uuid": node, "address": f"52:54:00:{node[:2]}:{node[2:4]}:{node[4:6]}"}
    conductor.database.write(
        lambda conn: ports.insert(conn, {**row, "node_uuid": node, "pxe_enabled": True})
    )
    return node


def sweep(conductor: conductor_fixture.ConductorFixture) -> None:
    conductor.sweep("moved nodes")
    idle(conductor)


def look(watch: local_state.LocalState, conductor: conductor_fixture.ConductorFixture) -> None:
    watch.sweep()
    idle(conductor)


def idle(conductor: conductor_fixture.ConductorFixture) -> None:
    assert conductor.service.runtime.workers.wait_idle(10)


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
    assert after["driver_internal_info"] == before["driver_internal_info"]


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
    mine = {n for n in nodes if ring.owner(members, "", "fake-hardware", n) == "one"}
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
            assert self.go_on.wait(10)
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
