"""The keys that steer a fake machine: what is read, and how nonsense is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import behaviour, vendor
from tests.support import fake_task

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TITLES = st.sampled_from(["deploy.erase_devices", "raid.create_configuration", "vendor.own_step"])
MESSAGES = st.text(min_size=1, max_size=50).filter(str.strip)
AGENT = [
    {"clean_steps": [{"interface": "deploy", "step": "burn_in", "priority": 5}]},
    {"version": "7", "at": "deploy.burn_in"},
]
SENSE = st.fixed_dictionaries(
    {},
    optional={
        "fake_step_seconds": st.floats(0, behaviour.LONGEST) | st.integers(0, behaviour.LONGEST),
        "fake_async_steps": st.lists(TITLES) | st.just(["*"]),
        "fake_fail_steps": st.dictionaries(TITLES, MESSAGES),
        "fake_fail_power": MESSAGES,
        "fake_fail_verbs": st.dictionaries(st.sampled_from(behaviour.VERBS), MESSAGES),
        "fake_async_verbs": st.lists(st.sampled_from(behaviour.ASYNC_VERBS)),
        "fake_ports": st.lists(st.sampled_from(["52:54:00:12:34:56", "52:54:00:AB:CD:EF"])),
        "fake_steps_unavailable": st.integers(-1, behaviour.LONGEST),
        "fake_agent": st.just(AGENT),
        "fake_erasures": st.just([{"name": "/dev/sda", "result": "erased"}]),
    },
)

NONSENSE: list[tuple[str, Any]] = [
    ("fake_step_seconds", -1),
    ("fake_step_seconds", -0.5),
    ("fake_step_seconds", True),
    ("fake_step_seconds", "5"),
    ("fake_step_seconds", None),
    ("fake_step_seconds", float("nan")),
    ("fake_step_seconds", float("inf")),
    ("fake_step_seconds", 10**400),
    ("fake_async_steps", "*"),
    ("fake_async_steps", "deploy.erase_devices"),
    ("fake_async_steps", {"deploy.erase_devices": True}),
    ("fake_async_steps", ["erase_devices"]),
    ("fake_async_steps", ["deploy."]),
    ("fake_async_steps", [".erase_devices"]),
    ("fake_async_steps", ["disks.erase"]),
    ("fake_async_steps", ["deploy.erase.devices"]),
    ("fake_async_steps", ["deploy.erase devices"]),
    ("fake_async_steps", [7]),
    ("fake_async_steps", [["deploy.erase_devices"]]),
    ("fake_fail_steps", ["deploy.erase_devices"]),
    ("fake_fail_steps", "deploy.erase_devices"),
    ("fake_fail_steps", {"*": "broken"}),
    ("fake_fail_steps", {"erase_devices": "broken"}),
    ("fake_fail_steps", {"deploy.erase_devices": ""}),
    ("fake_fail_steps", {"deploy.erase_devices": True}),
    ("fake_fail_steps", {"deploy.erase_devices": None}),
    ("fake_fail_power", True),
    ("fake_fail_power", ""),
    ("fake_fail_power", "  "),
    ("fake_fail_power", None),
    ("fake_fail_power", ["broken"]),
    ("fake_fail_power", "x" * 5000),
    ("fake_fail_verbs", {"clean": "broken"}),
    ("fake_fail_verbs", {"inspect": 5}),
    ("fake_fail_verbs", ["inspect"]),
    ("fake_async_verbs", ["adopt"]),
    ("fake_async_verbs", "inspect"),
    ("fake_async_verbs", [None]),
    ("fake_async_verbs", [{}]),
    ("fake_ports", "52:54:00:12:34:56"),
    ("fake_ports", ["52:54:00:12:34"]),
    ("fake_ports", ["52-54-00-12-34-56"]),
    ("fake_ports", [None]),
    ("fake_steps_unavailable", True),
    ("fake_steps_unavailable", 1.5),
    ("fake_steps_unavailable", -2),
    ("fake_steps_unavailable", "30"),
    ("fake_steps_unavailable", 10**30),
    ("fake_erasures", {}),
    ("fake_erasures", ["sda"]),
    ("fake_erasures", [{"name": "/dev/sda", "result": "gone"}]),
    ("fake_agent", {}),
    ("fake_agent", []),
    ("fake_agent", None),
    ("fake_agent", "1"),
    ("fake_agent", ["1"]),
    ("fake_agent", [{"version": 1}]),
    ("fake_agent", [{"version": ""}]),
    ("fake_agent", [{"steps": []}]),
    ("fake_agent", [{"at": "deploy.erase_devices"}]),
    ("fake_agent", [{}, {}]),
    ("fake_agent", [{}, {"at": "erase_devices"}]),
    ("fake_agent", [{}, {"at": None}]),
    ("fake_agent", [{"clean_steps": {}}]),
    ("fake_agent", [{"clean_steps": None}]),
    ("fake_agent", [{"clean_steps": ["burn_in"]}]),
    ("fake_agent", [{"clean_steps": [{"interface": "deploy", "step": "burn_in"}]}]),
    ("fake_agent", [{"deploy_steps": [{"interface": "boot", "step": "x", "priority": 1}]}]),
    ("fake_agent", [{"service_steps": [{"interface": "x" * 9999, "step": "x", "priority": 1}]}]),
]


@pytest.mark.parametrize(("key", "value"), NONSENSE)
def test_nonsense_is_refused_by_the_name_of_its_key(key: str, value: Any) -> None:
    with pytest.raises(errors.InvalidParameter) as refusal:
        behaviour.parse({key: value})
    assert refusal.value.facts["path"] == f"driver_info/{key}"
    assert len(refusal.value.message) < 1000


@given(st.sampled_from(sorted(behaviour.PROPERTIES)), JSON)
def test_key_with_any_json_is_read_or_refused_by_name(key: str, value: Any) -> None:
    try:
        behaviour.parse({key: value})
    except errors.InvalidParameter as refusal:
        assert refusal.message.startswith(f"driver_info/{key}: ")


@given(SENSE)
def test_sense_is_read_as_it_was_written(info: dict[str, Any]) -> None:
    script = behaviour.parse({**info, "something_else": object()})
    assert script.step_seconds == info.get("fake_step_seconds")
    assert script.async_steps == set(info.get("fake_async_steps", ()))
    assert script.fail_steps == info.get("fake_fail_steps", {})
    assert script.fail_power == info.get("fake_fail_power")
    assert script.fail_verbs == info.get("fake_fail_verbs", {})
    assert script.async_verbs == set(info.get("fake_async_verbs", ()))
    assert script.ports == set(info.get("fake_ports", ()))
    assert script.steps_unavailable == info.get("fake_steps_unavailable")


def test_ramdisks_are_read_in_their_order() -> None:
    first, second = behaviour.parse({"fake_agent": AGENT}).agent
    assert (first.version, first.at) == ("1", None)
    assert [step["step"] for step in first.steps[base.StepKind.CLEAN]] == ["burn_in"]
    assert (second.version, second.at) == ("7", "deploy.burn_in")
    assert second.steps[base.StepKind.CLEAN] == []
    assert behaviour.parse({}).agent == ()


# -- typing errors ---------------------------------------------------------------------------

MISTYPED: list[tuple[str, Any, str]] = [
    ("fake_step_second", 1, "fake_step_seconds"),
    ("fake_", 1, "no such key"),
    ("fake_x" * 500, 1, "no such key"),
    ("fake_async_steps", ["deploy.erase_device"], "erase_devices_metadata"),
    ("fake_fail_steps", {"power.cyle": "broken"}, "power has cycle"),
    ("fake_fail_steps", {"console.connect": "broken"}, "console has none"),
    ("fake_fail_steps", {"power.reboot": "of the engine, no driver runs it"}, "power has cycle"),
    ("fake_agent", [{}, {"at": "deploy.burn_in"}], "'deploy.burn_in' is no step"),
]


def refusals(info: dict[str, Any]) -> list[errors.InvalidParameter]:
    """Return what the interfaces of a fake machine have against a driver_info."""
    found = []
    for interface in fake_task.FAKE.interfaces():
        try:
            interface.check_driver_info(info)
        except errors.InvalidParameter as why:
            found.append(why)
    return found


@pytest.mark.parametrize(("key", "value", "says"), MISTYPED, ids=range(len(MISTYPED)))
def test_typing_errors_are_refused_by_the_name_of_their_key(
    key: str, value: Any, says: str
) -> None:
    found = refusals({key: value})
    assert found
    for why in found:
        assert why.facts["path"].removesuffix("...") in f"driver_info/{key}"
        assert says in why.message
        assert len(why.message) < 1000


@pytest.mark.parametrize(
    "info",
    [
        {"fake_async_steps": ["*"], "faked": 1, "other": 2, "Fake_x": 3},
        {"fake_async_steps": ["deploy.deploy", "raid.apply_configuration"]},
        {"fake_fail_steps": {"vendor.log_passthrough": "no", "management.verify_access": "no"}},
        {"fake_agent": AGENT, "fake_fail_steps": {"deploy.burn_in": "no"}},
    ],
    ids=["other keys", "steps of all kinds", "of all interfaces", "of the agent"],
)
def test_valid_driver_info_is_not_refused(info: dict[str, Any]) -> None:
    assert refusals(info) == []


def test_an_interface_derived_from_a_fake_one_may_bring_steps() -> None:
    class Own(vendor.FakeVendor):
        @base.clean_step(priority=0)
        def own_step(self, task: base.Task) -> None:
            """Do nothing."""

    info = {"fake_fail_steps": {"vendor.own_step": "broken"}}
    Own().check_driver_info(info)
    assert refusals(info)


def test_a_star_makes_every_step_wait() -> None:
    script = behaviour.parse({"fake_async_steps": ["*"]})
    assert script.waits("raid.delete_configuration")
    assert not behaviour.parse({"fake_async_steps": ["raid.x"]}).waits("raid.y")


KINDS = sorted(set(fake_task.FAKE.__slots__) - {"hardware_type"})
STEPS = {"fake_step_seconds", "fake_async_steps", "fake_fail_steps"}
KEYS = {
    "bios": STEPS,
    "deploy": {
        *STEPS,
        *("fake_fail_verbs", "fake_steps_unavailable", "fake_agent", "fake_erasures"),
    },
    "firmware": STEPS,
    "inspect": {"fake_step_seconds", "fake_fail_verbs", "fake_async_verbs", "fake_ports"},
    "management": {*STEPS, "fake_fail_verbs", "fake_fail_calls", "fake_ports", "fake_vendor"},
    "power": {*STEPS, "fake_fail_power"},
    "raid": STEPS,
    "rescue": {"fake_step_seconds", "fake_fail_verbs", "fake_async_verbs"},
    "vendor": {*STEPS, "fake_fail_calls"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fake_interface_names_the_keys_it_heeds(kind: str) -> None:
    assert set(fake_task.FAKE.interface(kind).get_properties()) == KEYS.get(kind, set())


def test_every_key_is_named_by_some_fake_interface() -> None:
    assert set().union(*KEYS.values()) == set(behaviour.PROPERTIES)


@pytest.mark.parametrize("kind", KINDS)
def test_every_fake_interface_knows_the_keys_and_refuses_nonsense(kind: str) -> None:
    interface = fake_task.FAKE.interface(kind)
    if kind in {"network", "storage"}:
        assert interface.get_properties() == {}
        return
    interface.check_driver_info({})
    interface.validate(fake_task.FakeTask())
    with pytest.raises(errors.InvalidParameter, match="driver_info/fake_step_seconds"):
        interface.check_driver_info({"fake_step_seconds": "soon"})
    with pytest.raises(errors.InvalidParameter, match="driver_info/fake_fail_verbs"):
        interface.validate(fake_task.FakeTask(fake_fail_verbs=[]))
