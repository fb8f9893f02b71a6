"""Inspections whose ramdisk reports: what follows, what is put away, and who is not believed."""

from __future__ import annotations

import base64
import functools
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.conductor.watch.timeouts import Timeouts
from ironic_lite.core import config, context, options
from ironic_lite.core.options import Configuration
from ironic_lite.db.queries import nodes, ports, runs
from ironic_lite.db.queries import reports as queries_reports
from ironic_lite.domain import inspection
from ironic_lite.drivers import registry
from ironic_lite.drivers.fake.hardware import FakeBoot
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed
from tests.support.crashes import Stage

MAC = "52:54:00:00:00:01"
API = "http://192.0.2.1:6385"
Json = dict[str, Any]
Booted = list[tuple[str, Json | None]]


def inventory(mac: str = MAC, **more: Any) -> Json:
    return {
        "interfaces": [{"name": "eth0", "mac_address": mac, "ipv4_address": "192.0.2.9"}],
        "cpu": {"count": 2, "architecture": "x86_64"},
        "memory": {"physical_mb": 2048},
        "disks": [{"name": "/dev/sda", "size": 32 * 1024**3, "serial": "S1"}],
        **more,
    }


@pytest.fixture(autouse=True)
def conf(tmp_path: pathlib.Path) -> Iterator[Configuration]:
    """The options that drivers read."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    config.CONF.set_override("endpoint_override", API, "service_catalog")
    yield config.CONF
    config.CONF.clear_override("state_path")
    config.CONF.clear_override("endpoint_override", "service_catalog")
    for opt in options.GROUPS["inspector"]:
        config.CONF.clear_override(opt.dest, "inspector")
    config.CONF.clear_override("deploy_logs_collect", "agent")
    config.CONF.reset()


@pytest.fixture
def booted(monkeypatch: pytest.MonkeyPatch) -> Booted:
    """What was done with ramdisks: (mode, kernel parameters), None for one taken away."""
    seen: Booted = []

    def prepare(_self: Any, _task: Any, params: Json, mode: str = "deploy") -> None:
        seen.append((mode, dict(params)))

    def remove(_self: Any, _task: Any, mode: str = "deploy") -> None:
        seen.append((mode, None))

    monkeypatch.setattr(FakeBoot, "prepare_ramdisk", prepare)
    monkeypatch.setattr(FakeBoot, "clean_up_ramdisk", remove)
    return seen


def waiting(rig: ConductorFixture, **values: Any) -> str:
    """Return a node that waits for its ramdisk's report."""
    node = rig.node(inspect_interface="agent", **values)
    row = rig.call("inspect", node)
    assert (row["provision_state"], row["last_error"]) == ("inspect wait", None)
    return node


def reports(rig: ConductorFixture, node: str, found: Json | None = None, **rest: Any) -> Json:
    told = inventory() if found is None else found
    return rig.call("continue_inspection", node, inventory=told, plugin_data=rest)


def kept(rig: ConductorFixture, node: str) -> Json | None:
    try:
        return rig.database.read(lambda conn: queries_reports.get_inventory(conn, node))
    except errors.NotFound:
        return None


def cards(rig: ConductorFixture, node: str) -> list[str]:
    return [one.address for one in rig.database.read(lambda conn: ports.of_node(conn, node))]


# -- the way it goes -------------------------------------------------------------------------


def test_a_report_makes_properties_ports_and_an_inventory(
    rig: ConductorFixture, booted: Booted
) -> None:
    node = waiting(rig, properties={"room": 7})
    url = f"{API}/v1/continue_inspection?node_uuid={node}"
    ((mode, params),) = booted
    assert (mode, params and params["ipa-inspection-callback-url"]) == ("inspect", url)
    assert params
    assert params["ipa-global-request-id"].startswith("req-")
    assert rig.get(node)["power_state"] == "power on"
    row = reports(rig, node, root_disk={"name": "/dev/sda"}, error=None)
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert row["properties"] == {"room": 7, "cpu_arch": "x86_64"}
    assert row["power_state"] == "power off"
    assert row["inspection_finished_at"] is not None
    assert booted[1:] == [("inspect", None)]
    assert cards(rig, node) == [MAC]
    found = kept(rig, node)
    assert found is not None
    assert found["inventory"] == inventory()
    assert found["plugin_data"]["root_disk"] == {"name": "/dev/sda"}
    assert rig.path(node) == ["inspecting", "inspect wait", "inspecting", "manageable"]
    assert rig.run(node)["state"] == "done"


def test_hooks_and_parameters_are_those_of_the_configuration(
    rig: ConductorFixture, conf: cfg.ConfigOpts, booted: Booted
) -> None:
    conf.set_override("hooks", ["memory", "cpus", "root-device"], "inspector")
    more = "ipa-inspection-collectors=default,lldp ipa-debug=1"
    conf.set_override("extra_kernel_params", more, "inspector")
    node = waiting(rig, properties={"root_device": {"serial": "s1"}})
    assert (booted[0][1] or {})["ipa-inspection-collectors"] == "default,lldp"
    row = reports(rig, node)
    assert row["properties"] == {
        "root_device": {"serial": "s1"},
        "memory_mb": 2048,
        "cpus": 2,
        "local_gb": 31,
    }
    assert cards(rig, node) == []


def test_parameters_without_a_value_are_refused_before_anything_happens(
    rig: ConductorFixture, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("extra_kernel_params", "ipa-debug=1 quiet", "inspector")
    node = rig.node(inspect_interface="agent")
    with pytest.raises(errors.InvalidParameter, match=r"extra_kernel_params.*'quiet'"):
        rig.ask("inspect", node)
    assert rig.get(node)["provision_state"] == "manageable"


@pytest.mark.parametrize("why", ["configuration", "node"])
def test_a_machine_may_stay_on(
    rig: ConductorFixture, conf: cfg.ConfigOpts, booted: Booted, why: str
) -> None:
    conf.set_override("power_off", why == "node", "inspector")
    node = waiting(rig, disable_power_off=why == "node")
    row = reports(rig, node)
    assert (row["provision_state"], row["power_state"]) == ("manageable", "power on")
    assert booted[-1] == ("inspect", None)


# -- booting ---------------------------------------------------------------------------------


@pytest.fixture
def needs_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boot as over the network: a port with pxe_enabled is needed."""

    def check(_self: Any, task: Any, _mode: str) -> None:
        if not any(port.pxe_enabled for port in task.ports):
            raise errors.MissingParameter(path="ports")

    monkeypatch.setattr(FakeBoot, "check_ramdisk", check)
    monkeypatch.setattr(FakeBoot, "over_network", True)


@pytest.mark.usefixtures("needs_port")
def test_ports_are_made_of_the_cards_of_the_bmc(rig: ConductorFixture, booted: Booted) -> None:
    node = waiting(rig, fake_ports=[MAC, GONE])
    assert [mode for mode, _ in booted] == ["inspect"]
    assert cards(rig, node) == [MAC, GONE]
    assert reports(rig, node)["provision_state"] == "manageable"
    assert cards(rig, node) == [MAC, GONE]


@pytest.mark.usefixtures("booted")
def test_node_with_a_port_gets_none_of_the_bmc(rig: ConductorFixture) -> None:
    node = rig.node(inspect_interface="agent", fake_ports=[MAC])
    with rig.tasks.lock(rig.who, node) as task:
        task.add_ports([NEW])
    rig.call("inspect", node)
    assert cards(rig, node) == [NEW]


@pytest.mark.usefixtures("needs_port")
def test_machine_without_ports_is_refused_where_ports_are_the_operators(
    rig: ConductorFixture, conf: Configuration
) -> None:
    conf.set_override("pre_create_ports", False, "inspector")
    node = rig.node(inspect_interface="agent", fake_ports=[MAC])
    with pytest.raises(errors.MissingParameter, match="ports"):
        rig.ask("inspect", node)
    assert cards(rig, node) == []


@pytest.mark.usefixtures("needs_port")
def test_bmc_without_cards_fails_the_inspection(rig: ConductorFixture, booted: Booted) -> None:
    row = rig.call("inspect", rig.node(inspect_interface="agent"))
    assert row["provision_state"] == "inspect failed"
    assert "ports" in row["last_error"]
    assert [mode for mode, words in booted if words is not None] == []


@pytest.mark.usefixtures("needs_port")
def test_the_network_of_the_site_may_boot_the_ramdisk(
    rig: ConductorFixture, conf: Configuration, booted: Booted
) -> None:
    conf.set_override("require_managed_boot", False, "inspector")
    node = waiting(rig)
    assert booted == []
    assert rig.get(node)["power_state"] == "power on"
    told = rig.endpoints.get_boot_device(rig.who, node_uuid=node)
    assert told == {"boot_device": "pxe", "persistent": False}
    (run,) = rig.runs(node)
    assert "booted by the site's own network" in rig.database.read(
        lambda conn: "\n".join(row.text for row in runs.log_rows(conn, run["uuid"]))
    )
    row = reports(rig, node)
    assert (row["provision_state"], row["power_state"]) == ("manageable", "power off")
    assert cards(rig, node) == [MAC]


@pytest.mark.usefixtures("needs_port")
def test_virtual_media_have_no_network_of_the_site(
    rig: ConductorFixture, conf: Configuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf.set_override("require_managed_boot", False, "inspector")
    monkeypatch.setattr(FakeBoot, "over_network", False)
    conf.set_override("pre_create_ports", False, "inspector")
    with pytest.raises(errors.MissingParameter, match="ports"):
        rig.ask("inspect", rig.node(inspect_interface="agent"))


@pytest.mark.parametrize("carries", [True, False])
def test_report_goes_to_the_external_url_only_from_media(
    rig: ConductorFixture,
    conf: Configuration,
    booted: Booted,
    monkeypatch: pytest.MonkeyPatch,
    carries: bool,
) -> None:
    conf.set_override("external_callback_url", "https://metal.example:6385", "deploy")
    monkeypatch.setattr(FakeBoot, "carries_parameters", lambda *_: carries)
    try:
        waiting(rig)
    finally:
        conf.clear_override("external_callback_url", "deploy")
    url = (booted[0][1] or {})["ipa-inspection-callback-url"]
    assert url.startswith("https://metal.example:6385/v1/" if carries else f"{API}/v1/")


@pytest.mark.parametrize(
    ("words", "value"), [("", "1"), ("ipa-collect-lldp=0", "0")], ids=["by default", "set"]
)
def test_forced_dhcp_collects_lldp(
    rig: ConductorFixture, conf: Configuration, booted: Booted, words: str, value: str
) -> None:
    conf.set_override("force_dhcp", True, "inspector")
    conf.set_override("extra_kernel_params", words, "inspector")
    waiting(rig)
    assert (booted[0][1] or {})["ipa-collect-lldp"] == value


# -- ports -----------------------------------------------------------------------------------

GONE, PLUGGED, NEW = (f"52:54:00:00:00:{number:02x}" for number in (2, 3, 4))


def test_ports_follow_the_report_with_an_event_for_each(
    rig: ConductorFixture,
    conf: cfg.ConfigOpts,
    booted: Booted,
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf.set_override("keep_ports", "present", "inspector")
    conf.set_override("add_ports", "all", "inspector")
    node = waiting(rig)
    with rig.tasks.lock(rig.who, node) as task:
        task.add_ports({MAC: False, GONE: True, PLUGGED: True})
        for port in task.ports[2:]:
            task.node_ports.note(port, "tenant_vif_port_id", "v1")
    listed = [{"name": f"eth{at}", "mac_address": mac} for at, mac in enumerate((MAC, NEW))]
    boots = {"pxe_interface": MAC}
    assert reports(rig, node, inventory(interfaces=listed, boot=boots))["last_error"] is None
    assert cards(rig, node) == [MAC, PLUGGED, NEW]
    found = rig.database.read(lambda conn: ports.of_node(conn, node))
    assert [one.pxe_enabled for one in found] == [True, True, False]
    assert [one["data"]["address"] for one in rig.events(node, "port_deleted")] == [GONE]
    assert [one["data"]["address"] for one in rig.events(node, "port_created")][3:] == [NEW]
    changed = [one["data"] for one in rig.events(node, "port_updated")]
    assert [(one["address"], one["changed"]) for one in changed if one["changed"][0][0] == "p"] == [
        (MAC, ["pxe_enabled"]),
    ]
    assert f"({PLUGGED}) is not removed: a VIF is attached to it" in caplog.text


class Site(inspection.InspectionHook):
    """A hook of a site, which changes all that a hook may change, and may fail at the end."""

    fails = False

    def run(self, case: inspection.Case) -> None:
        case.inventory["cpu"]["count"] = 99
        case.properties["rack"] = case.extra["rack"] = case.plugin_data["rack"] = "r7"
        case.properties["known"]["deep"] = True
        case.resource_class = f"{case.node.name}-{case.node.driver}"
        case.traits = {"CUSTOM_FAST"}
        for port in case.ports.values():
            port.name, port.category = f"{case.node.uuid[:8]}-{port.address[-2:]}", "fast"
            port.physical_network = "net_a"
            port.local_link_connection = {"port_id": "7"}
        if self.fails:
            raise RuntimeError("no rack")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, conf: Configuration) -> type[Site]:
    """Enable a hook of a site after the usual ones."""
    usual = registry.inspection_hooks(["ports", "architecture"])
    monkeypatch.setattr(registry, "inspection_hooks", lambda _names: {**usual, "site": Site()})
    monkeypatch.setattr(Site, "fails", False)
    return Site


def state(rig: ConductorFixture, node: str) -> Json:
    """Return all that an inspection may change."""
    row = rig.get(node)
    names = ("properties", "extra", "resource_class")
    return {
        **{name: row[name] for name in names},
        "traits": rig.database.read(lambda conn: nodes.get_traits(conn, node)),
        "ports": [
            {name: value for name, value in one.as_dict().items() if name != "updated_at"}
            for one in rig.database.read(lambda conn: ports.of_node(conn, node))
        ],
        "inventory": kept(rig, node),
    }


@pytest.mark.usefixtures("site", "booted")
def test_changes_of_a_hook_are_written_together(rig: ConductorFixture) -> None:
    node = waiting(rig, name="m1", properties={"known": {}})
    rig.database.write(
        lambda conn: nodes.settle_traits(conn, node, added=["CUSTOM_SLOW"], removed=[])
    )
    assert reports(rig, node)["last_error"] is None
    found = state(rig, node)
    assert found["properties"] == {"cpu_arch": "x86_64", "rack": "r7", "known": {"deep": True}}
    assert (found["extra"], found["resource_class"]) == ({"rack": "r7"}, "m1-fake-hardware")
    assert found["traits"] == ["CUSTOM_FAST"]
    assert found["inventory"]["plugin_data"]["rack"] == "r7"
    assert found["inventory"]["inventory"] == inventory()  # it is for reading
    (port,) = found["ports"]
    assert (port["name"], port["category"]) == (f"{node[:8]}-01", "fast")
    assert port["local_link_connection"] == {"port_id": "7"}
    assert port["physical_network"] == "net_a"


@pytest.mark.usefixtures("booted")
def test_exception_of_a_hook_leaves_node_and_ports_as_they_were(
    rig: ConductorFixture, site: type[Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "fails", True)
    node = waiting(rig, properties={"known": {}})
    with rig.tasks.lock(rig.who, node) as task:
        task.add_ports([GONE])
    before = state(rig, node)
    row = reports(rig, node)
    assert row["provision_state"] == "inspect failed"
    assert "hook site: RuntimeError: no rack" in row["last_error"]
    assert state(rig, node) == before
    monkeypatch.setattr(site, "fails", False)
    rig.call("inspect", node)
    assert reports(rig, node)["provision_state"] == "manageable"


@pytest.mark.usefixtures("site", "booted")
def test_name_of_another_port_fails_the_inspection_as_a_whole(rig: ConductorFixture) -> None:
    node, other = waiting(rig, properties={"known": {}}), rig.node()
    with rig.tasks.lock(rig.who, other) as task:
        task.add_ports([GONE])
        port = task.ports[0].uuid
    rig.database.write(lambda conn: ports.update(conn, port, {"name": f"{node[:8]}-01"}))
    before = state(rig, node)
    row = reports(rig, node)
    assert row["provision_state"] == "inspect failed"
    assert "port with name" in row["last_error"]
    assert state(rig, node) == before


# -- failing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [None, {}], ids=["with an inventory", "without one"])
def test_ramdisk_failure_is_in_last_error(
    rig: ConductorFixture, booted: Booted, found: Json | None
) -> None:
    node = waiting(rig)
    row = reports(rig, node, found, error="collector default failed: no disks")
    assert row["provision_state"] == "inspect failed"
    assert "collector default failed: no disks" in row["last_error"]
    assert (row["power_state"], booted[-1]) == ("power off", ("inspect", None))
    assert (row["properties"], cards(rig, node), kept(rig, node)) == ({}, [], None)


@pytest.mark.parametrize(
    ("found", "said"),
    [({}, "sent no inventory"), (inventory(interfaces=[]), "no network interface")],
    ids=["nothing", "too little"],
)
def test_a_report_nothing_can_be_made_of_leaves_all_as_it_was(
    rig: ConductorFixture, found: Json, said: str
) -> None:
    node = waiting(rig, properties={"room": 7})
    row = reports(rig, node, found)
    assert row["provision_state"] == "inspect failed"
    assert said in row["last_error"]
    assert (row["properties"], cards(rig, node), kept(rig, node)) == ({"room": 7}, [], None)
    row = rig.call("inspect", node)
    assert row["provision_state"] == "inspect wait"
    assert reports(rig, node)["provision_state"] == "manageable"


def test_unknown_value_is_left_out_and_the_rest_is_kept(rig: ConductorFixture) -> None:
    node = waiting(rig)
    row = reports(rig, node, inventory(cpu={}, memory={"physical_mb": 8192.5}))
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert not {"cpu_arch", "memory_mb"} & row["properties"].keys()
    assert cards(rig, node)


def test_a_machine_that_cannot_be_switched_off_fails_the_inspection(rig: ConductorFixture) -> None:
    node = waiting(rig)
    rig.edit(node, driver_info={"fake_fail_power": "no BMC"})
    row = reports(rig, node)
    assert row["provision_state"] == "inspect failed"
    assert "no BMC" in row["last_error"]
    assert (row["properties"], cards(rig, node), kept(rig, node)) == ({}, [], None)


def test_a_ramdisk_that_cannot_be_booted_is_put_away(rig: ConductorFixture, booted: Booted) -> None:
    node = rig.node(inspect_interface="agent", fake_fail_power="no BMC")
    row = rig.call("inspect", node)
    assert row["provision_state"] == "inspect failed"
    assert "no BMC" in row["last_error"]


@pytest.mark.parametrize(
    ("collect", "error", "there"),
    [
        ("on_failure", "no disks", True),
        ("on_failure", None, False),
        ("always", None, True),
        ("never", "no disks", False),
    ],
)
def test_logs_in_a_report_are_kept_as_those_of_steps_are(
    rig: ConductorFixture, conf: cfg.ConfigOpts, collect: str, error: str | None, there: bool
) -> None:
    conf.set_override("deploy_logs_collect", collect, "agent")
    node = waiting(rig)
    reports(rig, node, error=error, logs=base64.b64encode(b"packed").decode())
    folder = config.state_path() / "agent-logs"
    files = list(folder.iterdir()) if folder.exists() else []
    assert [one.read_bytes() for one in files] == ([b"packed"] if there else [])
    found = kept(rig, node)
    assert found is None or "logs" not in found["plugin_data"]


def test_logs_that_are_none_stop_nothing(
    rig: ConductorFixture, conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture
) -> None:
    conf.set_override("deploy_logs_collect", "always", "agent")
    node = waiting(rig)
    with caplog.at_level(logging.WARNING):
        assert reports(rig, node, logs="no base64!")["provision_state"] == "manageable"
    assert "cannot keep the logs of its ramdisk" in caplog.text


# -- giving up -------------------------------------------------------------------------------


def test_an_abort_puts_the_ramdisk_away(rig: ConductorFixture, booted: Booted) -> None:
    node = waiting(rig)
    row = rig.act("abort", node)
    assert (row["provision_state"], row["power_state"]) == ("inspect failed", "power off")
    assert booted[-1] == ("inspect", None)
    refused(rig, node)


def test_a_machine_that_never_reports_is_given_up(
    build: Callable[..., ConductorFixture], booted: Booted
) -> None:
    rig = build(conductor__inspect_wait_timeout=1)
    node = waiting(rig)
    with rig.tasks.lock(rig.who, node) as task:
        task.node.provision_updated_at = task.node.provision_updated_at.replace(year=2020)
        task.save()
    Timeouts(rig.tasks, rig.service.ownership).sweep()
    row = rig.reaches(node, "inspect failed")
    assert "Timeout reached while inspecting" in row["last_error"]
    assert (row["power_state"], booted[-1]) == ("power off", ("inspect", None))
    refused(rig, node)


# -- who is not believed ---------------------------------------------------------------------


def refused(rig: ConductorFixture, node: str) -> None:
    before = rig.get(node)
    with pytest.raises(errors.NodeNotFound):
        rig.ask(
            "continue_inspection", node, inventory=inventory("02:00:00:00:00:01"), plugin_data={}
        )
    assert rig.settled(node)["properties"] == before["properties"]
    assert rig.get(node)["provision_state"] == before["provision_state"]


def test_a_second_report_finds_nobody_waiting(rig: ConductorFixture) -> None:
    node = waiting(rig)
    assert reports(rig, node)["provision_state"] == "manageable"
    refused(rig, node)
    assert cards(rig, node) == [MAC]


def test_a_report_that_waits_for_a_report_is_too_late(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two come at the same moment: the second waits for the lock, then for nothing."""
    node = waiting(rig)
    inside, go_on = threading.Event(), threading.Event()

    def slow(_self: Any, _task: Any, mode: str = "deploy") -> None:
        inside.set()
        go_on.wait(20)

    monkeypatch.setattr(FakeBoot, "clean_up_ramdisk", slow)
    rig.ask("continue_inspection", node, inventory=inventory(), plugin_data={})
    assert inside.wait(20)
    threading.Timer(0.2, go_on.set).start()
    with pytest.raises((errors.NodeNotFound, errors.NodeLocked)):
        rig.ask("continue_inspection", node, inventory=inventory(), plugin_data={"b": 1})
    go_on.set()
    assert rig.reaches(node, "manageable")["last_error"] is None
    found = kept(rig, node)
    assert found is not None
    assert "b" not in found["plugin_data"]


def test_another_inspect_interface_takes_no_reports(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_verbs=["inspect"], fake_step_seconds=3600)
    assert rig.call("inspect", node)["provision_state"] == "inspect wait"
    refused(rig, node)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_token_is_given_where_it_is_asked_for(rig: ConductorFixture, fresh: bool) -> None:
    node = waiting(rig)
    if not fresh:
        rig.endpoints.get_node_with_token(rig.who, node_uuid=node)
        rig.settled(node)
    found = rig.endpoints.continue_inspection(
        rig.who, node_uuid=node, inventory=inventory(), plugin_data={}, with_token=True
    )
    assert found["fresh"] is fresh
    row = rig.reaches(node, "manageable")
    assert "agent_secret_token" not in row["driver_internal_info"]


# -- death -----------------------------------------------------------------------------------


@pytest.mark.parametrize("heir", ["here", "there"])
@pytest.mark.parametrize("what", ["commit", "call"])
def test_a_conductor_may_die_at_any_moment(
    stages: Callable[..., Stage], booted: Booted, what: str, heir: str
) -> None:
    """The node ends in a stable state with nothing half written, and can be inspected again."""

    def act(rig: ConductorFixture, node: str) -> None:
        rig.ask("inspect", node)
        assert rig.service.runtime.workers.wait_idle(60)
        rig.ask("continue_inspection", node, inventory=inventory(mac), plugin_data={})

    more = ("continue_inspection",)
    stage = stages(functools.partial(crashes.drivers, drivers(), more=more), dead="removed")
    for moment in stage.moments(what, least=6 if what == "commit" else 5):
        mac = f"52:54:00:00:{moment.number:02x}:01"
        rig, node = moment.play(
            lambda rig: rig.node(inspect_interface="agent"), act, heir, crashes.idle
        )
        row = rig.get(node)
        if row["provision_state"] == "inspect wait":
            row = reports(rig, node, inventory(mac))
        assert row["provision_state"] == "manageable"
        done = bool(rig.runs(node))
        assert (kept(rig, node) is not None) is done, row
        assert ("cpu_arch" in row["properties"]) is done
        assert cards(rig, node) == ([mac] if done else [])
        assert row["last_error"] is None
        rig_row = rig.call("inspect", node)
        assert rig_row["provision_state"] == "inspect wait"
        assert reports(rig, node, inventory(mac))["provision_state"] == "manageable"
        assert cards(rig, node) == [mac]


def test_a_report_that_comes_late_once_more_is_none_of_another_inspection(
    rig: ConductorFixture,
) -> None:
    node, who = waiting(rig), context.Context("req-1")
    found: Json = {"node_uuid": node, "inventory": inventory(), "plugin_data": {}}
    rig.endpoints.continue_inspection(who, **found)
    rig.reaches(node, "manageable")
    assert rig.call("inspect", node)["provision_state"] == "inspect wait"
    with pytest.raises(errors.Conflict, match="req-1"):
        rig.endpoints.continue_inspection(who, **found)
    assert rig.settled(node)["provision_state"] == "inspect wait"
    assert reports(rig, node)["provision_state"] == "manageable"


# -- erasure records -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("serials", "declared", "after"),
    [
        (["S1"], False, "clean"),
        pytest.param(["S1", "S2"], False, "unknown", marks=pytest.mark.feature("erasures")),
        pytest.param(["S2"], False, "unknown", marks=pytest.mark.feature("erasures")),
        ([], False, "clean"),
        (["S2"], True, "clean"),
    ],
)
def test_disk_that_the_proof_of_a_clean_node_does_not_name_makes_the_node_unknown(
    rig: ConductorFixture, serials: list[str], declared: bool, after: str
) -> None:
    disk = {"name": "/dev/sda", "serial": "S1", "result": "erased", "level": "clear"}
    node = rig.node(inspect_interface="agent", fake_erasures=[disk])
    rig.call("clean", node, clean_steps=listed("deploy.erase_devices"))
    assert rig.get(node)["data_state"] == "clean"
    if declared:
        rig.edit(node, data_state_by="declared")
    rig.call("inspect", node)
    disks = [{"name": f"/dev/{one}", "size": 1024**3, "serial": one} for one in serials]
    row = reports(rig, node, inventory(disks=disks))
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert row["data_state"] == after
    if after == "unknown":
        assert row["data_state_by"] == rig.run(node)["uuid"]
        assert rig.events(node, "data_state")[-1]["before"] == "clean"
