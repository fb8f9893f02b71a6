"""Decorators mark methods, refuse what they must at definition, and steps keep their wire forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.domain import steps
from ironic_lite.domain.steps import Arg, Step, StepKind
from ironic_lite.drivers import arguments, base

Decorator = Callable[..., Any]

CLEAN, DEPLOY = steps.clean_step, steps.deploy_step
SERVICE, VERIFY = steps.service_step, steps.verify_step
EVERY = (CLEAN, DEPLOY, SERVICE, VERIFY)
WITH_ARGSINFO = (CLEAN, DEPLOY, SERVICE)
WITH_ARGSINFO_AND_RAMDISK = (CLEAN, SERVICE)


def refused(decorator: Decorator, **parameters: Any) -> errors.InvalidParameter:
    """Use a decorator as a class body would; return what it says against it."""
    with pytest.raises(errors.InvalidParameter) as caught:

        class _Broken:
            @decorator(**{"priority": 1, **parameters})  # type: ignore[untyped-decorator]
            def step(self, task: object) -> None:
                """Never defined."""

    return caught.value


# -- priorities (S2.7, S3.2, conflict C7) ----------------------------------------------------


@pytest.mark.parametrize("decorator", EVERY)
@pytest.mark.parametrize(
    "priority",
    [-1, -0.5, True, False, "10", "", (), float("nan"), float("inf"), -float("inf"), 1j, 10**400],
    ids=repr,
)
def test_a_bad_priority_is_refused_when_the_class_is_defined(
    decorator: Decorator, priority: object
) -> None:
    error = refused(decorator, priority=priority)
    assert error.facts["path"] == "priority"
    assert repr(priority)[:20] in error.message


@pytest.mark.parametrize("decorator", [CLEAN, DEPLOY, VERIFY])
def test_a_priority_must_be_given_except_for_service(decorator: Decorator) -> None:
    refused(decorator, priority=None)
    with pytest.raises(TypeError):
        decorator()


@pytest.mark.parametrize("decorator", [DEPLOY, SERVICE, VERIFY])
@pytest.mark.parametrize("priority", [0.5, 1.0])
def test_only_clean_priorities_may_be_fractions(decorator: Decorator, priority: float) -> None:
    refused(decorator, priority=priority)


@given(priority=st.integers(0, 2**63 - 1) | st.floats(0, 1e15))
def test_any_other_number_is_a_clean_priority_and_stays_as_written(priority: float) -> None:
    class Raid:
        @steps.clean_step(priority=priority)
        def step(self, task: object) -> None:
            """Do it."""

    (found,) = steps.collect("raid", Raid, StepKind.CLEAN)
    assert (found.priority, type(found.priority)) == (priority, type(priority))


# -- flags -----------------------------------------------------------------------------------


@pytest.mark.parametrize("decorator", WITH_ARGSINFO)
@pytest.mark.parametrize("value", [None, 0, 1, "yes", "False", []], ids=repr)
def test_abortable_is_true_or_false_and_nothing_like_it(
    decorator: Decorator, value: object
) -> None:
    assert refused(decorator, abortable=value).facts["path"] == "abortable"


@pytest.mark.parametrize("decorator", WITH_ARGSINFO_AND_RAMDISK)
@pytest.mark.parametrize("value", [None, 0, "no"], ids=repr)
def test_requires_ramdisk_is_true_or_false(decorator: Decorator, value: object) -> None:
    assert refused(decorator, requires_ramdisk=value).facts["path"] == "requires_ramdisk"


@pytest.mark.parametrize("decorator", [DEPLOY, SERVICE])
def test_rerunnable_is_true_or_false(decorator: Decorator) -> None:
    assert refused(decorator, rerunnable="maybe").facts["path"] == "rerunnable"


# -- arguments (S1.5, S3.3, conflict C6) -----------------------------------------------------

BAD_INFO: list[Any] = [
    [],
    "size",
    {"size": None},
    {"size": "how big"},
    {"size": {}},
    {"size": {"required": True}},
    {"size": {"description": ""}},
    {"size": {"description": None}},
    {"size": {"description": 5}},
    {"size": {"description": "d", "required": "yes"}},
    {"size": {"description": "d", "required": None}},
    {"size": {"description": "d", "default": 1}},
    {"size": {"description": "d", 1: 2, "x": 3}},
    {"": {"description": "d"}},
    {"two words": {"description": "d"}},
    {1: {"description": "d"}},
]
BAD_LISTS: list[Any] = [
    "size",
    {"size": {"description": "d"}},
    [None],
    ["size"],
    [{"description": "d"}],
    [{"name": "size"}],
    [{"name": "size", "description": ""}],
    [{"name": "size", "description": "d", "required": 1}],
    [{"name": "size", "description": "d", "type": "int"}],
    [{"name": 1, "description": "d"}],
    [{"name": "two words", "description": "d"}],
    [{"name": "size", "description": "d"}, {"name": "size", "description": "e"}],
]


@pytest.mark.parametrize("decorator", WITH_ARGSINFO)
@pytest.mark.parametrize("argsinfo", BAD_INFO, ids=repr)
def test_bad_argsinfo_is_refused(decorator: Decorator, argsinfo: Any) -> None:
    assert refused(decorator, argsinfo=argsinfo).facts["path"].startswith("args")


@pytest.mark.parametrize("args", BAD_LISTS, ids=repr)
def test_a_bad_list_of_arguments_is_refused(args: Any) -> None:
    assert refused(CLEAN, args=args).facts["path"].startswith("args")


def test_arguments_are_declared_in_one_form_only() -> None:
    assert "not both" in refused(CLEAN, args=[], argsinfo={}).message


def test_a_verify_step_has_no_arguments_and_cannot_wait_for_an_agent() -> None:
    decorator: Decorator = steps.verify_step
    for name in ("argsinfo", "abortable", "requires_ramdisk"):
        with pytest.raises(TypeError, match=name):
            decorator(priority=1, **{name: None})


def test_the_list_and_the_dictionary_declare_the_same() -> None:
    class Raid:
        @steps.clean_step(
            priority=0,
            args=[
                {"name": "size", "description": "GiB", "required": True},
                {"name": "level", "description": "0, 1 or 5"},
            ],
        )
        def listed(self, task: object, size: int, level: int = 1) -> None:
            """Do it."""

        @steps.clean_step(
            priority=0,
            argsinfo={
                "size": {"description": "GiB", "required": True},
                "level": Arg("0, 1 or 5"),
            },
        )
        def mapped(self, task: object, size: int, level: int = 1) -> None:
            """Do it."""

    listed, mapped = steps.collect("raid", Raid(), StepKind.CLEAN)
    assert listed.argsinfo == mapped.argsinfo
    assert listed.argsinfo == {"size": Arg("GiB", True), "level": Arg("0, 1 or 5", False)}


# -- marking and collecting ------------------------------------------------------------------


class Deploy:
    """An interface with steps of every kind."""

    @property
    def costly(self) -> None:
        raise AssertionError("looking for steps must not run properties")

    @steps.verify_step(priority=3)
    def check(self, task: object) -> None:
        """Only to verify."""

    @steps.clean_step(priority=10, abortable=True)
    @steps.deploy_step(priority=0)
    @steps.service_step()
    def shared(self, task: object) -> str:
        """One method for three lists (S3.4, S3.18)."""
        return "done it"

    @steps.clean_step(priority=0, requires_ramdisk=False)
    def another(self, task: object) -> None:
        """By hand only."""

    def ordinary(self, task: object) -> None:
        """No step."""


def test_a_mark_leaves_the_method_as_it_is() -> None:
    assert Deploy().shared(None) == "done it"
    assert Deploy.shared.__name__ == "shared"


def test_steps_are_collected_by_kind_with_all_priorities_by_name() -> None:
    found = {kind: [s.name for s in steps.collect("deploy", Deploy(), kind)] for kind in StepKind}
    assert found == {
        StepKind.CLEAN: ["another", "shared"],
        StepKind.DEPLOY: ["shared"],
        StepKind.SERVICE: ["shared"],
        StepKind.VERIFY: ["check"],
    }


def test_a_class_offers_what_its_instances_do() -> None:
    for kind in StepKind:
        assert steps.collect("deploy", Deploy, kind) == steps.collect("deploy", Deploy(), kind)


def test_marks_carry_the_defaults_of_the_specification() -> None:
    class Raid:
        @steps.clean_step(priority=1)
        @steps.deploy_step(priority=2)
        @steps.service_step()
        @steps.verify_step(priority=4)
        def step(self, task: object) -> None:
            """Do it."""

    def mark(kind: StepKind) -> tuple[Any, ...]:
        (one,) = steps.collect("raid", Raid, kind)
        return one.priority, one.abortable, one.argsinfo, one.requires_ramdisk, one.rerunnable

    # Clean steps may always be run again (S2.24); deploy steps are abortable since 1.110.
    assert mark(StepKind.CLEAN) == (1, False, None, True, True)
    assert mark(StepKind.DEPLOY) == (2, True, None, True, False)
    assert mark(StepKind.SERVICE) == (0, False, None, True, False)
    assert mark(StepKind.VERIFY)[0] == 4


def test_a_subclass_inherits_steps_and_may_mark_them_anew_or_hide_them() -> None:
    class Slow(Deploy):
        @steps.clean_step(priority=99)
        def shared(self, task: object) -> str:
            return super().shared(task)

        def another(self, task: object) -> None:
            """Overridden without a mark: no step any more."""

    assert [(s.name, s.priority) for s in steps.collect("deploy", Slow(), StepKind.CLEAN)] == [
        ("shared", 99)
    ]
    assert steps.collect("deploy", Slow(), StepKind.DEPLOY) == []
    assert [s.name for s in steps.collect("deploy", Slow(), StepKind.VERIFY)] == ["check"]
    assert [s.priority for s in steps.collect("deploy", Deploy(), StepKind.CLEAN)] == [0, 10]


def test_drivers_find_all_of_it_where_they_import_from() -> None:
    names = ("clean_step", "deploy_step", "service_step", "verify_step", "Arg", "DONE", "WAIT")
    assert all(getattr(base, name) is getattr(steps, name) for name in names)


# -- the wire --------------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
ARGS = st.none() | st.dictionaries(
    NAMES, st.builds(Arg, st.text(min_size=1, max_size=9), st.booleans()), max_size=3
)
DRIVER_STEPS = st.builds(
    Step,
    interface=st.sampled_from(["power", "raid", "deploy"]),
    name=NAMES,
    priority=st.integers(0, 200) | st.floats(0, 200),
    abortable=st.booleans(),
    argsinfo=ARGS,
    requires_ramdisk=st.booleans(),
)


@given(step=DRIVER_STEPS, kind=st.sampled_from([StepKind.CLEAN, StepKind.SERVICE]))
def test_a_driver_step_survives_its_wire_form(step: Step, kind: StepKind) -> None:
    data = json.loads(json.dumps(steps.as_driver_dict(step, kind)))
    assert steps.from_dict(data) == step


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("clean", "step priority abortable argsinfo interface requires_ramdisk"),
        ("service", "step priority abortable argsinfo interface requires_ramdisk"),
        ("deploy", "step priority abortable argsinfo interface"),
    ],
)
@given(step=DRIVER_STEPS)
def test_driver_internal_info_shows_the_specified_keys(kind: str, keys: str, step: Step) -> None:
    shown = steps.as_driver_dict(step, StepKind(kind))
    assert list(shown) == keys.split()


def test_cleaning_steps_shows_arguments_as_a_list_possibly_empty() -> None:
    # S1.24
    step = Step("raid", "create", 5, True, {"size": Arg("GiB", True)}, args={"size": 1})
    assert steps.as_offer(step) == {
        "interface": "raid",
        "step": "create",
        "priority": 5,
        "abortable": True,
        "args": [{"name": "size", "description": "GiB", "required": True}],
    }
    assert steps.as_offer(Step("raid", "delete"))["args"] == []


def test_an_agents_step_is_read_with_what_only_travels_along() -> None:
    step = steps.from_dict(
        {"interface": "deploy", "step": "erase", "priority": 10, "reboot_requested": True}
    )
    assert (step.title, step.priority, step.abortable) == ("deploy.erase", 10, False)
    assert step.requires_ramdisk
    assert step.extra == {"reboot_requested": True}


def test_an_agents_answer_is_sorted_by_interface_with_all_facts() -> None:
    burn = {"interface": "deploy", "step": "burn", "priority": 10.5, "reboot_requested": True}
    wipe = {"interface": "deploy", "step": "wipe", "priority": 0, "abortable": True}
    argsinfo = {"size": {"description": "GiB", "required": True}}
    build = {"interface": "raid", "step": "build", "priority": 1, "argsinfo": argsinfo}
    found = steps.from_agent({"Generic": [burn], "Vendor": [build, wipe], "Idle": []})
    facts = {"abortable": False, "argsinfo": None, "requires_ramdisk": True}
    assert found == {
        "deploy": [{**burn, **facts}, {**wipe, **facts, "abortable": True}],
        "raid": [{**build, **facts, "argsinfo": argsinfo}],
    }
    # What else the agent said of a step stays with it.
    shown = steps.as_driver_dict(steps.from_dict(found["deploy"][0]), StepKind.CLEAN)
    assert shown == {**burn, **facts}


STEP: dict[str, Any] = {"interface": "deploy", "step": "burn", "priority": 1}


@pytest.mark.parametrize(
    ("listed", "key"),
    [
        (None, "steps"),
        ({"burn": STEP}, "steps"),
        ([None], "step"),
        (["burn"], "step"),
        ([{**STEP, "interface": 5}], "interface"),
        ([{**STEP, "interface": ""}], "interface"),
        ([{**STEP, "step": "x" * 256}], "step"),
        ([{**STEP, "step": "bu\0rn"}], "step"),
        ([{**STEP, "step": "bu\ud800rn"}], "step"),
        ([{"interface": "deploy", "priority": 1}], "step"),
        ([{"interface": "deploy", "step": "burn"}], "priority"),
        ([{**STEP, "priority": -1}], "priority"),
        ([{**STEP, "priority": True}], "priority"),
        ([{**STEP, "priority": "high"}], "priority"),
        ([{**STEP, "abortable": "yes"}], "abortable"),
        ([{**STEP, "argsinfo": ["size"]}], "argsinfo"),
        ([{**STEP, "argsinfo": {"size": {}}}], "argsinfo/size"),
    ],
)
def test_an_agents_nonsense_is_refused_by_manager_and_key(listed: Any, key: str) -> None:
    with pytest.raises(errors.HardwareError) as refusal:
        steps.from_agent({"Good": [STEP], "Bad": listed})
    assert "manager Bad lists a step that cannot be used: " in refusal.value.message
    assert f": {key}: " in refusal.value.message


def test_null_in_a_wire_form_is_the_default() -> None:
    step = steps.from_dict(
        {"interface": "bios", "step": "s", "priority": None, "args": None, "argsinfo": None}
    )
    assert (step.priority, step.args, step.argsinfo) == (0, {}, None)


# Arguments of the steps on firmware.

URL = "https://images.example.org/BIOS-2.0.bin"
GOOD = {"component": "bios", "url": URL}
SECRET = "geheim"


def test_settings_are_read_in_order() -> None:
    given = [{"name": "a", "value": 1}, {"name": "b", "value": None}, {"name": "a", "value": 2}]
    assert arguments.settings(given) == {"a": 2, "b": None}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (None, "settings"),
        ([], "settings"),
        ({"a": SECRET}, "settings"),
        ("a=b", "settings"),
        ([{"name": "a", "value": 1}, SECRET], "settings/1"),
        ([{"name": "a"}], "settings/0"),
        ([{"name": "a", "value": SECRET, "more": 1}], "settings/0"),
        ([{"name": "", "value": SECRET}], "settings/0/name"),
        ([{"name": 7, "value": SECRET}], "settings/0/name"),
    ],
)
def test_bad_settings_are_named_by_their_place_and_no_value_is_repeated(
    given: Any, path: str
) -> None:
    with pytest.raises(errors.InvalidParameter) as found:
        arguments.settings(given)
    assert found.value.facts["path"] == path
    assert SECRET not in str(found.value)


def test_images_are_read_in_order() -> None:
    given = [{**GOOD, "component": "bmc", "wait": 30}, GOOD, {**GOOD, "component": "nic:7"}]
    found = arguments.images(given)
    assert [(one.component, one.wait) for one in found] == [("bmc", 30), ("bios", 0), ("nic:7", 0)]
    assert {one.url for one in found} == {URL}


def test_an_image_is_shown_without_its_secrets() -> None:
    url = f"http://me:{SECRET}@[::1]:81/a.bin?signature={SECRET}"
    [image] = arguments.images([{**GOOD, "url": url}])
    assert image.shown == "http://[::1]:81/a.bin?******"
    assert SECRET in image.url


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (None, "settings"),
        ([], "settings"),
        ([GOOD, URL], "settings/1"),
        ([{"url": URL}], "settings/0/component"),
        ([{"component": "bios"}], "settings/0/url"),
        ([{**GOOD, "checksum": "1"}], "settings/0"),
        ([{**GOOD, "component": "disk"}], "settings/0/component"),
        ([{**GOOD, "component": "nic:"}], "settings/0/component"),
        ([{**GOOD, "component": ["bios"]}], "settings/0/component"),
        ([{**GOOD, "url": "file:///etc/passwd"}], "settings/0/url"),
        ([{**GOOD, "url": "swift://a/b"}], "settings/0/url"),
        ([{**GOOD, "url": "images.example.org/a.bin"}], "settings/0/url"),
        ([{**GOOD, "url": "http://"}], "settings/0/url"),
        ([{**GOOD, "url": "http://[::1"}], "settings/0/url"),
        ([{**GOOD, "url": "http://a/b c"}], "settings/0/url"),
        ([{**GOOD, "url": 7}], "settings/0/url"),
        ([{**GOOD, "wait": -1}], "settings/0/wait"),
        ([{**GOOD, "wait": True}], "settings/0/wait"),
        ([{**GOOD, "wait": 10**30}], "settings/0/wait"),
        ([GOOD, {**GOOD, "wait": "1"}], "settings/1/wait"),
    ],
)
def test_bad_images_are_named_by_their_place(given: Any, path: str) -> None:
    with pytest.raises(errors.InvalidParameter) as found:
        arguments.images(given)
    assert found.value.facts["path"] == path
