"""Steps of a fake machine: which there are, how long they take, how they wait and fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.domain import raid, vocabulary
from ironic_lite.drivers import base
from ironic_lite.drivers.base import StepKind
from ironic_lite.drivers.fake import behaviour, hardware
from tests.support import fake_task

FakeTask = fake_task.FakeTask

VOLUMES = {"logical_disks": [{"size_gb": 1, "raid_level": "0"}]}
APPLY = {name: arg.required for name, arg in raid.APPLY_ARGS.items()}
LISTED: dict[StepKind, dict[str, tuple[float, bool, dict[str, bool]]]] = {
    StepKind.CLEAN: {
        "deploy.erase_devices": (10, True, {}),
        "deploy.erase_devices_metadata": (99, True, {}),
        "raid.create_configuration": (
            0,
            True,
            dict.fromkeys(raid.CREATE_ARGS, False),
        ),
        "raid.delete_configuration": (0, False, {}),
        "bios.apply_configuration": (0, False, {"settings": True}),
        "bios.factory_reset": (0, False, {}),
        "firmware.update": (0, False, {"settings": True}),
        "management.reset_bmc": (0, False, {}),
        "power.cycle": (0, False, {}),
        "vendor.log_passthrough": (0, False, {}),
    },
    StepKind.DEPLOY: {
        "deploy.deploy": (100, True, {}),
        "deploy.write_image": (80, True, {}),
        "deploy.boot_instance": (20, True, {}),
        "raid.apply_configuration": (0, True, APPLY),
        "raid.delete_configuration": (0, True, {}),
        "bios.apply_configuration": (0, True, {"settings": True}),
        "bios.factory_reset": (0, True, {}),
        "firmware.update": (0, True, {"settings": True}),
    },
    StepKind.SERVICE: {
        "vendor.log_passthrough": (0, False, {}),
        "raid.apply_configuration": (0, False, APPLY),
        "raid.delete_configuration": (0, False, {}),
        "bios.apply_configuration": (0, False, {"settings": True}),
        "bios.factory_reset": (0, False, {}),
        "firmware.update": (0, False, {"settings": True}),
    },
}
FAILURES = {
    StepKind.CLEAN: errors.CleanStepFailed,
    StepKind.DEPLOY: errors.DeployStepFailed,
    StepKind.SERVICE: errors.StepFailed,
}
SETTINGS = [{"name": "boot", "value": "fast"}]
IMAGES = [{"component": "bmc", "url": "http://images.example.org/bmc-7.bin"}]
TITLES = [(kind, title) for kind, listed in LISTED.items() for title in listed]


ARGS: dict[str, dict[str, Any]] = {
    "bios.apply_configuration": {"settings": SETTINGS},
    "firmware.update": {"settings": IMAGES},
    "raid.apply_configuration": {"raid_config": VOLUMES},
}


def _args(title: str) -> dict[str, Any]:
    return ARGS.get(title, {})


@pytest.fixture
def five_seconds() -> Iterator[None]:
    """Set what a step takes on nodes that say nothing."""
    config.CONF.set_override("step_seconds", 5, group="fake")
    yield
    config.CONF.clear_override("step_seconds", group="fake")


@pytest.mark.parametrize("kind", LISTED)
def test_the_steps_are_those_of_the_list(kind: StepKind) -> None:
    task = FakeTask()
    found = {
        f"{step['interface']}.{step['step']}": (
            step["priority"],
            step["abortable"],
            {name: arg["required"] for name, arg in (step["argsinfo"] or {}).items()},
        )
        for interface in task.driver.interfaces()
        for step in getattr(interface, f"get_{kind}_steps")(task)
    }
    assert found == LISTED[kind]


@pytest.mark.parametrize(("kind", "title"), TITLES)
def test_every_step_succeeds_by_default_and_takes_no_time(kind: StepKind, title: str) -> None:
    task = FakeTask(fake_task.node(target_raid_config=VOLUMES))
    assert fake_task.run(task, kind, title, **_args(title)) is None
    assert task.pauses == task.timers == []


@pytest.mark.parametrize(("kind", "title"), TITLES)
def test_every_step_can_be_run_twice(kind: StepKind, title: str) -> None:
    task = FakeTask(fake_task.node(target_raid_config=VOLUMES))
    fake_task.run(task, kind, title, **_args(title))
    fake_task.run(task.elsewhere(), kind, title, **_args(title))


@pytest.mark.parametrize(("kind", "title"), TITLES)
def test_a_step_told_to_fail_does_so_by_its_kind_after_its_time(kind: StepKind, title: str) -> None:
    task = FakeTask(fake_fail_steps={title: "the disk {burns}"}, fake_step_seconds=1.5)
    with pytest.raises(FAILURES[kind]) as failure:
        fake_task.run(task, kind, title, **_args(title))
    assert type(failure.value) is FAILURES[kind]
    assert failure.value.message == f"Step {title} failed: the disk {{burns}}"
    assert task.pauses == [1.5]


@pytest.mark.parametrize(("kind", "title"), TITLES)
@pytest.mark.parametrize("told", ["by name", "by star"])
def test_a_step_told_to_wait_does_its_work_when_its_timer_ends(
    kind: StepKind, title: str, told: str
) -> None:
    task = FakeTask(fake_async_steps=["*"] if told == "by star" else [title], fake_step_seconds=40)
    task.node.target_raid_config = VOLUMES
    assert fake_task.run(task, kind, title, **_args(title)) is base.WAIT
    assert task.timers == [40]
    assert task.pauses == []
    later = task.elsewhere()
    interface = later.driver.interface(title.partition(".")[0])
    assert interface.poll_step(later, kind, fake_task.step(title, **_args(title))) is base.DONE
    assert later.timers == []


def test_a_waiting_step_has_no_effect_before_its_end() -> None:
    task = FakeTask(fake_async_steps=["raid.delete_configuration"])
    task.node.raid_config = {"logical_disks": []}
    fake_task.clean(task, "raid.delete_configuration")
    assert task.node.raid_config == {"logical_disks": []}
    task.driver.raid.poll_step(task, StepKind.CLEAN, fake_task.step("raid.delete_configuration"))
    assert task.node.raid_config == {}


def test_a_waiting_step_that_is_to_fail_fails_at_its_end() -> None:
    title = "deploy.erase_devices"
    task = FakeTask(fake_async_steps=[title], fake_fail_steps={title: "broken"})
    assert fake_task.clean(task, title) is base.WAIT
    with pytest.raises(errors.CleanStepFailed, match="broken"):
        task.driver.deploy.poll_step(task, StepKind.CLEAN, fake_task.step(title))


def test_other_steps_than_the_told_ones_neither_fail_nor_wait() -> None:
    task = FakeTask(
        fake_async_steps=["deploy.erase_devices"],
        fake_fail_steps={"deploy.erase_devices": "broken"},
    )
    assert fake_task.clean(task, "deploy.erase_devices_metadata") is None
    assert task.timers == []


def test_the_time_of_a_step_comes_from_the_node_or_else_the_configuration(
    five_seconds: None,
) -> None:
    unsaid, said, none = FakeTask(), FakeTask(fake_step_seconds=0.25), FakeTask(fake_step_seconds=0)
    for task in (unsaid, said, none):
        fake_task.clean(task, "deploy.erase_devices")
    assert [unsaid.pauses, said.pauses, none.pauses] == [[5], [0.25], []]


def test_nonsense_that_got_into_the_node_fails_the_step_by_name() -> None:
    task = FakeTask(fake_step_seconds="soon")
    with pytest.raises(errors.InvalidParameter, match="driver_info/fake_step_seconds"):
        fake_task.clean(task, "deploy.erase_devices")


@pytest.mark.parametrize("seconds", [30, 0, -1])
def test_the_list_of_clean_steps_can_be_unavailable(seconds: int) -> None:
    task = FakeTask(fake_steps_unavailable=seconds)
    with pytest.raises(errors.StepsUnavailable) as answer:
        task.driver.deploy.get_clean_steps(task)
    assert answer.value.facts == {"node": task.node.uuid, "seconds": seconds}
    assert task.driver.deploy.get_deploy_steps(task)


def test_verification_is_one_step_that_never_waits() -> None:
    task = FakeTask(fake_async_steps=["*"])
    assert [
        (step["interface"], step["step"], step["priority"])
        for interface in task.driver.interfaces()
        for step in interface.get_verify_steps(task)
    ] == [("management", "verify_access", 10)]
    assert fake_task.run(task, StepKind.VERIFY, "management.verify_access") is None


def test_verification_fails_if_told_to() -> None:
    task = FakeTask(fake_fail_verbs={"verify": "no such user"})
    with pytest.raises(errors.HardwareError, match=r"^no such user$"):
        fake_task.run(task, StepKind.VERIFY, "management.verify_access")
    task = FakeTask(fake_fail_steps={"management.verify_access": "no"})
    with pytest.raises(errors.StepFailed, match=r"management\.verify_access failed: no"):
        fake_task.run(task, StepKind.VERIFY, "management.verify_access")


# -- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        None,
        [],
        {},
        "boot=fast",
        ["boot"],
        [{"name": "boot"}],
        [{"value": 1}],
        [{"name": "boot", "value": 1, "unit": "s"}],
        [{"name": 5, "value": 1}],
        [{"name": "", "value": 1}],
    ],
)
@pytest.mark.parametrize("kind", FAILURES)
def test_wrong_settings_fail_the_step_by_the_name_of_the_argument(
    kind: StepKind, settings: Any
) -> None:
    task = FakeTask()
    with pytest.raises(FAILURES[kind], match=r"Step bios\.apply_configuration failed: settings"):
        fake_task.run(task, kind, "bios.apply_configuration", settings=settings)


@pytest.mark.parametrize("wrong", [None, [], {}, {"logical_disks": []}, {"logical_disks": [1]}])
@pytest.mark.parametrize("kind", [StepKind.DEPLOY, StepKind.SERVICE])
def test_a_wrong_raid_config_fails_the_step_by_the_name_of_the_argument(
    kind: StepKind, wrong: Any
) -> None:
    with pytest.raises(FAILURES[kind], match="failed: raid_config"):
        fake_task.run(FakeTask(), kind, "raid.apply_configuration", raid_config=wrong)


@pytest.mark.parametrize("name", list(raid.CREATE_ARGS))
def test_a_wrong_flag_fails_the_step_by_the_name_of_the_argument(name: str) -> None:
    task = FakeTask(fake_task.node(target_raid_config=VOLUMES))
    with pytest.raises(errors.CleanStepFailed, match=f"failed: {name}: 'no' is not true or false"):
        fake_task.clean(task, "raid.create_configuration", **{name: "no"})


# The keys that steer a fake machine: what is read, and how nonsense is refused.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
STEERED_TITLES = st.sampled_from(
    ["deploy.erase_devices", "raid.create_configuration", "vendor.own_step"]
)
MESSAGES = st.text(min_size=1, max_size=50).filter(str.strip)
AGENT = [
    {"clean_steps": [{"interface": "deploy", "step": "burn_in", "priority": 5}]},
    {"version": "7", "at": "deploy.burn_in"},
]
SENSE = st.fixed_dictionaries(
    {},
    optional={
        "fake_step_seconds": st.floats(0, behaviour.LONGEST) | st.integers(0, behaviour.LONGEST),
        "fake_async_steps": st.lists(STEERED_TITLES) | st.just(["*"]),
        "fake_fail_steps": st.dictionaries(STEERED_TITLES, MESSAGES),
        "fake_fail_power": MESSAGES,
        "fake_health": st.sampled_from(vocabulary.HEALTH),
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
    *(("fake_health", value) for value in ("ok", "", None, ["OK"], True)),
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
    assert script.health == info.get("fake_health")
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
    class Own(hardware.FakeVendor):
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
    "power": {*STEPS, "fake_fail_power", "fake_health"},
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
