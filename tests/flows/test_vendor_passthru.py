"""Vendor passthru in the conductor: with the lock or without, at once or by a worker."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import context
from tests.support.conductor_fixture import ConductorFixture, wait_for


def call(rig: ConductorFixture, node: str, method: str, verb: str = "POST", **info: Any) -> Any:
    """Call a method of the node's vendor interface, by a request of its own."""
    return rig.endpoints.vendor_passthru(
        context.internal("test"), node_uuid=node, vendor_method=method, http_method=verb, info=info
    )


def kept(rig: ConductorFixture, node: str) -> dict[str, Any]:
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
    assert kept(rig, node) == {}
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
    assert kept(rig, node) == {"fake_vendor_blinks": 1}


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
    assert (kept(rig, node), rig.events(node, "management")) == ({}, [])


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
