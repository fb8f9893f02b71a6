"""Clients that other people wrote for Ironic, as they come, against real processes.

openstacksdk's own tests are run by `test_sdk`; curl by the pages of the documentation.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import warnings
from collections.abc import Iterator
from typing import Any

import bcrypt
import pytest

from tests.support import prefork, service
from tests.support.real_socket import baremetal, to_run
from tests.support.service import Service

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import openstack.config
    import openstack.connection
    from metalsmith import InstanceState, Provisioner, exceptions, instance_config, sources

# One worker starts the service once.
pytestmark = pytest.mark.xdist_group("clients")

Json = dict[str, Any]
PATIENCE = 60
ISO_OF_NOTHING = "https://images.example/root.img"


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    """The service, one for all tests."""
    with service.service() as found:
        found.start()
        found.up()
        yield found


def machine(running: Service, name: str, **fields: Any) -> str:
    """Create a node that can be deployed; returns its UUID."""
    node = running.create(name, **{"resource_class": "baremetal", **fields})
    running.provision(name, "manage", "manageable")
    running.provision(name, "provide", "available")
    return node


# -- python-ironicclient ---------------------------------------------------------------------


def said(running: Service, *words: str) -> Any:
    """Run a command that works; returns the JSON it prints, or its text if it prints none."""
    silent = {"set", "unset", "delete", "add", "remove"} & {*words[:4]} or words[1] in VERBS
    done = baremetal(running.url, *words, *(() if silent else ("-f", "json")))
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout if silent else json.loads(done.stdout)


VERBS = frozenset(
    {
        *("manage", "provide", "deploy", "undeploy", "rebuild", "adopt", "inspect", "clean"),
        *("abort", "rescue", "unrescue", "power", "reboot", "maintenance", "passthru", "boot"),
    }
)


def test_the_command_line_takes_its_endpoint_from_its_arguments(running: Service) -> None:
    words = ["--os-auth-type", "none", "--os-endpoint", running.url, "driver", "list", "-f", "json"]
    started = to_run(running.url, *words)
    env = {key: value for key, value in started["env"].items() if not key.startswith("OS_")}
    done = prefork.run(started["args"], env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "fake-hardware" in [one["name"] for one in json.loads(done.stdout)]


def test_the_command_line_leads_a_whole_life(running: Service) -> None:
    made = said(running, "node", "create", "--driver", "fake-hardware", "--name", "cli-1")
    assert (made["provision_state"], made["name"]) == ("enroll", "cli-1")
    said(running, "node", "manage", "--wait", str(PATIENCE), "cli-1")
    said(running, "node", "set", "--extra", "rack=7", "--resource-class", "big", "cli-1")
    said(running, "node", "add", "trait", "cli-1", "CUSTOM_GOLD")
    shown = said(running, "node", "show", "cli-1", "--fields", "extra", "traits", "resource_class")
    assert shown == {"extra": {"rack": 7}, "traits": ["CUSTOM_GOLD"], "resource_class": "big"}
    steps = '[{"interface": "deploy", "step": "erase_devices"}]'
    said(running, "node", "clean", "--wait", str(PATIENCE), "--clean-steps", steps, "cli-1")
    said(running, "node", "provide", "--wait", str(PATIENCE), "cli-1")
    said(running, "node", "set", "--instance-info", f"image_source={ISO_OF_NOTHING}", "cli-1")
    said(running, "node", "deploy", "--wait", str(PATIENCE), "cli-1")
    (listed,) = said(running, "node", "list", "--provision-state", "active")
    assert (listed["name"], listed["power_state"]) == ("cli-1", "power on")
    said(running, "node", "reboot", "cli-1")
    running.settled("cli-1", "active")
    said(running, "node", "undeploy", "--wait", str(PATIENCE), "cli-1")
    history = said(running, "node", "history", "list", "cli-1")
    assert "Deployment has ended well" in "".join(one["event"] for one in history)
    said(running, "node", "delete", "cli-1")
    gone = baremetal(running.url, "node", "show", "cli-1")
    assert (gone.returncode, gone.stderr[:29]) == (1, "Node cli-1 could not be found")


def test_the_command_line_keeps_what_stands_beside_nodes(running: Service) -> None:
    node = running.create("cli-2")
    rack = said(running, "chassis", "create", "--description", "a rack")
    said(running, "node", "set", "--chassis-uuid", rack["uuid"], "cli-2")
    port = said(running, "port", "create", "--node", node, "52:54:00:aa:bb:01")
    assert [one["uuid"] for one in said(running, "port", "list", "--node", node)] == [port["uuid"]]
    said(running, "port", "set", "--extra", "cable=3", port["uuid"])
    assert said(running, "port", "show", port["uuid"])["extra"] == {"cable": 3}
    steps = '[{"interface": "bios", "step": "factory_reset", "args": {}, "priority": 150}]'
    made = said(running, "deploy", "template", "create", "CUSTOM_CLI", "--steps", steps)
    assert said(running, "deploy", "template", "show", "CUSTOM_CLI")["uuid"] == made["uuid"]
    (one,) = said(running, "conductor", "list")
    assert (one["hostname"], one["alive"]) == ("tester", True)
    known = said(running, "driver", "property", "list", "redfish")
    assert "redfish_address" in {one["property"] for one in known}
    valid = {one["Interface"]: one["Result"] for one in said(running, "node", "validate", "cli-2")}
    assert valid["power"] is True
    for words in (("port", port["uuid"]), ("deploy", "template", "CUSTOM_CLI"), ("node", "cli-2")):
        *kind, name = words
        said(running, *kind, "delete", name)
    said(running, "chassis", "delete", rack["uuid"])


def test_the_command_line_keeps_what_is_outside_of_a_machine(running: Service) -> None:
    node, part = running.create("cli-3"), running.create("cli-4", parent_node="cli-3", shard="east")
    group = said(running, "port", "group", "create", "--node", node, "--name", "cli-bond")
    named = ("--port-group", group["uuid"])
    said(running, "port", "create", "--node", node, *named, "52:54:00:aa:bb:03")
    said(running, "port", "group", "set", "--mode", "802.3ad", "cli-bond")
    assert said(running, "port", "group", "show", "cli-bond")["mode"] == "802.3ad"
    (listed,) = said(running, "port", "list", *named)
    assert listed["address"] == "52:54:00:aa:bb:03"
    for act, left in (("attach", ["cli-vif"]), ("detach", [])):
        done = baremetal(running.url, "node", "vif", act, "cli-3", "cli-vif")
        assert done.returncode == 0, done.stderr
        assert [one["id"] for one in said(running, "node", "vif", "list", "cli-3")] == left
    where = ("--node", node, "--type")
    source = said(
        running, "volume", "connector", "create", *where, "iqn", "--connector-id", "iqn.cli"
    )
    goal = said(
        *(running, "volume", "target", "create", *where, "iscsi", "--boot-index", "0"),
        *("--volume-id", "vol-1", "--property", "auth_password=hush"),
    )
    assert said(running, "volume", "target", "show", goal["uuid"])["properties"] == {
        "auth_password": "******"
    }
    (one,) = said(running, "volume", "connector", "list", "--node", node)
    assert one["uuid"] == source["uuid"]
    children = said(running, "node", "children", "list", "cli-3")
    assert part in json.dumps(children)
    assert {"name": "east", "count": 1} in said(running, "shard", "list")
    said(running, "volume", "connector", "delete", source["uuid"])
    said(running, "node", "delete", "cli-4")
    said(running, "node", "delete", "cli-3")
    assert said(running, "port", "group", "list") == []
    assert said(running, "volume", "target", "list") == []


# -- with a login ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Iterator[Service]:
    """The service with one user, ann, whose password is sesame."""
    with service.short_folder() as folder:
        users = folder / "htpasswd"
        users.write_text(f"ann:{bcrypt.hashpw(b'sesame', bcrypt.gensalt(4)).decode()}\n")
        more = f"[DEFAULT]\nhttp_basic_auth_user_file = {users}\n"
        with service.service(f"[api]\nauth_strategy = http_basic\n{more}") as found:
            found.session.auth = ("ann", "sesame")
            found.start()
            found.up()
            yield found


def login(running: Service, password: str) -> Any:
    """Return the configuration of openstacksdk of a user."""
    return openstack.config.OpenStackConfig(load_yaml_config=False, load_envvars=False).get_one(
        auth_type="http_basic",
        auth={"endpoint": running.url, "username": "ann", "password": password},
        baremetal_endpoint_override=running.url,
    )


def logged_in(running: Service, password: str) -> Any:
    """Return what openstacksdk knows of bare metal, by the login of a user."""
    return openstack.connection.Connection(config=login(running, password)).baremetal


def test_the_library_logs_in_by_name_and_password(guarded: Service) -> None:
    cloud = logged_in(guarded, "sesame")
    secret = {"redfish_password": "s3cret"}
    node = cloud.create_node(name="basic-1", driver="fake-hardware", driver_info=secret)
    assert node.driver_info == {"redfish_password": "******"}
    for target, state in (("manage", "manageable"), ("provide", "available")):
        node = cloud.set_node_provision_state(node, target, wait=True, timeout=PATIENCE)
        assert (node.provision_state, node.last_error) == (state, None)
    assert [one.name for one in cloud.nodes()] == ["basic-1"]
    (run, *_) = guarded.get("/v1/nodes/basic-1/runs")["runs"]
    assert run["requester"] == "ann"
    cloud.delete_node(cloud.set_node_provision_state(node, "manage", wait=True))
    with pytest.raises(openstack.exceptions.NotFoundException):
        cloud.get_node("basic-1")


def test_the_library_is_told_of_a_wrong_password(guarded: Service) -> None:
    cloud = logged_in(guarded, "simsim")
    with pytest.raises(openstack.exceptions.HttpException, match="401"):
        cloud.create_node(driver="fake-hardware")
    assert guarded.get("/v1/nodes") == {"nodes": []}


def test_the_command_line_logs_in_by_name_and_password(guarded: Service) -> None:
    words = ("--os-auth-type", "http_basic", "--os-username", "ann", "--os-password")
    done = baremetal(guarded.url, *words, "sesame", "driver", "list", "-f", "value")
    assert (done.returncode, "fake-hardware" in done.stdout) == (0, True), done.stderr
    done = baremetal(guarded.url, *words, "simsim", "driver", "list")
    assert (done.returncode, "401" in done.stderr) == (1, True), done.stderr


def test_metalsmith_reserves_with_a_login(guarded: Service) -> None:
    node = machine(guarded, "basic-2")
    smith = Provisioner(cloud_region=login(guarded, "sesame"))
    assert smith.reserve_node("baremetal", hostname="web-2").id == node


# -- metalsmith ------------------------------------------------------------------------------


@pytest.fixture
def smith(running: Service) -> Provisioner:
    """Metalsmith, by a cloud that asks for no login."""
    region = openstack.config.OpenStackConfig(load_yaml_config=False, load_envvars=False).get_one(
        auth_type="none", auth={"endpoint": running.url}, baremetal_endpoint_override=running.url
    )
    return Provisioner(cloud_region=region)


def test_metalsmith_reserves_provisions_shows_and_gives_back(
    running: Service, smith: Provisioner
) -> None:
    properties = {"local_gb": 100, "capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"}
    node = machine(running, "smith-1", properties=properties)
    reserved = smith.reserve_node("baremetal", hostname="web-1", capabilities={"boot_mode": "uefi"})
    assert (reserved.id, reserved.instance_info["capabilities"]) == (node, {"boot_mode": "uefi"})
    image = sources.HttpWholeDiskImage(ISO_OF_NOTHING, checksum="0" * 64)
    config = instance_config.GenericConfig(ssh_keys=["ssh-ed25519 AAAA"])
    instance = smith.provision_node(reserved, image, config=config, wait=PATIENCE)
    assert (instance.state, instance.hostname) == (InstanceState.ACTIVE, "web-1")
    info = running.get(f"/v1/nodes/{node}")["instance_info"]
    assert (info["image_source"], info["root_gb"]) == (ISO_OF_NOTHING, 99)
    assert [one.uuid for one in smith.list_instances()] == [instance.uuid]
    assert smith.show_instance("web-1").node.id == node
    given_back = smith.unprovision_node("web-1", wait=PATIENCE)
    assert (given_back.provision_state, given_back.allocation_id) == ("available", None)
    assert smith.list_instances() == []
    with pytest.raises(exceptions.InstanceNotFound):
        smith.show_instance("web-1")


def test_metalsmith_says_when_no_machine_fits(running: Service, smith: Provisioner) -> None:
    with pytest.raises(exceptions.NodesNotFound):
        smith.reserve_node("huge", capabilities={"boot_mode": "bios"})
    with pytest.raises(exceptions.ReservationFailed, match="huge"):
        smith.reserve_node("huge")


# -- commands that wait, runs and events ------------------------------------------------------


def test_refusal_with_retry_after_does_not_break_the_client(running: Service) -> None:
    """The client raises a TypeError for Retry-After, so it gets none."""
    running.create("cli-locked", driver_info={"fake_step_seconds": 20})
    running.ask("PUT", "/v1/nodes/cli-locked/states/provision", {"target": "manage"})
    done = baremetal(running.url, "--max-retries", "1", "node", "reboot", "cli-locked")
    assert (done.returncode, "is locked by host" in done.stderr) == (1, True), done.stderr
    direct = running.ask("PUT", "/v1/nodes/cli-locked/states/power", {"target": "power on"})
    assert (direct.status_code, 5 <= int(direct.headers["Retry-After"]) <= 10) == (409, True)
    assert "for the run" in direct.text
    waited = baremetal(
        running.url, "node", "wait", "cli-locked", "--until", "active", "--within", "1"
    )
    assert (waited.returncode, "TypeError" in waited.stderr) == (75, False), waited.stderr


@pytest.mark.feature("why")
def test_command_explains_a_failed_node(running: Service) -> None:
    fault = {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}}
    running.create("cli-why", driver_info=fault)
    running.provision("cli-why", "manage", "manageable")
    running.ask("PUT", "/v1/nodes/cli-why/states/provision", {"target": "provide"})
    running.get("/v1/nodes/cli-why?wait=60&until=clean-failed")
    done = baremetal(running.url, "node", "why", "cli-why")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("cli-why: clean failed since ")
    assert lines[1].startswith("Cleaning failed at deploy.erase_devices")
    assert lines[2] == "do        Read the log of the run, and fix the cause. Then use retry."
    assert any(line.startswith("cause     HardwareError disk 3") for line in lines)
    assert "verb      manage leads to manageable" in lines
    document = baremetal(running.url, "node", "why", "cli-why", "-f", "json")
    assert json.loads(document.stdout)["failure"]["cause"]["text"] == "disk 3"
    assert baremetal(running.url, "node", "why", "no-such").returncode == 1


@pytest.mark.feature("events")
def test_commands_wait_watch_and_list(running: Service) -> None:
    running.create("cli-watch", driver_info={"fake_step_seconds": 1})
    assert baremetal(running.url, "node", "manage", "cli-watch").returncode == 0
    waited = baremetal(running.url, "node", "wait", "cli-watch", "--until", "manageable")
    assert (waited.returncode, waited.stdout) == (0, "manageable\n"), waited.stderr
    assert baremetal(running.url, "node", "provide", "cli-watch").returncode == 0
    watched = baremetal(running.url, "node", "run", "watch", "cli-watch")
    assert watched.returncode == 0, watched.stderr
    lines = watched.stdout.splitlines()
    assert any("[2/2] deploy.erase_devices: done" in line for line in lines), lines
    assert lines[-1].startswith("provide: done after ")
    runs = said(running, "node", "run", "list", "cli-watch")
    assert [run["verb"] for run in runs] == ["provide", "manage"]
    shown = said(running, "node", "run", "show", "cli-watch", runs[0]["uuid"])
    assert (shown["state"], len(shown["steps"])) == ("done", 2)
    logged = baremetal(running.url, "node", "run", "log", "cli-watch", runs[1]["uuid"])
    assert (logged.returncode, "manage, enroll -> verifying" in logged.stdout) == (0, True), logged
    words = ("event", "list", "--node", "cli-watch", "--kind", "provision", "--since", "0")
    moves = said(running, *words)
    assert [move["event"] for move in moves] == ["manage", "done", "provide", "done"]
    followed = baremetal(running.url, "event", "watch", *words[2:], "--limit", "2")
    assert (followed.returncode, len(followed.stdout.splitlines())) == (0, 2), followed.stderr


@pytest.mark.feature("events")
def test_failed_run_ends_the_commands_with_status_3(running: Service) -> None:
    running.create("cli-fails", driver_info={"fake_fail_steps": {"deploy.erase_devices": "disk 3"}})
    running.provision("cli-fails", "manage", "manageable")
    assert baremetal(running.url, "node", "provide", "cli-fails").returncode == 0
    waited = baremetal(running.url, "node", "wait", "cli-fails", "--until", "available")
    assert (waited.returncode, "disk 3" in waited.stderr) == (3, True), waited
    watched = baremetal(running.url, "node", "run", "watch", "cli-fails")
    assert (watched.returncode, "disk 3" in watched.stdout) == (3, True), watched
    logged = baremetal(running.url, "node", "run", "log", "cli-fails", "--follow")
    assert (logged.returncode, "deploy.erase_devices failed" in logged.stdout) == (3, True), logged
    assert logged.stdout.count("deploy.erase_devices begins") == 1, logged
    nobody = baremetal(running.url, "node", "wait", "nobody", "--until", "available")
    assert (nobody.returncode, "could not be found" in nobody.stderr) == (1, True), nobody


def test_retry_waives_a_step_and_waits_for_the_end(running: Service) -> None:
    running.create("cli-retry", driver_info={"fake_fail_steps": {"deploy.erase_devices": "disk 3"}})
    running.provision("cli-retry", "manage", "manageable")
    assert baremetal(running.url, "node", "provide", "cli-retry").returncode == 0
    failed = baremetal(running.url, "node", "wait", "cli-retry", "--until", "available")
    assert failed.returncode == 3, failed
    again = baremetal(running.url, "node", "retry", "cli-retry", "--wait", "60")
    with contextlib.closing(sqlite3.connect(running.folder / "state/ironic-lite.sqlite")) as kept:
        assert kept.execute("SELECT state, status FROM idempotency").fetchall() == [("done", 202)]
    assert (again.returncode, again.stdout.splitlines()[-1]) == (3, "failed"), again
    words = ("--waive", "the disk goes to the shredder", "--wait", "60")
    waived = baremetal(running.url, "node", "retry", "cli-retry", *words)
    run, state = waived.stdout.splitlines()
    assert (waived.returncode, state) == (0, "done"), waived
    shown = said(running, "node", "run", "show", "cli-retry", run)
    assert [step["state"] for step in shown["steps"]] == ["done", "waived"]
    late = baremetal(running.url, "node", "retry", "cli-retry", "--from", "0")
    assert (late.returncode, "retry" in late.stderr) == (1, True), late


def test_commands_hold_a_node_and_end_the_hold(running: Service) -> None:
    running.create("cli-held")
    about = ("--kind", "audit", "--reason", "case 7", "--block", "verbs", "--block", "power")
    made = baremetal(running.url, "node", "hold", "create", "cli-held", *about, "-f", "json")
    assert made.returncode == 0, made.stderr
    hold = json.loads(made.stdout)
    assert (hold["kind"], hold["blocks"], hold["until"]) == ("audit", "verbs,power", None)
    listed = baremetal(running.url, "node", "hold", "list", "cli-held", "-f", "json")
    assert json.loads(listed.stdout) == [{**hold, "node_name": "cli-held"}]
    words = ("node", "hold", "delete", "cli-held", hold["uuid"], "--reason", "over")
    assert baremetal(running.url, *words).returncode == 0
    ended = baremetal(running.url, "node", "hold", "list", "cli-held", "--ended", "-f", "json")
    assert json.loads(ended.stdout)[0]["end_reason"] == "over"


@pytest.mark.feature("erasures")
def test_commands_list_show_and_verify_erasures(running: Service) -> None:
    disk = {"name": "/dev/sda", "serial": "S-cli", "result": "erased", "level": "clear"}
    node = machine(running, "cli-15", driver_info={"fake_erasures": [disk]})
    assert said(running, "node", "data", "state", "show", "cli-15")["data_state"] == "clean"
    reason = ("--reason", "borrowed")
    words = ("node", "data", "state", "set", "cli-15", "dirty", *reason, "-f", "json")
    done = baremetal(running.url, *words)
    assert json.loads(done.stdout)["data_state_by"] == "declared", done.stderr
    (one,) = said(running, "erasure", "list", "--serial", "S-cli")
    assert (one["node_uuid"], one["result"]) == (node, "complete")
    assert said(running, "erasure", "show", one["uuid"])["disks"] == [disk]
    done = baremetal(running.url, "erasure", "verify", "--node", "cli-15", "-f", "json")
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["verified"]) == (3, "not signed")


@pytest.mark.feature("batches")
@pytest.mark.feature("events")
def test_commands_begin_watch_and_delete_a_batch(running: Service) -> None:
    for name in ("cli-batch-1", "cli-batch-2"):
        running.create(name, resource_class="cli-batch")
    chosen = ("--filter", "resource_class=cli-batch", "--expect", "2", "--waves", "1,100%")
    made = said(running, "batch", "create", "inspect", *chosen, "--plan")
    assert (made["state"], made["waves"], made["uuid"]) == ("planned", [1, 1], None)
    words = ("--name", "cli", "-f", "json")
    begun = baremetal(running.url, "batch", "create", "manage", *chosen, *words)
    assert begun.returncode == 0, begun.stderr
    batch = json.loads(begun.stdout)["uuid"]
    watched = baremetal(running.url, "batch", "watch", batch, "--within", str(PATIENCE))
    assert (watched.returncode, "cli: done, wave 2 of 2" in watched.stdout) == (0, True), watched
    nodes = said(running, "batch", "node", "list", batch)
    assert [one["result"] for one in nodes] == ["done", "done"]
    assert len(said(running, "run", "list", "--batch", batch)) == 2
    assert said(running, "batch", "list")[0]["ended"] == 2
    late = baremetal(running.url, "batch", "pause", batch)
    assert (late.returncode, "cannot be paused" in late.stderr) == (1, True), late
    said(running, "batch", "delete", batch)
    assert baremetal(running.url, "batch", "show", batch).returncode == 1
