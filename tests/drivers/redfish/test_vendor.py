"""Subscriptions to a BMC's events, by vendor passthru as Ironic has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import passthru
from ironic_lite.drivers.base import Call
from ironic_lite.drivers.redfish import vendor
from tests.emulators import bmc
from tests.emulators.bmc import shapes
from tests.emulators.bmc.server import Handler
from tests.support import bmc_tasks

VENDOR = vendor.RedfishVendor()
SERVICE = "/redfish/v1/EventService"
ALL = f"{SERVICE}/Subscriptions"
LISTENER = "https://listener.example.org/events"

Json = dict[str, Any]


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    """A machine whose BMC has events; it keeps what it is sent."""
    with bmc.serve() as running:
        running.tree[shapes.ROOT]["EventService"] = {"@odata.id": SERVICE}
        running.tree[SERVICE] = {
            "Id": "EventService",
            "EventTypesForSubscription": ["Alert", "StatusChange"],
            "Subscriptions": {"@odata.id": ALL},
        }
        running.tree[ALL] = {"Members": [], "Members@odata.count": 0}

        def create(handler: Handler) -> None:
            path = f"{ALL}/7"
            sent = running.requests[-1].body
            running.tree[path] = {"Id": "7", "Name": "x", "HttpHeaders": None, **sent}
            running.tree[ALL]["Members"].append({"@odata.id": path})
            handler.say(201, None, Location=f"{running.url}{path}")

        def remove(handler: Handler) -> None:
            running.tree.pop(running.requests[-1].path)
            handler.say(204)

        running.tricks[f"POST {ALL}"] = create
        running.tricks[f"DELETE {ALL}/*"] = remove
        yield running


@pytest.fixture
def task(machine: bmc.Machine) -> bmc_tasks.BmcTask:
    return bmc_tasks.task_of(machine)


def call(task: bmc_tasks.BmcTask, name: str, verb: str = "POST", **info: Any) -> Any:
    told = Call(verb, info)
    VENDOR.check_passthru(task, name, told)
    return getattr(VENDOR, name)(task, told)


def test_the_methods_are_those_of_ironic() -> None:
    found = passthru.collect(VENDOR, passthru.NODE)
    assert {name: (route.verbs, route.async_call) for name, route in found.items()} == {
        "create_subscription": (("POST",), False),
        "delete_subscription": (("DELETE",), False),
        "get_all_subscriptions": (("GET",), False),
        "get_subscription": (("GET",), False),
        "eject_vmedia": (("POST",), True),
    }


def test_a_subscription_comes_is_seen_and_goes(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    made = call(task, "create_subscription", Destination=LISTENER)
    standard = {"Protocol": "Redfish", "Context": "", "EventTypes": ["Alert"]}
    assert made == {"Id": "7", "Destination": LISTENER, **standard}
    assert call(task, "get_subscription", "GET", id="7") == made
    members = call(task, "get_all_subscriptions", "GET")["Members"]
    assert members == [{"@odata.id": f"{ALL}/7"}]
    assert call(task, "delete_subscription", "DELETE", id="7") is None
    for name, verb in (("get_subscription", "GET"), ("delete_subscription", "DELETE")):
        with pytest.raises(errors.NotFound, match="Subscription 7"):
            call(task, name, verb, id="7")
    assert machine.log.count(f"DELETE {ALL}/7") == 1


def refuse_event_types(machine: bmc.Machine) -> None:
    """Have the BMC refuse EventTypes, as those do that know RegistryPrefixes instead."""
    create = machine.tricks[f"POST {ALL}"]

    def judge(handler: Handler) -> None:
        if "EventTypes" not in machine.requests[-1].body:
            create(handler)
            return
        error = {"code": "Base.1.8.PropertyUnknown", "message": "EventTypes is unknown."}
        handler.say(400, {"error": error})

    machine.tricks[f"POST {ALL}"] = judge


def test_event_types_that_nobody_asked_for_are_left_out_if_the_bmc_refuses_them(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    refuse_event_types(machine)
    assert call(task, "create_subscription", Destination=LISTENER)["Id"] == "7"
    posted = [one.body for one in machine.requests if one.method == "POST"]
    assert ["EventTypes" in body for body in posted] == [True, False]


@pytest.mark.parametrize(
    ("known", "asked"), [(["Alert"], []), (["ResourceAdded"], None)], ids=["empty", "not Alert"]
)
def test_event_types_are_not_sent_if_empty_or_if_the_bmc_has_no_alerts(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, known: list[str], asked: list[str] | None
) -> None:
    machine.tree[SERVICE]["EventTypesForSubscription"] = known
    call(task, "create_subscription", Destination=LISTENER, EventTypes=asked)
    (posted,) = [one.body for one in machine.requests if one.method == "POST"]
    assert posted == {"Destination": LISTENER, "Protocol": "Redfish", "Context": ""}


def test_subscription_that_the_bmc_refuses_is_a_fault_of_the_request(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    refuse_event_types(machine)
    with pytest.raises(errors.InvalidParameter, match=r"EventTypes is unknown") as caught:
        call(task, "create_subscription", Destination=LISTENER, EventTypes=["Alert"])
    assert caught.value.status == 400


def test_all_that_is_told_is_sent(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    told: Json = {
        "Destination": LISTENER,
        "Protocol": "SNMPv2c",
        "Context": "rack 7",
        "EventTypes": ["StatusChange"],
        "HttpHeaders": [{"Authorization": "Bearer x"}],
    }
    made = call(task, "create_subscription", **told)
    assert machine.requests[-2].body == told
    assert "HttpHeaders" not in made


@pytest.mark.parametrize(
    ("name", "info", "path"),
    [
        ("create_subscription", {}, "Destination"),
        ("create_subscription", {"Destination": "listener"}, "Destination"),
        ("create_subscription", {"Destination": 5}, "Destination"),
        ("create_subscription", {"Destination": LISTENER, "Context": 5}, "Context"),
        ("create_subscription", {"Destination": LISTENER, "Protocol": []}, "Protocol"),
        ("create_subscription", {"Destination": LISTENER, "EventTypes": "Alert"}, "EventTypes"),
        ("create_subscription", {"Destination": LISTENER, "EventTypes": [5]}, "EventTypes"),
        ("create_subscription", {"Destination": LISTENER, "HttpHeaders": {}}, "HttpHeaders"),
        ("create_subscription", {"Destination": LISTENER, "Color": "red"}, "Color"),
        ("delete_subscription", {}, "id"),
        ("get_subscription", {"id": "../../Systems"}, "id"),
        ("delete_subscription", {"id": ".."}, "id"),
        ("get_all_subscriptions", {"id": "7"}, "id"),
        ("eject_vmedia", {"boot_device": "tape"}, "boot_device"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_the_bmc_is_asked(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, name: str, info: Json, path: str
) -> None:
    with pytest.raises(errors.InvalidRequest) as why:
        VENDOR.check_passthru(task, name, Call("POST", info))
    assert why.value.facts["path"] == path
    assert machine.log == []


def test_events_that_the_bmc_has_not_are_refused(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    with pytest.raises(errors.InvalidParameter, match="not have Weather, but Alert, StatusChange"):
        call(task, "create_subscription", Destination=LISTENER, EventTypes=["Weather", "Alert"])
    assert f"POST {ALL}" not in machine.log


@pytest.mark.parametrize("known", [[], [{}], 5, "Alert", None], ids=str)
def test_a_bmc_that_cannot_say_which_events_it_has_judges_itself(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, known: Any
) -> None:
    machine.tree[SERVICE]["EventTypesForSubscription"] = known
    made = call(task, "create_subscription", Destination=LISTENER, EventTypes=["Weather"])
    assert made["EventTypes"] == ["Weather"]


@pytest.mark.parametrize("place", ["http://[", "nowhere", None])
@pytest.mark.parametrize("body", [None, ["Id"]], ids=["no body", "a list"])
def test_an_answer_that_says_nothing_of_the_subscription_is_none(
    machine: bmc.Machine, task: bmc_tasks.BmcTask, place: str | None, body: Any
) -> None:
    def create(handler: Handler) -> None:
        handler.say(201, body, **({} if place is None else {"Location": place}))

    machine.tricks[f"POST {ALL}"] = create
    assert call(task, "create_subscription", Destination=LISTENER) == {}


def test_a_bmc_without_events_is_told_of(machine: bmc.Machine, task: bmc_tasks.BmcTask) -> None:
    del machine.tree[shapes.ROOT]["EventService"]
    with pytest.raises(errors.UnsupportedDriverExtension, match="no EventService"):
        call(task, "get_all_subscriptions", "GET")


def test_drives_are_emptied_by_their_old_names(
    machine: bmc.Machine, task: bmc_tasks.BmcTask
) -> None:
    iso = "http://images.example.org/boot.iso"
    task.driver.management.attach_virtual_media(task, "cdrom", iso)
    inserted = [drive["image"] for drive in task.driver.management.get_virtual_media(task)]
    assert iso in inserted
    call(task, "eject_vmedia", boot_device="cd")
    drives = task.driver.management.get_virtual_media(task)
    assert {drive["image"] for drive in drives} <= {None, ""}
