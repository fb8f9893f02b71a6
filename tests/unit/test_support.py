"""What tests themselves stand on: scheduling, leftovers, configurations, drivers, judges."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from demo import fleet
from demo.client import ApiError, Client
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from tests.support import (
    conductor_fixture,
    configurations,
    crashes,
    leftovers,
    scheduling,
    service,
    stuck,
)
from tests.support.configurations import Options
from tests.vm import disk, image, rack, story

# The threads of a test that is stuck are printed.


def test_threads_are_printed_while_a_test_is_stuck(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "threads"
    timer = stuck.Timer(0.05, os.open(path, os.O_CREAT | os.O_WRONLY))
    timer.pytest_runtest_protocol()
    service.until(lambda: "test_threads_are_printed" in path.read_text(), "the threads")
    timer.pytest_unconfigure()


# What a test leaves behind is noticed.

SOON = 0.05


def test_a_thread_that_goes_on_is_named() -> None:
    before, closing = leftovers.look(), threading.Event()
    thread = threading.Thread(target=closing.wait, name="left-over", daemon=True)
    thread.start()
    try:
        assert leftovers.since(before, SOON) == ["the thread left-over"]
    finally:
        closing.set()
        thread.join()
    assert leftovers.since(before) == []


def test_a_child_process_is_named() -> None:
    before = leftovers.look()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = leftovers.since(before, SOON)
        assert found == [f"the child process {child.pid}"]
    finally:
        child.communicate()
    assert leftovers.since(before) == []


def test_many_descriptors_are_counted() -> None:
    before = leftovers.look()
    with contextlib.ExitStack() as opened:
        for _ in range(leftovers.DESCRIPTORS + 1):
            opened.enter_context(open(os.devnull, "rb"))
        assert leftovers.since(before, SOON) == [f"{leftovers.DESCRIPTORS + 1} descriptors"]
    assert leftovers.since(before) == []


def test_a_thread_that_is_being_started_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    before, starting = leftovers.look(), threading.Thread(target=int)
    # `enumerate` lists a thread from the first moment of its start; it refuses `join` until later.
    monkeypatch.setattr(threading, "enumerate", lambda: [*before.threads, starting])
    assert leftovers.since(before) == []


# Configurations that tests share: a change of one test reaches no other.

SETTINGS = {"api__max_limit": 77}


@pytest.mark.parametrize(
    "change",
    [
        lambda conf: conf.set_override("max_limit", 5, group="api"),
        lambda conf: conf.clear_override("max_limit", group="api"),
        lambda conf: conf.set_default("max_limit", 5, group="api"),
        lambda conf: conf.clear_default("max_limit", group="api"),
    ],
    ids=["set_override", "clear_override", "set_default", "clear_default"],
)
def test_changed_options_are_not_shared(change: Callable[[Options], None]) -> None:
    before = configurations.shared(SETTINGS)
    assert configurations.shared(SETTINGS) is before
    change(before)
    after = configurations.shared(SETTINGS)
    assert after is not before
    assert after.api.max_limit == 77


# Parallel workers run every test once, computing modules whole and waiting tests in between.


class Item:
    def __init__(self, nodeid: str, group: str | None = None) -> None:
        self.nodeid = nodeid
        self._mark = pytest.mark.xdist_group(group) if group else None

    def get_closest_marker(self, _name: str) -> Any:
        return self._mark and self._mark.mark

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        assert self._mark is None, "pytest-xdist joins the names of several groups"
        self._mark = mark


def arranged(*items: Item) -> list[str]:
    listed = cast(Any, list(items))
    scheduling.group(listed)
    return [item.nodeid for item in scheduling.arrange(listed)]


@pytest.mark.parametrize(
    ("nodeid", "named", "group"),
    [
        ("tests/unit/test_a.py::test_a[tests/window/x::y]", None, "unit/test_a"),
        ("tests/drivers/redfish/test_a.py::test_a", None, "drivers/redfish/test_a"),
        ("tests/lint/test_a.py::test_a", None, "lint"),
        ("tests/recorded/test_a.py::test_a", "machine", "machine"),
        ("tests/acceptance/test_a.py::test_a", None, None),
        ("tests/new/test_a.py::test_a", None, None),
    ],
)
def test_tests_that_compute_stay_together(
    nodeid: str, named: str | None, group: str | None
) -> None:
    item = Item(nodeid, named)
    scheduling.group(cast(Any, [item]))
    mark = item.get_closest_marker("xdist_group")
    assert (mark.args[0] if mark else None) == group


def test_modules_that_share_programs_are_dealt_to_a_few_groups() -> None:
    items = [Item(f"tests/window/test_{one}.py::test_{n}") for one in "abcdef" for n in range(2)]
    scheduling.group(cast(Any, items))
    groups: dict[str, list[str]] = {}
    for item in items:
        groups.setdefault(item.get_closest_marker("xdist_group").args[0], []).append(item.nodeid)
    assert len(groups) == scheduling.SHARING["window"] < 6
    modules = [{nodeid.partition("::")[0] for nodeid in nodeids} for nodeids in groups.values()]
    assert sum(len(one) for one in modules) == 6, "a module is in two groups"
    assert {len(one) for one in modules} == {1, 2}


def test_tests_that_wait_are_spread_and_long_groups_come_first() -> None:
    quick = [Item(f"tests/unit/test_{n // 10}.py::test_{n}") for n in range(100)]
    slow = [Item(f"tests/acceptance/test_a.py::test_{n}") for n in range(6)]
    group = [Item(f"tests/window/test_a.py::test_{n}", "window") for n in range(3)]
    order = arranged(*slow, *quick, *group)
    assert sorted(order) == sorted(item.nodeid for item in (*quick, *slow, *group))
    assert order[:3] == [item.nodeid for item in group]
    modules = list(dict.fromkeys(name.partition("::")[0] for name in order if "unit" in name))
    assert [name for name in order if "unit" in name] == [
        item.nodeid for module in modules for item in quick if item.nodeid.startswith(module)
    ]
    places = [order.index(item.nodeid) for item in slow]
    assert places == sorted(places)
    assert all(later - before > 5 for before, later in itertools.pairwise(places))
    assert max(places) < len(order) - 20


def test_modules_of_long_tests_come_before_modules_of_short_ones() -> None:
    order = arranged(Item("tests/unit/test_a.py::test_a"), Item("tests/flows/test_a.py::test_a"))
    assert order == ["tests/flows/test_a.py::test_a", "tests/unit/test_a.py::test_a"]


def test_worker_runs_the_tests_of_a_module_together(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "tests" / "unit"
    folder.mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(
        "from tests.support.scheduling import pytest_collection_modifyitems\n"
        "from tests.support.scheduling import add_option as pytest_addoption\n"
    )
    body = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_worker(number, worker_id):
    print(f"{__name__} ran on {worker_id}")
"""
    for name in "abcd":
        (folder / f"test_{name}.py").write_text(body)
    words = ["-p", "xdist.plugin", "-n2", "--dist=loadgroup", "--no-loadscope-reorder", "-rP"]
    words += ["--import-mode=importlib", f"--rootdir={tmp_path}", "tests"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    lines = re.findall(r"^(\S+) ran on (\S+)$", found.stdout, re.MULTILINE)
    assert len(lines) == 16, found.stdout
    assert {len({worker for module, worker in lines if module == one}) for one, _ in lines} == {1}


# Drivers of tests, each call of which is passed to a function.

SECONDS = 30.0


class SlowVendor(base.Vendor):
    """An interface whose method ``beep`` takes the first thread long to find."""

    def __init__(self) -> None:
        self.reached, self.gate = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Callable[[], str]:
        if name != "beep":
            raise AttributeError(name)
        if not self.reached.is_set():
            self.reached.set()
            self.gate.wait(SECONDS)
        return lambda: "beep"


class OneDriver:
    """A registry that has one driver."""

    def __init__(self, driver: base.Driver) -> None:
        self.driver = driver

    def driver_for(self, *_: Any) -> base.Driver:
        """Return it."""
        return self.driver


def test_drivers_that_two_threads_want_at_once_pass_on_the_calls_of_both() -> None:
    vendor, passed = SlowVendor(), list[str]()

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        passed.append(name)
        return call()

    whole = conductor_fixture.drivers().driver_for("fake-hardware", {})
    inner = cast(Registry, OneDriver(dataclasses.replace(whole, vendor=vendor)))
    drivers = crashes.Drivers(inner, around, more=("beep",))

    def beep() -> None:
        cast(Any, drivers.driver_for("fake-hardware", {}).vendor).beep()

    first = threading.Thread(target=beep)
    first.start()
    try:
        assert vendor.reached.wait(SECONDS)
        beep()
        assert passed == ["beep"], "although the first thread has not wrapped it yet"
    finally:
        vendor.gate.set()
        first.join(SECONDS)
    assert passed == ["beep", "beep"]


# What judges a virtual machine's run must be able to say no.

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


# The fleet of the demonstration, on an API that a visitor of the window uses as well.

_ENDS = {"manage": "manageable", "provide": "available", "active": "active"}


class Api(Client):
    """An API that carries out each verb at once.

    :param removed: a node that is removed as soon as it was created.
    """

    def __init__(self, removed: str = "") -> None:
        super().__init__("http://127.0.0.1:1")
        self.removed = removed
        self.states: dict[str, str] = {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        if path == "/v1/nodes":
            self.states[body["name"]] = "enroll"
        elif path.startswith("/v1/nodes?"):
            rows = [{"name": name, "provision_state": at} for name, at in self.states.items()]
            return {"nodes": [row for row in rows if row["name"] != self.removed]}
        elif path.endswith("/states/provision"):
            name = path.split("/")[3]
            if name == self.removed and body["target"] != "manage":
                raise ApiError(f"{method} {path}: 404 {name} could not be found")
            self.states[name] = _ENDS.get(body["target"], self.states[name])
            if (name, body["target"]) == (fleet.OVERDUE, "provide"):
                self.states[name] = "clean wait"
        return {}


def test_fleet_is_ready_without_a_node_that_was_removed() -> None:
    fleet.populate(Api("rack3-12"), 30)


def test_request_for_a_node_that_was_removed_is_named() -> None:
    with pytest.raises(ApiError, match="rack1-02 could not be found"):
        fleet.populate(Api("rack1-02"), 30)
