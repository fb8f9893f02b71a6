"""S5.29: others can follow every transition, by oslo.messaging notifications of Ironic's kinds."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest

from docs import requirements
from ironic_lite import errors
from ironic_lite.core import config, context
from ironic_lite.db.queries import nodes
from tests.support import conductor_fixture, rabbit
from tests.support.operator import Operator

Json = dict[str, Any]

_DRIVER = "oslo_messaging_notifications__driver"
_URL = "oslo_messaging_notifications__transport_url"
_TOPIC = "DEFAULT__versioned_notifications_topics"


MANAGED = (
    "node.create.end",
    "node.provision_set.start",
    "node.power_state_corrected.success",
    "node.provision_set.end",
)
"""What is told when a node is made manageable."""


class Ear:
    """A consumer of Ironic's notifications: keeps all it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, Json, Json]] = []
        self.errors: list[str] = []

    def info(self, ctxt: Json, publisher: str, kind: str, payload: Json, about: Json) -> None:
        assert payload["ironic_object.namespace"] == "ironic"
        self.heard.append((publisher, kind, payload["ironic_object.data"], ctxt))

    def error(self, ctxt: Json, publisher: str, kind: str, payload: Json, about: Json) -> None:
        self.errors.append(kind)
        self.info(ctxt, publisher, kind, payload, about)

    def types(self) -> list[str]:
        """Return the types heard so far, in the order of their coming."""
        return [kind.removeprefix("baremetal.") for _, kind, _, _ in self.heard]

    def waits(self, *types: str) -> None:
        """Wait until just these types have been heard."""
        conductor_fixture.wait_for(lambda: sorted(self.types()) == sorted(types), self.types)

    def hears(self, kind: str) -> list[Json]:
        """Wait for notifications of a type and return their data."""
        conductor_fixture.wait_for(lambda: kind in self.types(), self.types)
        return [data for _, found, data, _ in self.heard if found == f"baremetal.{kind}"]

    def forgets(self) -> None:
        """Begin anew."""
        self.heard.clear()


@pytest.fixture
def topic() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def listen(topic: str) -> Iterator[Callable[[str], Ear]]:
    """A function that listens at a URL."""
    config.CONF([], default_config_files=[], default_config_dirs=[])
    made = []

    def start(url: str) -> Ear:
        ear = Ear()
        messaging = oslo_messaging.get_notification_transport(config.CONF, url=url)
        target = oslo_messaging.Target(topic=topic, exchange="ironic")
        listener = oslo_messaging.get_notification_listener(
            messaging, [target], [ear], executor="threading"
        )
        # One thread: more of them would change the order.
        listener.start(override_pool_size=1)
        made.append((listener, messaging))
        return ear

    yield start
    for listener, messaging in made:
        listener.stop()
        listener.wait()
        messaging.cleanup()


@pytest.fixture
def local() -> Iterator[str]:
    """A URL with a short path, as sockets need."""
    with tempfile.TemporaryDirectory(prefix="notes-", dir="/tmp") as folder:
        yield f"local://{folder}/rpc"


@pytest.fixture
def on(topic: str, local: str) -> Json:
    """Options that switch notifications on."""
    return {
        "DEFAULT__notification_level": "info",
        _DRIVER: ["messagingv2"],
        _URL: local,
        _TOPIC: [topic],
    }


@pytest.fixture
def operator(serve: Callable[..., Operator], on: Json) -> Operator:
    return serve(**on)


@pytest.fixture
def ear(listen: Callable[[str], Ear], local: str) -> Ear:
    return listen(local)


@pytest.fixture
def node(operator: Operator, ear: Ear) -> str:
    """A manageable node; what led to it has been heard and forgotten."""
    found = operator.enroll("manageable", name="metal-7")
    ear.waits(*MANAGED)
    ear.forgets()
    return found


# -- transitions -----------------------------------------------------------------------------


def test_s5_29_every_transition_of_a_life_is_notified(operator: Operator, ear: Ear) -> None:
    node = operator.enroll("active")
    operator.provision(node, "deleted")
    moves = [row["event"] for row in operator.rig.events(node, "provision")]
    conductor_fixture.wait_for(lambda: len(told(ear)) == len(moves), lambda: told(ear))
    assert [data["event"] for data in told(ear)] == moves


def told(ear: Ear) -> list[Json]:
    return [data for _, kind, data, _ in ear.heard if ".provision_set." in kind]


def test_a_clean_begins_and_ends(operator: Operator, ear: Ear, node: str) -> None:
    operator.clean(node, "management.reset_bmc")
    ear.waits("node.provision_set.start", "node.provision_set.end")
    (begun,), (ended,) = ear.hears("node.provision_set.start"), ear.hears("node.provision_set.end")
    assert (begun["uuid"], begun["name"], begun["event"]) == (node, "metal-7", "clean")
    assert (begun["previous_provision_state"], begun["provision_state"]) == (
        "manageable",
        "cleaning",
    )
    assert (begun["previous_target_provision_state"], begun["target_provision_state"]) == (
        None,
        "manageable",
    )
    assert (ended["previous_provision_state"], ended["provision_state"]) == (
        "cleaning",
        "manageable",
    )
    assert (ended["previous_target_provision_state"], ended["target_provision_state"]) == (
        "manageable",
        None,
    )


def test_a_failed_clean_is_an_error_with_its_reason(
    operator: Operator, ear: Ear, node: str
) -> None:
    broken = {"management.reset_bmc": "smoke"}
    operator.patches(node, driver_info__fake_fail_steps=broken)
    operator.clean(node, "management.reset_bmc")
    (failed,) = ear.hears("node.provision_set.error")
    assert (failed["provision_state"], failed["maintenance"], failed["fault"]) == (
        "clean failed",
        True,
        "clean failure",
    )
    assert "management.reset_bmc" in failed["last_error"]
    assert failed["clean_step"] == operator.shows(node)["clean_step"]
    assert ear.errors == ["baremetal.node.provision_set.error"]


def test_notification_names_the_requester(operator: Operator, ear: Ear, node: str) -> None:
    answer = operator.api.patch(f"/v1/nodes/{node}", [set_name("metal-8")])
    asked = operator.asks(node, "inspect")
    operator.rig.settled(node)
    # API and conductor send independently, so either may come first.
    ear.hears("node.update.end")
    ear.hears("node.provision_set.start")
    by_type = {kind: (publisher, ctxt) for publisher, kind, _, ctxt in ear.heard}
    publisher, ctxt = by_type["baremetal.node.update.end"]
    assert publisher == "ironic-api.here"
    assert ctxt["request_id"] == answer.headers["x-openstack-request-id"]
    publisher, ctxt = by_type["baremetal.node.provision_set.start"]
    assert publisher == "ironic-conductor.here"
    assert ctxt["request_id"] == asked.headers["x-openstack-request-id"]


def set_name(name: str) -> Json:
    return {"op": "add", "path": "/name", "value": name}


def test_a_refusal_is_not_notified(operator: Operator, ear: Ear, node: str) -> None:
    operator.refused(node, "active", 400)
    taken = operator.api.post("/v1/nodes", {"driver": "fake-hardware", "name": "metal-7"})
    assert taken.status == 409
    operator.clean(node, "management.reset_bmc")
    ear.waits("node.provision_set.start", "node.provision_set.end")


# -- power -----------------------------------------------------------------------------------


def power(operator: Operator, node: str, target: str) -> None:
    answer = operator.api.put(f"/v1/nodes/{node}/states/power", {"target": target})
    assert answer.status == 202, answer.text
    operator.rig.settled(node)


def test_a_power_change_begins_and_ends(operator: Operator, ear: Ear, node: str) -> None:
    power(operator, node, "power on")
    ear.waits("node.power_set.start", "node.power_set.end")
    (begun,), (ended,) = ear.hears("node.power_set.start"), ear.hears("node.power_set.end")
    assert (begun["to_power"], begun["power_state"]) == ("power on", "power off")
    assert begun["target_power_state"] == "power on"
    assert (ended["to_power"], ended["power_state"]) == ("power on", "power on")


def test_a_power_change_that_fails_is_an_error(operator: Operator, ear: Ear, node: str) -> None:
    operator.patches(node, driver_info__fake_fail_power="smoke")
    ear.hears("node.update.end")
    power(operator, node, "power on")
    (failed,) = ear.hears("node.power_set.error")
    assert failed["last_error"] == operator.shows(node)["last_error"]
    assert (failed["power_state"], failed["to_power"]) == ("power off", "power on")


def test_a_corrected_power_state_tells_what_it_was(
    serve: Callable[..., Operator], on: Json, ear: Ear
) -> None:
    operator = serve(**on, conductor__force_power_state_during_sync=False)
    node = operator.enroll("manageable")
    ear.waits(*MANAGED)
    ear.forgets()
    operator.rig.edit(node, power_state="power on")
    sweep(operator, "power sync")
    (found,) = ear.hears("node.power_state_corrected.success")
    assert (found["from_power"], found["power_state"]) == ("power on", "power off")


def test_a_machine_whose_power_cannot_be_read_goes_into_maintenance(
    serve: Callable[..., Operator], on: Json, ear: Ear
) -> None:
    operator = serve(**on, conductor__power_state_sync_max_retries=0)
    node = operator.enroll("manageable")
    ear.waits(*MANAGED)
    ear.forgets()
    operator.patches(node, driver_info__fake_fail_power="smoke")
    sweep(operator, "power sync")
    well = [{"op": "remove", "path": "/driver_info/fake_fail_power"}]
    assert operator.api.patch(f"/v1/nodes/{node}", well).status == 200
    sweep(operator, "power recovery")
    kinds = ("node.maintenance_set.end", "node.power_state_corrected.success")
    ear.waits("node.update.end", "node.update.end", *kinds, *kinds)
    begun, ended = ear.hears("node.maintenance_set.end")
    assert (begun["maintenance"], begun["fault"]) == (True, "power failure")
    assert (ended["maintenance"], ended["fault"]) == (False, None)


def sweep(operator: Operator, name: str) -> None:
    operator.rig.sweep(name)


# -- nodes, ports, chassis -------------------------------------------------------------------


def test_a_node_is_created_changed_and_deleted(operator: Operator, ear: Ear) -> None:
    node = operator.enroll("enroll", resource_class="big")
    operator.patches(node, name="metal-9")
    answer = operator.api.put(f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_A"]})
    assert answer.status == 204
    until_then = ("node.create.end", "node.update.end", "node.update.end")
    ear.waits(*until_then)  # traits are read when they are sent, and go with the node
    assert operator.api.delete(f"/v1/nodes/{node}").status == 204
    ear.waits(*until_then, "node.delete.end")
    (created,), (deleted,) = ear.hears("node.create.end"), ear.hears("node.delete.end")
    renamed, traits = ear.hears("node.update.end")
    assert (created["provision_state"], created["resource_class"]) == ("enroll", "big")
    assert created["created_at"].endswith("Z")
    assert (renamed["name"], renamed["resource_class"]) == ("metal-9", "big")
    assert renamed["updated_at"].endswith("Z")
    assert (traits["name"], traits["traits"]) == ("metal-9", ["CUSTOM_A"])
    assert (deleted["uuid"], deleted["name"]) == (node, "metal-9")


@pytest.mark.parametrize("way", ["add", "remove", "clear"])
def test_each_way_to_change_traits_is_told_with_all_of_them(
    operator: Operator, ear: Ear, node: str, way: str
) -> None:
    traits = f"/v1/nodes/{node}/traits"
    operator.api.put(traits, {"traits": ["CUSTOM_A", "CUSTOM_B"]})
    assert ear.hears("node.update.end")[-1]["traits"] == ["CUSTOM_A", "CUSTOM_B"]
    ear.forgets()
    if way == "add":
        answer = operator.api.put(f"{traits}/CUSTOM_C", None)
    else:
        answer = operator.api.delete(f"{traits}/CUSTOM_A" if way == "remove" else traits)
    assert answer.status == 204
    (data,) = ear.hears("node.update.end")
    assert data["name"] == "metal-7"
    assert data["traits"] == operator.shows(node)["traits"]


def test_maintenance_has_a_type_of_its_own(operator: Operator, ear: Ear, node: str) -> None:
    operator.api.put(f"/v1/nodes/{node}/maintenance", {"reason": "a fan"})
    (begun,) = ear.hears("node.maintenance_set.end")
    assert (begun["maintenance"], begun["maintenance_reason"]) == (True, "a fan")
    assert begun["name"] == "metal-7"
    ear.forgets()
    operator.api.delete(f"/v1/nodes/{node}/maintenance")
    (ended,) = ear.hears("node.maintenance_set.end")
    assert (ended["maintenance"], ended["maintenance_reason"]) == (False, None)


def test_a_port_is_created_changed_and_deleted(operator: Operator, ear: Ear, node: str) -> None:
    body = {"node_uuid": node, "address": "52:54:00:00:00:01"}
    port = operator.api.post("/v1/ports", body).json["uuid"]
    change = [{"op": "replace", "path": "/pxe_enabled", "value": False}]
    assert operator.api.patch(f"/v1/ports/{port}", change).status == 200
    assert operator.api.delete(f"/v1/ports/{port}").status == 204
    ear.waits("port.create.end", "port.update.end", "port.delete.end")
    shown = [(data["uuid"], data["node_uuid"], data["pxe_enabled"]) for _, _, data, _ in ear.heard]
    assert shown == [(port, node, True), (port, node, False), (port, node, False)]


def test_a_port_that_stays_as_it_is_is_not_notified(
    operator: Operator, ear: Ear, node: str
) -> None:
    body = {"node_uuid": node, "address": "52:54:00:00:00:01"}
    port = operator.api.post("/v1/ports", body).json["uuid"]
    same = [{"op": "replace", "path": "/pxe_enabled", "value": True}]
    assert operator.api.patch(f"/v1/ports/{port}", same).status == 200
    assert operator.api.delete(f"/v1/ports/{port}").status == 204
    ear.waits("port.create.end", "port.delete.end")


def test_a_chassis_is_created_changed_and_deleted(operator: Operator, ear: Ear) -> None:
    chassis = operator.api.post("/v1/chassis", {"description": "row 1"}).json["uuid"]
    path = f"/v1/chassis/{chassis}"
    for value in ("row 2", "row 2"):  # the second changes nothing
        change = [{"op": "replace", "path": "/description", "value": value}]
        assert operator.api.patch(path, change).status == 200
    assert operator.api.delete(path).status == 204
    ear.waits("chassis.create.end", "chassis.update.end", "chassis.delete.end")
    assert [data["description"] for _, _, data, _ in ear.heard] == ["row 1", "row 2", "row 2"]


# -- what never happens ----------------------------------------------------------------------


def test_no_secret_leaves(operator: Operator, ear: Ear) -> None:
    node = operator.enroll(
        "available",
        driver_info={"redfish_password": "sesame", "redfish_address": "https://me:sesame@bmc"},
        extra={"api_key": "sesame"},
    )
    operator.patches(node, instance_info={"image_url": "sesame", "root_password": "sesame"})
    operator.provision(node, "active", configdrive={"user_data": "sesame"})
    operator.provision(node, "deleted")
    assert operator.api.delete(f"/v1/nodes/{node}").status == 204
    (created,) = ear.hears("node.create.end")
    ear.hears("node.delete.end")
    assert created["driver_info"]["redfish_password"] == "******"
    assert "sesame" not in str(ear.heard)


def test_uncommitted_transition_is_not_notified(operator: Operator, ear: Ear, node: str) -> None:
    who = context.internal("test")
    with operator.rig.tasks.lock(who, node) as task:
        token = operator.rig.get(node)["lock_token"]
        operator.rig.database.write(lambda conn: nodes.unlock(conn, node, token=token))
        with pytest.raises(errors.LockLost):
            task.move("clean")
    operator.clean(node, "management.reset_bmc")
    ear.waits("node.provision_set.start", "node.provision_set.end")


@pytest.fixture
def broker() -> Iterator[str]:
    with rabbit.own_url() as url:
        yield url


def test_rabbit_carries_them(
    serve: Callable[..., Operator], on: Json, listen: Callable[[str], Ear], broker: str
) -> None:
    ear = listen(broker)
    operator = serve(**{**on, _URL: broker})
    node = operator.enroll("available")
    assert ear.hears("node.create.end")[0]["uuid"] == node
    conductor_fixture.wait_for(lambda: ear.types().count("node.provision_set.end") == 2, ear.types)


def test_a_broker_that_is_away_fails_and_holds_up_nothing(
    serve: Callable[..., Operator], on: Json
) -> None:
    operator = serve(**{**on, _URL: "rabbit://guest:guest@127.0.0.1:1/"})
    node = operator.enroll("active")
    assert operator.shows(node)["last_error"] is None
    operator.provision(node, "deleted")
    assert operator.api.delete(f"/v1/nodes/{node}").status == 204


# -- the page --------------------------------------------------------------------------------


def test_the_example_of_the_documentation_has_the_form_of_a_real_one(
    operator: Operator, ear: Ear, node: str
) -> None:
    page = (requirements.DOCS / "notifications.rst").read_text()
    block = page.split(".. code-block:: json\n")[1].split("\nGuarantees")[0]
    shown = json.loads(block)
    operator.clean(node, "deploy.erase_devices")
    (begun,) = ear.hears("node.provision_set.start")
    example = shown["payload"]["ironic_object.data"]
    assert shown["event_type"] == "baremetal.node.provision_set.start"
    assert {name: type(value) for name, value in example.items()} == {
        name: type(value) for name, value in begun.items()
    } | {"resource_class": str}
