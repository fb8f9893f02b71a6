"""Orders outside of verbs: to a BMC, consoles, and vendor passthru."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch.local_state import LocalState
from ironic_lite.core import config, context
from ironic_lite.db.engine.session import Database
from ironic_lite.domain.states import UNSTABLE, State
from ironic_lite.drivers.boot import medium
from ironic_lite.drivers.fake.hardware import FakeConsole, FakeManagement
from ironic_lite.drivers.registry import Registry
from ironic_lite.images import published
from tests.emulators import images as image_server
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for
from tests.support.crashes import Scene, Stage
from tests.support.operator import Operator
from tests.support.real_socket import baremetal, listening

# Orders to a BMC outside of verbs: what is noted, what comes of them, and what stands in the
# way.

IMAGE = "http://192.0.2.1/tools.iso"
ORDERS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("change_node_boot_mode", {"mode": "uefi"}, "set_boot_mode"),
    ("change_node_secure_boot", {"state": True}, "set_secure_boot_state"),
    (
        "attach_virtual_media",
        {"device_type": "cdrom", "image_url": IMAGE},
        "attach_virtual_media",
    ),
    ("detach_virtual_media", {"device_types": None}, "detach_virtual_media"),
)
by_worker = pytest.mark.parametrize(("method", "args", "call"), ORDERS, ids=[o[0] for o in ORDERS])


def kept(rig: ConductorFixture, node: str) -> dict[str, Any]:
    """Return what the fake machine remembers."""
    found: dict[str, Any] = rig.get(node)["driver_internal_info"].get("driver_notes", {})
    return found


def told(rig: ConductorFixture, node: str) -> list[tuple[str, Any]]:
    """Return event and order of each event about the BMC."""
    return [(one["event"], (one["data"] or {})) for one in rig.events(node, "management")]


# -- what comes of them ----------------------------------------------------------------------


def test_a_boot_mode_is_set_on_the_machine_and_on_the_node(rig: ConductorFixture) -> None:
    node = rig.node(last_error="old")
    row = rig.call("change_node_boot_mode", node, mode="uefi")
    assert (row["boot_mode"], row["last_error"], row["reservation"]) == ("uefi", None, None)
    assert kept(rig, node) == {"fake_boot_mode": "uefi"}
    facts = {"order": "boot_mode", "target": "uefi"}
    assert told(rig, node) == [("start", facts), ("end", facts)]
    assert "order" not in row["driver_internal_info"]


@pytest.mark.parametrize("state", [True, False])
def test_secure_boot_is_switched(rig: ConductorFixture, state: bool) -> None:
    notes = {"driver_notes": {"fake_secure_boot": not state}}
    node = rig.node(secure_boot=not state, driver_internal_info=notes)
    row = rig.call("change_node_secure_boot", node, state=state)
    assert (row["secure_boot"], kept(rig, node)) == (state, {"fake_secure_boot": state})


def test_a_machine_that_is_so_already_is_left_alone_and_known_from_then_on(
    rig: ConductorFixture,
) -> None:
    fail = {"management.set_boot_mode": "no", "management.set_secure_boot_state": "no"}
    notes = {"driver_notes": {"fake_boot_mode": "bios"}}
    node = rig.node(fake_fail_calls=fail, driver_internal_info=notes)
    row = rig.call("change_node_boot_mode", node, mode="bios")
    assert (row["boot_mode"], row["last_error"]) == ("bios", None)
    row = rig.call("change_node_secure_boot", node, state=False)
    assert (row["secure_boot"], row["last_error"]) == (False, None)


@pytest.mark.parametrize(
    ("asked", "set_", "order"),
    [
        ("get_boot_mode", "set_boot_mode", ("change_node_boot_mode", {"mode": "uefi"})),
        (
            "get_secure_boot_state",
            "set_secure_boot_state",
            ("change_node_secure_boot", {"state": True}),
        ),
    ],
)
def test_conductor_that_lost_the_node_does_not_send_the_setting(
    build: Callable[..., ConductorFixture], asked: str, set_: str, order: tuple[str, dict[str, Any]]
) -> None:
    calls: list[str] = []

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        calls.append(name)
        if name == asked:
            raise errors.LockLost(node="n")
        return call()

    lost = crashes.Drivers(drivers(), around, more=(asked, set_))
    rig = build(registry=cast(Registry, lost))
    node = rig.node()
    method, args = order
    rig.ask(method, node, **args)
    assert rig.service.runtime.workers.wait_idle(60)
    assert asked in calls
    assert set_ not in calls


def test_an_image_goes_in_and_out_and_its_password_stays_secret(rig: ConductorFixture) -> None:
    node = rig.node("active")
    url = "https://reader:s3cret@192.0.2.1/tools.iso?key=s3cret"
    row = rig.call("attach_virtual_media", node, device_type="cdrom", image_url=url)
    assert row["last_error"] is None
    (cdrom,) = [
        drive
        for drive in rig.endpoints.get_virtual_media(rig.who, node_uuid=node)
        if drive["inserted"]
    ]
    assert (cdrom["media_types"], "/tools.iso" in cdrom["image"]) == (["cdrom"], True)
    rig.call("detach_virtual_media", node, device_types=["floppy"])
    assert "cdrom" in kept(rig, node)["fake_virtual_media"]
    rig.call("detach_virtual_media", node)
    assert kept(rig, node) == {}
    assert [facts["order"] for event, facts in told(rig, node) if event == "end"] == [
        "attach_virtual_media",
        "detach_virtual_media",
        "detach_virtual_media",
    ]
    assert "s3cret" not in str((told(rig, node), rig.get(node)))


@pytest.fixture
def served(tmp_path: pathlib.Path) -> Iterator[image_server.Images]:
    """A server with two images, and a conductor that serves files."""
    folder = tmp_path / "web"
    folder.mkdir()
    for name in ("a.iso", "b.iso"):
        (folder / name).write_bytes(name.encode())
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    config.CONF.set_override("http_url", "http://192.0.2.1:8080", "deploy")
    with image_server.serve(folder) as found:
        yield found
    config.CONF.clear_override("state_path")
    config.CONF.clear_override("http_url", "deploy")


def media() -> list[bytes]:
    """Return the content of the images that the conductor serves."""
    found = (pathlib.Path(config.CONF.state_path) / "http/media").glob("*")
    return [path.read_bytes() for path in sorted(found)]


def attach(
    rig: ConductorFixture, node: str, url: str, device: str = "cdrom", source: str = "local"
) -> dict[str, Any]:
    where = {"device_type": device, "image_url": url, "image_download_source": source}
    return rig.call("attach_virtual_media", node, **where)


def test_conductor_serves_an_image_until_it_is_replaced_or_ejected(
    rig: ConductorFixture, served: image_server.Images
) -> None:
    node = rig.node("active")
    assert attach(rig, node, f"{served.url}/a.iso")["last_error"] is None
    assert media() == [b"a.iso"]
    (cdrom,) = [one for one in kept(rig, node)["fake_virtual_media"].values() if one]
    assert str(cdrom).count(f"http://192.0.2.1:8080/media/{node}-") == 1
    attach(rig, node, f"{served.url}/b.iso")
    assert media() == [b"b.iso"]
    attach(rig, node, f"{served.url}/a.iso", "disk")
    assert sorted(media()) == [b"a.iso", b"b.iso"]
    rig.call("detach_virtual_media", node, device_types=["disk"])
    assert media() == [b"b.iso"]
    attach(rig, node, f"{served.url}/a.iso", source="http")
    assert media() == []
    attach(rig, node, f"{served.url}/a.iso")
    rig.call("detach_virtual_media", node)
    assert (media(), kept(rig, node)) == ([], {})


def test_image_that_cannot_be_served_leaves_no_file(
    rig: ConductorFixture, served: image_server.Images
) -> None:
    fail = {"management.attach_virtual_media": "the drive is locked"}
    node = rig.node("active", fake_fail_calls=fail)
    assert "the drive is locked" in attach(rig, node, f"{served.url}/a.iso")["last_error"]
    assert media() == []
    assert "404" in attach(rig, rig.node("active"), f"{served.url}/none.iso")["last_error"]
    for url, path in (("nfs://192.0.2.1/a.iso", "image_url"), (f"{served.url}/a.iso", "http_url")):
        if path == "http_url":
            config.CONF.clear_override("http_url", "deploy")
        with pytest.raises(errors.InvalidRequest, match=path):
            attach(rig, rig.node("active"), url)
    assert media() == []


def test_image_is_served_after_a_conductor_has_died_with_another(
    stage: Stage, served: image_server.Images
) -> None:
    """A file that no note names is left to the removal of old files."""
    where = {"device_type": "cdrom", "image_download_source": "local"}

    def act(rig: ConductorFixture, node: str) -> None:
        rig.ask("attach_virtual_media", node, image_url=f"{served.url}/a.iso", **where)

    for moment in stage.moments("commit", least=3):
        rig, node = moment.play(lambda rig: rig.node("active"), act, ended=crashes.idle)
        assert "order" not in rig.get(node)["driver_internal_info"]
        assert attach(rig, node, f"{served.url}/b.iso")["last_error"] is None
        (held,) = kept(rig, node)["attached_secret_media"].values()
        folder = pathlib.Path(config.CONF.state_path) / "http"
        assert (folder / held["name"]).read_bytes() == b"b.iso"
        of_node = [path for path in (folder / "media").iterdir() if node in path.name]
        assert len(of_node) <= 2, moment.number


def test_boot_media_are_removed_beside_an_image_in_another_drive(
    rig: ConductorFixture, served: image_server.Images
) -> None:
    node = rig.node("active")
    attach(rig, node, f"{served.url}/a.iso", "disk")
    attach(rig, node, f"{served.url}/b.iso")
    with rig.tasks.lock(rig.who, node) as task:
        medium.drop_attached(task, ["cdrom"])  # as its drive is emptied for a boot
        medium.remove(task)
        task.save()
    assert media() == [b"a.iso"]
    assert [*kept(rig, node)[medium.ATTACHED_NOTE]] == ["disk"]


def test_file_is_removed_only_when_no_note_names_it(
    rig: ConductorFixture, served: image_server.Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conductor that dies between both leaves a file, which is removed as an old one."""
    node = rig.node("active")
    gone: list[bool] = []

    def remove(*files: pathlib.Path) -> None:
        gone.extend(file.name in str(rig.get(node)["driver_internal_info"]) for file in files)

    attach(rig, node, f"{served.url}/a.iso")
    monkeypatch.setattr(published, "remove", remove)
    attach(rig, node, f"{served.url}/b.iso")
    rig.call("detach_virtual_media", node)
    assert gone == [False, False]


@pytest.mark.parametrize("state", ["active", "manageable", "available", "clean failed"])
def test_new_conductor_serves_the_image_that_the_former_one_served(
    rig: ConductorFixture, served: image_server.Images, state: str
) -> None:
    node = rig.node(state)
    attach(rig, node, f"{served.url}/a.iso")
    shown = kept(rig, node)

    def move() -> None:
        for file in (pathlib.Path(config.CONF.state_path) / "http/media").iterdir():
            file.unlink()
        LocalState(rig.tasks, rig.service.ownership).sweep()
        assert rig.service.runtime.workers.wait_idle(60)

    move()
    assert (media(), kept(rig, node)) == ([b"a.iso"], shown)
    # The new conductor has another address, of which its BMC is told when it answers again.
    config.CONF.set_override("http_url", "http://192.0.2.2:8080", "deploy")
    rig.edit(node, driver_info={"fake_fail_calls": {"management.attach_virtual_media": "busy"}})
    move()
    assert (media(), kept(rig, node)) == ([], shown)
    rig.edit(node, driver_info={})
    move()
    assert media() == [b"a.iso"]
    assert "http://192.0.2.2:8080/media/" in str(kept(rig, node)["fake_virtual_media"])
    rig.call("detach_virtual_media", node)
    assert (media(), kept(rig, node)) == ([], {})


def test_bmc_is_told_the_url_of_an_image_whose_file_is_here_already(
    rig: ConductorFixture, served: image_server.Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conductor died before it told the BMC, or has had the node before."""
    node = rig.node("active")
    attach(rig, node, f"{served.url}/a.iso")
    attach(rig, node, f"{served.url}/b.iso", "disk")
    fetched = len(served.fetched)
    config.CONF.set_override("http_url", "http://192.0.2.2:8080", "deploy")
    attach_one = FakeManagement.attach_virtual_media

    def refuse_disk(self: FakeManagement, task: Any, device_type: str, image_url: str) -> None:
        if device_type == "disk":
            raise errors.HardwareError(reason="the drive is locked")
        attach_one(self, task, device_type, image_url)

    def shown() -> list[bool]:
        LocalState(rig.tasks, rig.service.ownership).sweep()
        assert rig.service.runtime.workers.wait_idle(10)
        held = kept(rig, node)[medium.ATTACHED_NOTE]
        return ["192.0.2.2" in held[device]["url"] for device in ("cdrom", "disk")]

    with monkeypatch.context() as patch:
        patch.setattr(FakeManagement, "attach_virtual_media", refuse_disk)
        assert shown() == [True, False]
    assert shown() == [True, True]
    assert str(kept(rig, node)["fake_virtual_media"]).count("http://192.0.2.2:8080/media/") == 2
    assert len(served.fetched) == fetched


@by_worker
def test_a_machine_that_refuses_is_told_of_in_last_error_and_history(
    rig: ConductorFixture, method: str, args: dict[str, Any], call: str
) -> None:
    node = rig.node("active", fake_fail_calls={f"management.{call}": "the BMC hiccups"})
    row = rig.call(method, node, **args)
    assert row["last_error"].startswith("Failed to ")
    assert row["last_error"].endswith(": the BMC hiccups")
    assert (row["boot_mode"], row["secure_boot"], row["provision_state"]) == (None, None, "active")
    assert "order" not in row["driver_internal_info"]
    assert [event for event, _ in told(rig, node)] == ["start", "fail"]
    assert rig.events(node, "fault") == []  # told once


def test_a_failed_node_keeps_its_error_when_an_order_begins(rig: ConductorFixture) -> None:
    node = rig.node("clean failed", last_error="disk 3")
    assert rig.call("change_node_boot_mode", node, mode="uefi")["last_error"] == "disk 3"


# -- what stands in the way ------------------------------------------------------------------


@by_worker
@pytest.mark.parametrize("state", sorted(UNSTABLE))
def test_a_node_on_its_way_is_left_alone(
    rig: ConductorFixture, state: State, method: str, args: dict[str, Any], call: str
) -> None:
    node = rig.node(state.value)
    before = rig.get(node)
    with pytest.raises(errors.Conflict, match=f"cannot be changed in state {state}"):
        rig.ask(method, node, **args)
    assert rig.get(node) == {**before, "updated_at": rig.get(node)["updated_at"]}
    assert told(rig, node) == []


@by_worker
def test_a_driver_that_cannot_is_a_refusal(
    rig: ConductorFixture, method: str, args: dict[str, Any], call: str
) -> None:
    node = rig.node(management_interface="noop")
    with pytest.raises(errors.UnsupportedDriverExtension, match=call):
        rig.ask(method, node, **args)
    assert (told(rig, node), rig.get(node)["driver_internal_info"]) == ([], {})


@by_worker
def test_a_node_under_work_is_locked(
    rig: ConductorFixture, method: str, args: dict[str, Any], call: str
) -> None:
    node = rig.node("active")
    rig.service.runtime.conf.set_override("node_locked_retry_attempts", 1, "conductor")
    with rig.tasks.lock(rig.who, node), pytest.raises(errors.NodeLocked):
        rig.ask(method, node, **args)
    assert told(rig, node) == []


def test_an_order_whose_conductor_died_ends_in_last_error(rig: ConductorFixture) -> None:
    node = rig.node(
        "active",
        reservation="here",
        lock_token="of-an-earlier-life",
        driver_internal_info={"order": "set the boot mode to uefi"},
    )
    assert (
        rig.tasks.locks.dead_lock(rig.tasks.look(rig.who, node).node) is None
    )  # not to be taken over
    rig.sweep("orphans")
    rig.service.orphans.take_back().join(60)
    row = rig.settled(node)
    assert row["last_error"] == (
        "Failed to set the boot mode to uefi: the conductor here was lost. "
        "Check the machine and repeat the request."
    )
    assert row["driver_internal_info"] == {}


def test_an_order_that_a_stop_cuts_short_says_so(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_step_seconds=600)
    rig.ask("change_node_boot_mode", node, mode="uefi")
    assert rig.get(node)["driver_internal_info"] == {"order": "set the boot mode to uefi"}
    rig.service.runtime.stopping.set()
    assert "the conductor was stopped meanwhile" in rig.settled(node)["last_error"]


# -- what is done while the caller waits -----------------------------------------------------


def test_an_nmi_reaches_the_machine_in_any_state(rig: ConductorFixture) -> None:
    node = rig.node("clean wait")
    rig.ask("inject_nmi", node)
    assert kept(rig, node) == {"fake_nmis": 1}
    assert told(rig, node) == [("end", {"order": "nmi"})]


def test_an_nmi_that_fails_is_the_callers_error_alone(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_fail_calls={"management.inject_nmi": "no button"})
    with pytest.raises(errors.HardwareError, match="no button"):
        rig.ask("inject_nmi", node)
    assert (rig.get(node)["last_error"], told(rig, node)) == (None, [])


def test_a_lamp_is_switched_and_read(rig: ConductorFixture) -> None:
    node = rig.node("active")
    lamp = {"component": "system", "indicator": "led"}
    assert rig.endpoints.get_indicator_state(rig.who, node_uuid=node, **lamp) == "off"
    rig.ask("set_indicator_state", node, **lamp, state="blinking")
    assert rig.endpoints.get_indicator_state(rig.who, node_uuid=node, **lamp) == "blinking"
    ((event, facts),) = told(rig, node)
    assert (event, facts["target"], facts["indicator"]) == ("end", "blinking", "led")
    offered = rig.endpoints.get_supported_indicators(rig.who, node_uuid=node, component="system")
    assert offered == {"system": {"led": {"readonly": False, "states": ["blinking", "off", "on"]}}}


@pytest.mark.parametrize(
    ("component", "indicator", "state", "path"),
    [
        ("disk", "led", "on", "component"),
        ("system", "lamp", "on", "indicator"),
        ("chassis", "led-0", "on", "indicator"),
        ("system", "led", "dim", "state"),
    ],
)
def test_a_lamp_that_is_not_there_is_named(
    rig: ConductorFixture, component: str, indicator: str, state: str, path: str
) -> None:
    node = rig.node("active")
    with pytest.raises(errors.InvalidParameter) as why:
        rig.ask("set_indicator_state", node, component=component, indicator=indicator, state=state)
    assert (why.value.facts["path"], told(rig, node)) == (path, [])


def test_a_driver_that_shows_a_password_does_not_get_it_out(rig: ConductorFixture) -> None:
    held = {"fake_virtual_media": {"cdrom": "http://joe:s3cret@192.0.2.1/x?signature=s3cret"}}
    node = rig.node("active", driver_internal_info={"driver_notes": held})
    shown = rig.endpoints.get_virtual_media(rig.who, node_uuid=node)
    assert shown[1]["image"] == "http://joe:******@192.0.2.1/x?******"


def test_questions_are_answered_while_a_node_is_locked(rig: ConductorFixture) -> None:
    node = rig.node("active")
    with rig.tasks.lock(rig.who, node):
        assert rig.endpoints.get_supported_indicators(rig.who, node_uuid=node)
        assert rig.endpoints.get_virtual_media(rig.who, node_uuid=node)


# -- a conductor that dies -------------------------------------------------------------------


@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("order", ORDERS, ids=[order[0] for order in ORDERS])
def test_an_order_outlives_its_conductor_as_done_or_as_an_error(
    stages: Callable[..., Stage], order: tuple[str, dict[str, Any], str], what: str
) -> None:
    method, args, call = order
    scene = Scene("active", method, args, "active")
    stage = stages(functools.partial(crashes.drivers, drivers(), more=(call,)))
    for moment in stage.moments(what):
        rig, node = moment.play(scene.begin, scene.ask, ended=crashes.idle)
        row = rig.get(node)
        asked = [event for event, _ in told(rig, node)]
        assert "order" not in row["driver_internal_info"]
        assert asked in ([], ["start", "end"], ["start", "fail"])
        assert (row["last_error"] is not None) == ("fail" in asked)
        assert moment.died or asked == ["start", "end"]


# Consoles over HTTP: of a machine that has one, of one without, and of a driver that fails.


@pytest.fixture
def operator(sqlite_database: Database) -> Iterator[Operator]:
    started = Operator(sqlite_database)
    yield started
    started.close()


def path(node: str) -> str:
    return f"/v1/nodes/{node}/states/console"


def test_a_console_is_started_and_stopped(operator: Operator) -> None:
    node = operator.enroll("enroll", name="web", console_interface="fake")
    off = {"console_enabled": False, "console_info": None}
    assert operator.api.get(path("web")).json == off
    answer = operator.api.put(path("web"), {"enabled": "on"})
    assert (answer.status, answer.body) == (202, b"")
    assert answer.headers["location"] == f"http://localhost:6385{path('web')}"
    operator.rig.settled(node)
    assert operator.api.get(path(node)).json == {"console_enabled": True, "console_info": {}}
    assert operator.shows(node)["console_enabled"] is True
    assert operator.patches(node, driver="fake-hardware").status == 200
    assert operator.api.put(path(node), {"enabled": False}).status == 202
    operator.rig.settled(node)
    assert operator.api.get(path(node)).json == off


def test_console_stays_enabled_over_an_undeployment(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("start_console", "stop_console"):
        monkeypatch.setattr(FakeConsole, name, lambda *_args, name=name: calls.append(name))
    node = operator.enroll("active", console_interface="fake", console_enabled=True)
    assert operator.asks(node, "deleted").status == 202
    row = operator.rig.reaches(node, "available")
    assert (row["console_enabled"], calls) == (True, ["stop_console"])
    assert operator.api.get(path(node)).json == {"console_enabled": True, "console_info": {}}
    assert operator.asks(node, "active").status == 202
    row = operator.rig.reaches(node, "active")
    assert (row["console_enabled"], calls) == (True, ["stop_console", "start_console"])
    assert "console_paused" not in row["driver_internal_info"]


@pytest.mark.parametrize("field", ["owner", "lessee"])
def test_console_ends_when_the_node_changes_hands(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(FakeConsole, "stop_console", lambda *_args: calls.append("stop"))
    node = operator.enroll("manageable", console_interface="fake", **{field: "p-a"})
    assert operator.api.put(path(node), {"enabled": True}).status == 202
    operator.rig.settled(node)
    assert operator.patches(node, name="same-hands").json["console_enabled"] is True
    moved = operator.patches(node, **{field: "p-b"})
    assert (moved.status, moved.json["console_enabled"]) == (200, False), moved.text
    operator.rig.settled(node)
    assert (operator.shows(node)["console_enabled"], calls) == (False, ["stop"])


def test_a_machine_without_a_console_says_so(operator: Operator) -> None:
    node = operator.enroll("enroll", console_interface="no-console")
    assert operator.api.get(path(node)).json == {"console_enabled": False, "console_info": None}
    for enabled in (True, False):
        answer = operator.api.put(path(node), {"enabled": enabled})
        assert (answer.status, "does not support console" in answer.text) == (400, True)
    assert operator.shows(node)["console_enabled"] is False


@pytest.mark.parametrize(
    ("body", "named"),
    [({}, "enabled"), ({"enabled": "perhaps"}, "enabled"), ({"enabled": True, "x": 1}, "x")],
    ids=["nothing", "no boolean", "more"],
)
def test_a_bad_wish_is_refused(operator: Operator, body: dict[str, object], named: str) -> None:
    node = operator.enroll("enroll", console_interface="fake")
    answer = operator.api.put(path(node), body)
    assert (answer.status, named in answer.text) == (400, True)
    assert operator.api.get(path("nope")).status == 404
    assert operator.api.put(path("nope"), {"enabled": True}).status == 404


def test_a_console_that_cannot_be_started_is_told_of(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise RuntimeError("no port is free")

    monkeypatch.setattr(FakeConsole, "start_console", fail)
    node = operator.enroll("enroll", console_interface="fake")
    assert operator.api.put(path(node), {"enabled": True}).status == 202
    row = operator.rig.settled(node)
    assert row["console_enabled"] is False
    assert "Failed to start the console" in row["last_error"]


def test_the_command_line_starts_and_shows_it(operator: Operator) -> None:
    node = operator.enroll("enroll", console_interface="fake")
    with listening(operator) as url:
        done = baremetal(url, "node", "console", "enable", node)
        assert done.returncode == 0, done.stderr
        operator.rig.settled(node)
        shown = baremetal(url, "node", "console", "show", node, "-f", "json")
        assert (shown.returncode, '"console_enabled": true' in shown.stdout) == (0, True)


# Vendor passthru in the conductor: with the lock or without, at once or by a worker.


def call(rig: ConductorFixture, node: str, method: str, verb: str = "POST", **info: Any) -> Any:
    """Call a method of the node's vendor interface, by a request of its own."""
    return rig.endpoints.vendor_passthru(
        context.internal("test"), node_uuid=node, vendor_method=method, http_method=verb, info=info
    )


def kept_answer(rig: ConductorFixture, node: str) -> dict[str, Any]:
    found: dict[str, Any] = rig.get(node)["driver_internal_info"].get("driver_notes", {})
    return found


def test_a_synchronous_method_answers_and_keeps_what_it_is_told(rig: ConductorFixture) -> None:
    node = rig.node("active")
    assert call(rig, node, "remember", value=[1]) == {
        "return": {"before": None},
        "async": False,
        "attach": False,
    }
    assert call(rig, node, "remember", "DELETE")["return"] == {"before": [1]}
    assert kept_answer(rig, node) == {}
    facts = [(one["event"], one["data"]["verb"]) for one in rig.events(node, "management")]
    assert facts == [("end", "POST"), ("end", "DELETE")]


def test_arguments_of_a_call_are_not_in_the_events(rig: ConductorFixture) -> None:
    node = rig.node("active")
    call(rig, node, "remember", value="pssst")
    assert "pssst" not in str(rig.events(node, "management"))


def test_an_asynchronous_method_is_a_workers(rig: ConductorFixture) -> None:
    node = rig.node("active")
    assert call(rig, node, "blink") == {"return": None, "async": True, "attach": False}
    rig.settled(node)
    assert kept_answer(rig, node) == {"fake_vendor_blinks": 1}


def test_an_asynchronous_method_that_fails_is_told_of(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_fail_calls={"vendor.blink": "lamp burnt out"})
    call(rig, node, "blink")
    row = rig.settled(node)
    assert row["last_error"] == "Failed to call the vendor method blink: lamp burnt out"


def test_only_methods_that_look_run_beside_other_work(rig: ConductorFixture) -> None:
    node = rig.node("active")
    rig.service.runtime.conf.set_override("node_locked_retry_attempts", 1, "conductor")
    with rig.tasks.lock(rig.who, node):
        assert call(rig, node, "echo", "GET")["return"] == {"verb": "GET", "info": {}}
        for method in ("remember", "blink"):
            with pytest.raises(errors.NodeLocked):
                call(rig, node, method, value=1)


@pytest.mark.parametrize(
    ("method", "verb", "says"),
    [
        ("nothing", "POST", "there is no vendor method 'nothing'; this driver has: blink, echo"),
        ("log_passthrough", "POST", "there is no vendor method"),
        ("validate", "POST", "there is no vendor method"),
        ("__class__", "POST", "there is no vendor method"),
        ("repeat", "GET", "there is no vendor method"),
        ("blink", "GET", "does not take GET, only POST"),
        ("remember", "GET", "does not take GET, only POST, PUT, PATCH, DELETE"),
    ],
)
def test_only_marked_methods_can_be_called(
    rig: ConductorFixture, method: str, verb: str, says: str
) -> None:
    node = rig.node("active")
    with pytest.raises(errors.InvalidParameter, match=says) as why:
        call(rig, node, method, verb)
    assert why.value.facts["path"] == "method"
    assert rig.events(node, "management") == []


def test_bad_arguments_are_refused_before_anything_is_done(rig: ConductorFixture) -> None:
    node = rig.node("active")
    with pytest.raises(errors.MissingParameter, match="value"):
        call(rig, node, "remember")
    assert (kept_answer(rig, node), rig.events(node, "management")) == ({}, [])


def test_a_node_without_a_vendor_has_no_methods(rig: ConductorFixture) -> None:
    node = rig.node("active", vendor_interface="no-vendor")
    assert rig.endpoints.get_node_vendor_passthru_methods(rig.who, node_uuid=node) == {}
    with pytest.raises(errors.InvalidParameter, match="this driver has: none"):
        call(rig, node, "blink")


def test_methods_are_listed_with_their_facts(rig: ConductorFixture) -> None:
    listed = rig.endpoints.get_node_vendor_passthru_methods(rig.who, node_uuid=rig.node())
    assert list(listed) == ["blink", "echo", "leaflet", "remember"]
    assert listed["blink"] == {
        "http_methods": ["POST"],
        "async": True,
        "description": "Take the time of a step, and count the calls.",
        "attach": False,
        "require_exclusive_lock": True,
    }
    facts = {"driver": "fake-hardware"}
    assert list(rig.endpoints.get_driver_vendor_passthru_methods(rig.who, **facts)) == [
        "note",
        "repeat",
    ]


def test_a_hardware_type_has_methods_of_its_own(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(method: str, verb: str, driver: str = "fake-hardware", **info: Any) -> Any:
        return rig.endpoints.driver_vendor_passthru(
            rig.who, driver=driver, vendor_method=method, http_method=verb, info=info
        )

    assert ask("repeat", "POST", a=1)["return"] == {"a": 1}
    with caplog.at_level("INFO"):
        assert ask("note", "POST") == {"return": None, "async": True, "attach": False}
        wait_for(lambda: "was called for no node" in caplog.text)
    with pytest.raises(errors.InvalidParameter):
        ask("blink", "POST")
    with pytest.raises(errors.DriverNotFound):
        ask("repeat", "GET", driver="toaster")
