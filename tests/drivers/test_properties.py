"""What hardware types say of their properties and steps, and interfaces that do nothing."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import steps
from ironic_lite.domain.steps import Effects, StepKind
from ironic_lite.drivers import base, noop, registry, settings
from ironic_lite.drivers.agent.deploy import DirectDeploy
from ironic_lite.drivers.redfish.bios import RedfishBIOS
from tests.support import conductor_fixture, fake_task
from tests.support.fake_task import FakeTask, node

# What each hardware type says of driver_info is what its nodes heed, by default.

TYPES = ("fake-hardware", "ipmi", "manual-management", "redfish")
REQUIRED = {"ipmi": "ipmi_address", "redfish": "redfish_address"}
STEPS = {"fake_step_seconds", "fake_async_steps", "fake_fail_steps"}
DEPLOY = {*STEPS, "fake_fail_verbs", "fake_steps_unavailable", "fake_agent", "fake_erasures"}
POWER = {"fake_fail_power", "fake_health"}
FAKE = {
    "ipmi": DEPLOY,
    "redfish": DEPLOY,
    "manual-management": {*DEPLOY, *POWER},
    "fake-hardware": {*DEPLOY, *POWER, "fake_fail_calls", "fake_async_verbs"}
    | {"fake_ports", "fake_vendor"},
}
"""The keys that are heeded where deploy, or more, is a rehearsal."""
REHEARSED: dict[str, list[str]] = {
    f"DEFAULT__enabled_{kind}_interfaces": ["fake"] for kind in ("boot", "deploy")
}


@functools.cache
def found(*, rehearsed: bool = True) -> registry.Registry:
    """Return the drivers of a default configuration, or of one whose deployments touch no disk."""
    more = REHEARSED if rehearsed else {}
    conf = conductor_fixture.configure(DEFAULT__enabled_hardware_types=list(TYPES), **more)
    return registry.Registry.load(registry.Settings.read(conf))


@pytest.mark.parametrize("rehearsed", [True, False], ids=["rehearsed", "default"])
@pytest.mark.parametrize("name", TYPES)
def test_a_hardware_type_names_the_keys_of_its_default_interfaces(
    name: str, rehearsed: bool
) -> None:
    drivers = found(rehearsed=rehearsed)
    driver = drivers.driver_for(name, {})
    wanted: dict[str, str] = {}
    for kind in base.KINDS:
        wanted.update(driver.interface(kind).get_properties())
    told = drivers.properties(name)
    assert told == wanted
    assert list(told) == sorted(told)
    assert all(text.endswith(".") for text in told.values())


@pytest.mark.parametrize("name", TYPES)
def test_no_key_is_of_another_kind_of_machine(name: str) -> None:
    told = set(found().properties(name))
    real = {key for key in told if not key.startswith("fake_")}
    assert told - real == FAKE[name]
    # A power interface tells all keys of its technology.
    own = set(found().driver_for(name, {}).power.get_properties()) - STEPS - POWER
    assert real == own
    assert bool(real) is (name in REQUIRED)


@pytest.mark.parametrize("name", REQUIRED)
def test_missing_required_property_is_reported(name: str) -> None:
    told = found().properties(name)
    required = {key for key, text in told.items() if "Required." in text}
    assert required == {REQUIRED[name]}
    task = fake_task.FakeTask(fake_task.node(driver=name), driver=found().driver_for(name, {}))
    with pytest.raises(errors.MissingParameter, match=f"driver_info/{REQUIRED[name]}"):
        task.driver.power.validate(task)


@pytest.mark.parametrize("name", TYPES)
def test_another_default_tells_other_keys(name: str) -> None:
    conf = conductor_fixture.configure(
        **REHEARSED,
        DEFAULT__enabled_hardware_types=list(TYPES),
        DEFAULT__enabled_inspect_interfaces=["no-inspect", "fake"],
        DEFAULT__default_inspect_interface="fake",
    )
    other = registry.Registry.load(registry.Settings.read(conf))
    assert {"fake_ports", "fake_async_verbs"} <= set(other.properties(name))


# What forms show of a key is what its interfaces check.

NONSENSE = [[0]]
"""A value that no key takes."""


@pytest.mark.parametrize("rehearsed", [True, False], ids=["rehearsed", "default"])
@pytest.mark.parametrize("name", TYPES)
def test_details_have_the_keys_of_the_properties(name: str, rehearsed: bool) -> None:
    drivers = found(rehearsed=rehearsed)
    details = drivers.property_details(name)
    assert details.keys() == drivers.properties(name).keys()
    assert sorted(fact["order"] for fact in details.values()) == list(range(1, len(details) + 1))
    by_order = sorted(details, key=lambda key: details[key]["order"])
    groups = [details[key]["group"] for key in by_order]
    assert sorted(groups, key=settings.GROUPS.index) == groups
    secret = {key for key, fact in details.items() if fact["secret"]}
    own = {f"{name}_password", "ipmi_hex_kg_key", "image_pull_secret"}
    assert secret == own & details.keys()
    assert {key for key, fact in details.items() if fact["required"]} == (
        {REQUIRED[name]} if name in REQUIRED else set()
    )


def own_interfaces() -> list[Any]:
    """Return each interface of this project that reads keys of driver_info."""
    listed = []
    for kind in base.KINDS:
        for point in importlib.metadata.entry_points(group=f"{registry.INTERFACES}.{kind}"):
            if point.value.startswith("ironic_lite."):
                listed.append(pytest.param(point.load(), id=f"{kind}-{point.name}"))
    return listed


@pytest.mark.parametrize("interface", own_interfaces())
def test_interface_checks_each_key_that_it_shows(interface: Callable[[], base.Interface]) -> None:
    found()  # configures
    reads = interface()
    fields = {
        key: field for group in reads.property_groups().values() for key, field in group.items()
    }
    required = {key: field.example for key, field in fields.items() if field.required}
    assert None not in required.values()
    for key, field in fields.items():
        with pytest.raises(errors.InvalidParameter, match=f"driver_info/{key}"):
            reads.check_driver_info({key: NONSENSE})
        for value in (field.example, field.default):
            if value is not None and not value.startswith("["):
                reads.check_driver_info({key: value})
    for key in required:
        rest = {name: value for name, value in required.items() if name != key}
        with pytest.raises(errors.MissingParameter, match=f"driver_info/{key}"):
            reads.validate(FakeTask(node(driver_info=rest)))


TEXTS = {
    "ipmi": ("ipmi_username", "ipmi_password", "ipmi_hex_kg_key", "ipmi_address"),
    "redfish": ("redfish_username", "redfish_password", "redfish_address"),
}
_OF_ALL = ("kernel_append_params", "image_http_proxy", "image_no_proxy")


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name in TEXTS for key in (*TEXTS[name], *_OF_ALL)]
)
def test_text_of_digits_may_be_a_number(name: str, key: str) -> None:
    """Ironic's command line sends ``--driver-info redfish_password=12345`` as a number."""
    driver = found(rehearsed=False).driver_for(name, {})
    for kind in base.KINDS:
        driver.interface(kind).check_driver_info({key: 123456})


# Declared effects of steps: every driver's own steps, and the agent's by name.

UNDECLARED = {"vendor.send_raw"}
"""Its effect is that of the bytes that an operator gives."""
IMAGE = {"image_source": "http://192.0.2.1/image", "image_checksum": "a" * 64}


def declared_steps() -> list[tuple[str, StepKind, steps.Step]]:
    """Return all steps of all interfaces of this project."""
    found = []
    for interface in base.KINDS:
        for point in importlib.metadata.entry_points(group=f"{registry.INTERFACES}.{interface}"):
            if not point.value.startswith("ironic_lite."):
                continue
            for kind in StepKind:
                marked = steps.collect(interface, point.load(), kind)
                found += [(point.name, kind, one) for one in marked]
    return found


def test_every_own_step_declares_what_it_destroys() -> None:
    known = declared_steps()
    assert len(known) > 60
    silent = {one.title for _name, _kind, one in known if one.effects.destroys is None}
    assert silent == UNDECLARED


def test_effects_are_in_no_document_of_a_step() -> None:
    for _name, kind, one in declared_steps():
        shown = {**steps.as_driver_dict(one, kind), **steps.as_offer(one)}
        assert not {"effects", "destroys", "restarts", "lasting"} & set(shown)


@pytest.mark.parametrize(
    ("kind", "lasting"),
    [(StepKind.CLEAN, True), (StepKind.SERVICE, True), (StepKind.DEPLOY, False)],
)
def test_undeclared_step_has_unknown_effects(kind: StepKind, lasting: bool) -> None:
    decorate: dict[StepKind, Any] = {
        StepKind.CLEAN: base.clean_step(priority=0),
        StepKind.SERVICE: base.service_step(),
        StepKind.DEPLOY: base.deploy_step(priority=0),
    }

    class Silent(base.BIOS):
        @decorate[kind]  # type: ignore[untyped-decorator]
        def marked(self, task: base.Task) -> None:
            """Do something."""

        def cache_bios_settings(self, task: base.Task) -> list[base.BiosSetting]:
            return []

    task, interface = FakeTask(), Silent()
    for name in ("marked", "of_the_agent"):
        step: base.StoredStep = {"interface": "bios", "step": name}
        assert interface.effects(task, kind, step) == Effects(None, None, lasting)
        assert interface.lasts(task, kind, step) is lasting


@pytest.mark.parametrize("decorator", [base.clean_step, base.deploy_step, base.verify_step])
@pytest.mark.parametrize(
    "wrong", [{"destroys": ("disks",)}, {"destroys": "data"}, {"restarts": -1}, {"restarts": True}]
)
def test_wrong_effects_are_refused_when_the_class_is_defined(
    decorator: Any, wrong: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        decorator(priority=0, **wrong)
    assert caught.value.facts["path"] in wrong


def test_words_come_in_a_fixed_order() -> None:
    class Raid:
        @base.clean_step(priority=0, destroys={"volumes", "data"}, restarts=2)
        def delete(self, task: object) -> None:
            """Delete all."""

    (found,) = steps.collect("raid", Raid, StepKind.CLEAN)
    assert found.effects == Effects(("data", "volumes"), 2, lasting=True)


@pytest.mark.parametrize(
    ("step", "kind", "effects"),
    [
        ({"step": "erase_devices"}, StepKind.CLEAN, Effects(("data",), 0, lasting=True)),
        (
            {"step": "burnin_cpu", "reboot_requested": True},
            StepKind.SERVICE,
            Effects((), 1, lasting=True),
        ),
        ({"step": "inject_files"}, StepKind.DEPLOY, Effects((), 0, lasting=False)),
        ({"step": "of_a_vendor"}, StepKind.CLEAN, Effects(None, None, lasting=True)),
        ({"step": "deploy"}, StepKind.DEPLOY, Effects((), 1, lasting=False)),
    ],
)
def test_agents_steps_have_effects_by_name(
    step: dict[str, Any], kind: StepKind, effects: Effects
) -> None:
    stored: Any = {"interface": "deploy", **step}
    assert DirectDeploy().effects(FakeTask(), kind, stored) == effects


@pytest.mark.parametrize(
    ("more", "lasting"),
    [({}, True), ({"image_type": "partition", "root_gb": 5}, False), ({"image_type": 3}, False)],
)
def test_only_a_whole_disk_image_lasts(more: dict[str, Any], lasting: bool) -> None:
    task = FakeTask(node(instance_info={**IMAGE, **more}))
    step: base.StoredStep = {"interface": "deploy", "step": "write_image"}
    assert DirectDeploy().lasts(task, StepKind.DEPLOY, step) is lasting
    assert DirectDeploy().effects(task, StepKind.DEPLOY, step).destroys == ("data",)


def test_settings_of_a_bios_outlive_a_restart_in_a_deployment() -> None:
    step: base.StoredStep = {"interface": "bios", "step": "apply_configuration"}
    found = RedfishBIOS().effects(FakeTask(), StepKind.DEPLOY, step)
    assert found == Effects(("settings",), 1, lasting=True)


# What is not there says so; what needs nothing done agrees.

ABSENT = [
    noop.NoBIOS(),
    noop.NoConsole(),
    noop.NoFirmware(),
    noop.NoInspect(),
    noop.NoRAID(),
    noop.NoRescue(),
    noop.NoVendor(),
]
OPERATIONS: list[Callable[[base.Task], object]] = [
    noop.NoInspect().inspect_hardware,
    noop.NoInspect().poll_inspection,
    noop.NoInspect().abort,
    noop.NoRescue().rescue,
    noop.NoRescue().poll_rescue,
    noop.NoRescue().unrescue,
]


def test_every_optional_kind_can_be_absent() -> None:
    assert {interface.kind for interface in ABSENT} == base.OPTIONAL_KINDS


@pytest.mark.parametrize("interface", ABSENT, ids=lambda found: found.kind)
def test_validating_an_absent_interface_says_what_is_missing(interface: base.Interface) -> None:
    with pytest.raises(errors.UnsupportedDriverExtension) as answer:
        interface.validate(fake_task.FakeTask())
    assert answer.value.facts == {"driver": "fake-hardware", "extension": interface.kind}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_absent_interface_refuses_each_operation(
    operation: Callable[[base.Task], object],
) -> None:
    with pytest.raises(errors.UnsupportedDriverExtension):
        operation(fake_task.FakeTask())


@pytest.mark.parametrize("interface", ABSENT, ids=lambda found: found.kind)
def test_an_absent_interface_has_no_steps_and_no_properties(interface: base.Interface) -> None:
    task = fake_task.FakeTask()
    assert interface.get_properties() == {}
    for kind in base.StepKind:
        assert getattr(interface, f"get_{kind}_steps")(task) == []


def test_cleaning_up_after_an_absent_rescue_is_harmless() -> None:
    noop.NoRescue().clean_up(fake_task.FakeTask())


def test_networks_and_storage_need_nothing() -> None:
    noop.NoopNetwork().validate(fake_task.FakeTask())
    noop.NoopStorage().validate(fake_task.FakeTask())


def test_management_takes_any_request_and_knows_nothing() -> None:
    task = fake_task.FakeTask()
    management = noop.NoopManagement()
    management.validate(task)
    for device in management.get_supported_boot_devices(task):
        management.set_boot_device(task, device, persistent=True)
    assert management.get_boot_device(task) == {"boot_device": None, "persistent": None}
    with pytest.raises(errors.UnsupportedDriverExtension):
        management.set_boot_mode(task, "uefi")
