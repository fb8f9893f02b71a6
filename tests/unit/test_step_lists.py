"""Which steps run, in which order, with which arguments: by the specifications' rules."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.domain import step_lists, steps
from ironic_lite.domain.steps import Arg, Step, StepKind
from ironic_lite.records import StoredStep, StoredTemplate

# Highest first among equal priorities.
COMMON = ["vendor", "power", "management", "firmware", "deploy", "bios", "raid"]
RANKS = {
    StepKind.CLEAN: COMMON,
    StepKind.DEPLOY: COMMON,
    StepKind.SERVICE: ["network", *COMMON],
    StepKind.VERIFY: [
        "power",
        "management",
        "firmware",
        "inspect",
        "deploy",
        "boot",
        "bios",
        "raid",
        "vendor",
        "network",
        "storage",
        "console",
        "rescue",
    ],
}
NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta"])
STEPS = st.builds(
    Step,
    interface=st.sampled_from(COMMON),
    name=NAMES,
    priority=st.sampled_from([0, 0.5, 1, 1.0, 5, 10, 99]),
    abortable=st.booleans(),
    requires_ramdisk=st.booleans(),
)
LISTS = st.lists(STEPS, max_size=12, unique_by=lambda step: step.title)
KINDS = st.sampled_from([StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE])

ERASE = Step("deploy", "erase", 10, abortable=True)
CREATE = Step(
    "raid",
    "create",
    0,
    argsinfo={
        "size": Arg("GiB, a number", True),
        "level": Arg("0 or 1"),
        "disks": Arg("IDs", True),
    },
    requires_ramdisk=False,
)
RESET = Step("management", "reset", 0, requires_ramdisk=False)
OFFERED = [ERASE, CREATE, RESET]


def asked(title: str, **more: Any) -> Any:
    interface, step = title.split(".")
    return {"interface": interface, "step": step, **more}


def titles(listed: list[StoredStep]) -> list[str]:
    return [f"{one['interface']}.{one['step']}" for one in listed]


# -- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", StepKind)
def test_equal_priorities_go_by_the_rank_of_their_interface(kind: StepKind) -> None:
    # S2.11 and conflict C9
    listed = [Step(interface, "step", 5) for interface in RANKS[kind]]
    random.Random(1).shuffle(listed)
    assert [step.interface for step in step_lists.order(listed, kind)] == RANKS[kind]


@given(listed=LISTS, kind=KINDS, seed=st.integers())
def test_the_order_does_not_depend_on_how_the_steps_came(
    listed: list[Step], kind: StepKind, seed: int
) -> None:
    shuffled = list(listed)
    random.Random(seed).shuffle(shuffled)
    assert step_lists.order(shuffled, kind) == step_lists.order(listed, kind)


@given(listed=LISTS, kind=KINDS)
def test_order_neither_loses_nor_adds_and_priorities_fall(
    listed: list[Step], kind: StepKind
) -> None:
    ordered = step_lists.order(listed, kind)
    assert sorted(map(repr, ordered)) == sorted(map(repr, listed))
    for one, other in itertools.pairwise(ordered):
        ranks = RANKS[kind]
        assert (-one.priority, ranks.index(one.interface), one.name) < (
            -other.priority,
            ranks.index(other.interface),
            other.name,
        )


@given(listed=LISTS, kind=KINDS)
def test_ordering_twice_changes_nothing(listed: list[Step], kind: StepKind) -> None:
    once = step_lists.order(listed, kind)
    assert step_lists.order(once, kind) == once


def test_an_interface_nobody_ranked_comes_last_and_is_no_error() -> None:
    listed = [Step("strange", "s", 5), Step("raid", "r", 5)]
    assert [s.interface for s in step_lists.order(listed, StepKind.CLEAN)] == ["raid", "strange"]


# -- overrides and the automated list --------------------------------------------------------


@given(listed=LISTS)
def test_an_automated_run_has_exactly_the_steps_above_zero(listed: list[Step]) -> None:
    # S1.7, S2.4
    chosen = step_lists.automated(listed, StepKind.CLEAN)
    assert {step.title for step in chosen} == {s.title for s in listed if s.priority > 0}


@given(listed=LISTS, overrides=st.dictionaries(NAMES.map("raid.{}".format), st.integers(0, 3)))
def test_an_override_changes_the_priority_of_its_step_and_nothing_else(
    listed: list[Step], overrides: dict[str, int]
) -> None:
    for before, after in zip(listed, step_lists.overridden(listed, overrides), strict=True):
        assert after.priority == overrides.get(before.title, before.priority)
        assert (after.title, after.abortable) == (before.title, before.abortable)


def test_overrides_come_before_the_filter() -> None:
    # S2.5: an operator may enable what is off and disable what is on.
    overrides = {"raid.create": 7, "deploy.erase": 0}
    chosen = step_lists.automated(OFFERED, StepKind.CLEAN, overrides=overrides)
    assert [(step.title, step.priority) for step in chosen] == [("raid.create", 7)]


def test_disallowed_steps_are_left_out_of_automated_runs() -> None:
    assert step_lists.automated(OFFERED, StepKind.CLEAN, disallowed=["deploy.erase"]) == []


@given(listed=LISTS)
def test_two_enabled_steps_of_one_interface_with_one_priority_are_found(listed: list[Step]) -> None:
    # S2.12 and conflict C8
    counted: dict[tuple[str, float], int] = {}
    for step in listed:
        if step.priority > 0:
            place = (step.interface, step.priority)
            counted[place] = counted.get(place, 0) + 1
    expected = {place for place, count in counted.items() if count > 1}
    found = step_lists.ties(listed)
    assert {(one.interface, one.priority) for one, _ in found} == expected
    assert all(one != other and one.interface == other.interface for one, other in found)


def test_steps_of_priority_zero_or_of_two_interfaces_do_not_tie() -> None:
    listed = [Step("raid", "a"), Step("raid", "b"), Step("bios", "c", 5), Step("raid", "d", 5)]
    assert step_lists.ties(listed) == []


@given(listed=LISTS, kind=KINDS)
def test_a_stored_list_reads_back_as_the_same_steps(listed: list[Step], kind: StepKind) -> None:
    stored = json.loads(json.dumps(step_lists.as_stored(listed, kind)))
    assert [(one.title, one.priority) for one in map(steps.from_dict, stored)] == [
        (one.title, one.priority) for one in listed
    ]


# -- a requested list ------------------------------------------------------------------------


@given(data=st.data(), ordered=st.permutations(["deploy.erase", "raid.create", "management.reset"]))
def test_a_requested_list_keeps_the_order_of_the_request(
    data: st.DataObject, ordered: list[str]
) -> None:
    # S1.9
    length = data.draw(st.integers(1, 3))
    args = {"raid.create": {"args": {"size": 1, "disks": []}}}
    wanted = [asked(title, **args.get(title, {})) for title in ordered[:length]]
    stored = step_lists.requested(wanted, OFFERED, StepKind.CLEAN)
    assert titles(stored) == ordered[:length]


def test_a_requested_step_is_stored_as_asked_with_two_facts_of_the_driver() -> None:
    wanted = asked("deploy.erase", args={}, order=3, execute_on_child_nodes=False)
    before = json.dumps(wanted)
    stored = step_lists.requested([wanted], OFFERED, StepKind.CLEAN)
    assert stored == [{**wanted, "abortable": True, "priority": 10}]
    assert json.dumps(wanted) == before


def test_a_step_may_be_asked_for_twice() -> None:
    stored = step_lists.requested([asked("deploy.erase")] * 2, OFFERED, StepKind.CLEAN)
    assert titles(stored) == ["deploy.erase", "deploy.erase"]


def test_a_checked_list_can_be_checked_again() -> None:
    # A conductor that takes over starts from what is stored.
    once = step_lists.requested([asked("deploy.erase")], OFFERED, StepKind.CLEAN)
    assert step_lists.requested(once, OFFERED, StepKind.CLEAN) == once


def test_paths_have_ordinals_of_the_whole_list_if_steps_are_skipped() -> None:
    wanted = [asked("raid.gone"), asked("deploy.erase"), asked("raid.gone")]
    faults = step_lists.requested_faults(wanted, OFFERED, StepKind.CLEAN, skip=[0])
    assert [fault.path for fault in faults] == ["clean_steps/2/step"]


@pytest.mark.parametrize(
    ("title", "hint"), [("deploy.erese", "; did you mean deploy.erase?"), ("raid.burn", "")]
)
def test_unsupported_step_suggests_a_similar_one(title: str, hint: str) -> None:
    (fault,) = step_lists.requested_faults([asked(title)], OFFERED, StepKind.CLEAN)
    assert fault.text == f"node does not support this clean step: {title}{hint}"


def test_every_fault_of_the_whole_list_is_told_at_once() -> None:
    # S1.16: the step and the argument are named; nothing is left for the next try to find.
    wanted = [
        asked("raid.destroy", args={"password": "s3cret"}),
        asked("raid.create", args={"colour": "red", "level": 1, "blink": True}),
        asked("deploy.erase", args={"how": "fast"}),
        asked("management.reset"),
    ]
    with pytest.raises(errors.InvalidParameter) as caught:
        step_lists.requested(wanted, OFFERED, StepKind.CLEAN, ramdisk=False)
    assert caught.value.facts["path"] == "clean_steps"
    assert caught.value.facts["reason"] == [
        "node does not support this clean step: raid.destroy",
        "clean step raid.create has these unexpected arguments: blink, colour",
        "clean step raid.create is missing these required arguments: "
        "size (GiB, a number), disks (IDs)",
        "clean step deploy.erase has these unexpected arguments: how",
        "clean step deploy.erase requires booting a ramdisk, which was disabled by request",
    ]
    assert caught.value.message == "; ".join(caught.value.facts["reason"])


@given(
    given_args=st.sets(st.sampled_from(["size", "level", "disks", "colour", "blink"])),
)
def test_a_list_is_refused_exactly_when_arguments_are_missing_or_unknown(
    given_args: set[str],
) -> None:
    wanted = [asked("raid.create", args=dict.fromkeys(given_args, 1))]
    fits = {"size", "disks"} <= given_args <= {"size", "disks", "level"}
    try:
        step_lists.requested(wanted, OFFERED, StepKind.CLEAN)
    except errors.InvalidParameter as why:
        assert not fits
        wrong = ({"size", "disks"} - given_args) | (given_args & {"colour", "blink"})
        assert all(name in why.message for name in wrong)
    else:
        assert fits


@pytest.mark.parametrize("args", [{}, {"args": None}, {"args": {}}])
def test_no_arguments_may_be_said_in_any_way(args: dict[str, Any]) -> None:
    assert step_lists.requested([asked("deploy.erase", **args)], OFFERED, StepKind.CLEAN)


def test_steps_that_need_no_ramdisk_run_without_one() -> None:
    wanted = [asked("management.reset")]
    assert step_lists.requested(wanted, OFFERED, StepKind.CLEAN, ramdisk=False)


@pytest.mark.parametrize("name", ["power_on", "power_off", "reboot", "hold", "wait"])
@pytest.mark.parametrize("kind", [StepKind.CLEAN, StepKind.SERVICE])
def test_reserved_steps_are_kept_whatever_interface_names_them(name: str, kind: StepKind) -> None:
    wanted = [asked(f"power.{name}"), asked("deploy.erase")]
    stored = step_lists.requested(wanted, OFFERED, kind, ramdisk=True)
    assert titles(stored) == [f"power.{name}", "deploy.erase"]
    assert stored[0]["abortable"]


@pytest.mark.parametrize("kind", [StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE])
@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("hold", {"seconds": 1}, "unexpected arguments: seconds"),
        ("power_on", {"force": True}, "unexpected arguments: force"),
        ("wait", {"minutes": 1}, "unexpected arguments: minutes"),
        ("wait", {"seconds": "5"}, "args/seconds: '5' is not a number"),
        ("wait", {"seconds": None}, "args/seconds: None is not a number"),
        ("wait", {"seconds": True}, "args/seconds: True is not a number"),
        ("wait", {"seconds": -0.1}, "args/seconds: -0.1 is not a number"),
        ("wait", {"seconds": float("nan")}, "args/seconds: nan is not a number"),
    ],
)
def test_arguments_of_reserved_steps_are_checked_like_any(
    kind: StepKind, name: str, args: dict[str, Any], said: str
) -> None:
    wanted = [asked(f"power.{name}", args=args, priority=1)]
    with pytest.raises(errors.InvalidParameter, match=f"{kind} step power.{name}.*{said}"):
        if kind is StepKind.DEPLOY:
            step_lists.deploy([], wanted, complete=False)
        else:
            step_lists.requested(wanted, [], kind)


@pytest.mark.parametrize("args", [None, {}, {"seconds": 0}, {"seconds": 0.5}, {"seconds": 10**400}])
def test_a_wait_takes_any_time_or_none(args: dict[str, Any] | None) -> None:
    assert step_lists.requested([asked("power.wait", args=args)], [], StepKind.CLEAN)


def test_the_sentences_name_the_kind() -> None:
    with pytest.raises(errors.InvalidParameter, match="this service step"):
        step_lists.requested([asked("raid.destroy")], OFFERED, StepKind.SERVICE)


# -- a deployment ----------------------------------------------------------------------------

CORE = Step("deploy", "deploy", 100, abortable=True)
WRITE = Step("deploy", "write_image", 80)
APPLY = Step("raid", "apply", 0, argsinfo={"raid_config": Arg("the layout", True)})
DRIVER = [WRITE, APPLY, CORE, Step("bios", "apply", 0, argsinfo={"settings": Arg("s", True)})]


def deploy_step(title: str, priority: int | str, **args: Any) -> Any:
    return asked(title, args=args, priority=priority)


def compose(*user: StoredStep, complete: bool = True, **more: Any) -> list[StoredStep]:
    return step_lists.deploy(DRIVER, user, complete=complete, **more)


def test_without_a_request_the_drivers_enabled_steps_are_run() -> None:
    # S3.7
    listed = compose()
    assert titles(listed) == ["deploy.deploy", "deploy.write_image"]
    assert listed[0] == {
        "step": "deploy",
        "priority": 100,
        "abortable": True,
        "argsinfo": None,
        "interface": "deploy",
    }


def test_a_requested_step_replaces_the_drivers_and_is_stored_unchanged() -> None:
    mine = deploy_step("raid.apply", 90, raid_config={"a": 1})
    listed = compose(mine)
    assert titles(listed) == ["deploy.deploy", "raid.apply", "deploy.write_image"]
    assert listed[1] == mine


def test_priority_zero_removes_the_drivers_step() -> None:
    assert titles(compose(deploy_step("deploy.write_image", 0))) == ["deploy.deploy"]
    assert titles(compose(deploy_step("deploy.deploy", 0))) == ["deploy.write_image"]


def test_a_priority_may_come_as_digits() -> None:
    listed = compose(deploy_step("raid.apply", "90", raid_config={}))
    assert titles(listed) == ["deploy.deploy", "raid.apply", "deploy.write_image"]
    assert listed[1]["priority"] == "90"


def test_the_user_goes_before_the_template_and_the_template_before_the_driver() -> None:
    template = [deploy_step("deploy.write_image", 5), deploy_step("bios.apply", 7, settings=[])]
    user = deploy_step("bios.apply", 60, settings=[1])
    listed = compose(user, templates=[{"name": "CUSTOM_A", "steps": template}])
    assert [
        (title, one["priority"]) for title, one in zip(titles(listed), listed, strict=True)
    ] == [
        ("deploy.deploy", 100),
        ("bios.apply", 60),
        ("deploy.write_image", 5),
    ]


def template(name: str, *listed: StoredStep) -> StoredTemplate:
    return {"name": name, "steps": list(listed)}


def test_faults_of_templates_are_told_by_the_name_of_each() -> None:
    templates = [
        template("A", deploy_step("raid.apply", 90, raid_config={}), deploy_step("raid.no", 0)),
        template("B", deploy_step("raid.apply", 0), deploy_step("deploy.deploy", 1)),
    ]
    with pytest.raises(errors.InvalidParameter) as caught:
        compose(deploy_step("raid.apply", 5, raid_config={}), templates=templates)
    assert caught.value.facts["path"] == "instance_info/traits"
    assert caught.value.facts["reason"] == [
        "deploy template A: node does not support this deploy step: raid.no",
        "deploy template B: deploy step raid.apply is in deploy template A too",
        "deploy template B: deploy step raid.apply is missing these required arguments: "
        "raid_config (the layout)",
        "deploy template B: deploy.deploy is a core step, which can only be disabled by priority 0",
    ]
    assert compose(templates=[template("A", templates[0]["steps"][1])], complete=False)


def test_faults_of_the_request_are_told_before_those_of_templates() -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        compose(deploy_step("raid.no", 5), templates=[template("A", deploy_step("bios.no", 5))])
    assert caught.value.facts["path"] == "deploy_steps"


TITLES = ["deploy.deploy", "deploy.write_image", "raid.apply", "bios.apply", "power.hold"]
ARGS = {"raid.apply": {"raid_config": 1}, "bios.apply": {"settings": 1}}


@given(
    source=st.dictionaries(st.sampled_from(TITLES), st.sampled_from("AB"), max_size=5),
    theirs=st.lists(st.integers(0, 120), min_size=5, max_size=5),
    user=st.dictionaries(st.sampled_from(TITLES), st.integers(0, 120)),
)
def test_later_sources_go_before_earlier_ones(
    source: dict[str, str], theirs: list[int], user: dict[str, int]
) -> None:
    by_template = {
        title: 0 if title == "deploy.deploy" else priority
        for title, priority in zip(TITLES, theirs, strict=True)
        if title in source
    }
    user = {title: 0 if title == "deploy.deploy" else value for title, value in user.items()}
    templates = [
        template(
            name,
            *(
                deploy_step(title, by_template[title], **ARGS.get(title, {}))
                for title, owner in source.items()
                if owner == name
            ),
        )
        for name in "AB"
    ]
    asked = [deploy_step(title, value, **ARGS.get(title, {})) for title, value in user.items()]
    merged = {**{step.title: step.priority for step in DRIVER}, **by_template, **user}
    listed = compose(*asked, templates=templates)
    left = {title: value for title, value in merged.items() if value > 0}
    assert dict(zip(titles(listed), [one["priority"] for one in listed], strict=True)) == left
    assert [one["priority"] for one in listed] == sorted(left.values(), reverse=True)


@given(
    priorities=st.dictionaries(
        st.sampled_from(["deploy.write_image", "raid.apply", "bios.apply"]), st.integers(0, 120)
    ),
    seed=st.integers(),
)
def test_a_deployment_is_merged_by_title_and_ordered_by_priority(
    priorities: dict[str, int], seed: int
) -> None:
    needed = {"raid.apply": {"raid_config": 1}, "bios.apply": {"settings": 1}}
    user = [deploy_step(name, value, **needed.get(name, {})) for name, value in priorities.items()]
    random.Random(seed).shuffle(user)
    own = {step.title: step.priority for step in DRIVER}
    merged = {**own, **priorities}
    listed = compose(*user)
    ranked = [
        (-value, COMMON.index(title.split(".")[0]), title)
        for title, value in merged.items()
        if value > 0
    ]
    assert titles(listed) == [title for _, _, title in sorted(ranked)]


def test_an_agents_deploy_steps_may_have_fractions_of_a_priority() -> None:
    offered = [Step("raid", "last", 0.5), Step("raid", "mid", 10.2), Step("bios", "first", 10.5)]
    user = [deploy_step("raid.last", "11")]
    listed = step_lists.deploy(offered, complete=True)
    assert [step["step"] for step in listed] == ["first", "mid", "last"]
    listed = step_lists.deploy(offered, user, complete=True)
    assert [step["step"] for step in listed] == ["last", "first", "mid"]


def test_a_deployment_is_refused_with_all_its_faults() -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        compose(
            deploy_step("deploy.deploy", 50),
            deploy_step("raid.apply", 90),
            deploy_step("raid.apply", 91, raid_config={}, colour=1),
            deploy_step("raid.unknown", 10),
        )
    assert caught.value.facts["path"] == "deploy_steps"
    told = caught.value.facts["reason"]
    assert told[0] == "deploy.deploy is a core step, which can only be disabled by priority 0"
    assert told[1] == (
        "deploy step raid.apply is missing these required arguments: raid_config (the layout)"
    )
    assert told[2] == "deploy step raid.apply is given more than once"
    assert told[3] == "deploy step raid.apply has these unexpected arguments: colour"
    assert told[4] == "node does not support this deploy step: raid.unknown"
    assert len(told) == 5


def test_a_step_an_agent_may_still_bring_is_left_out_until_the_list_is_complete() -> None:
    unknown = deploy_step("deploy.inject_files", 70)
    assert titles(compose(unknown, complete=False)) == ["deploy.deploy", "deploy.write_image"]
    with pytest.raises(errors.InvalidParameter, match="does not support"):
        compose(unknown)


@pytest.mark.parametrize("name", sorted(step_lists.RESERVED))
def test_reserved_steps_stand_in_a_deployment_too(name: str) -> None:
    listed = compose(deploy_step(f"deploy.{name}", 90))
    assert titles(listed) == ["deploy.deploy", f"deploy.{name}", "deploy.write_image"]


def test_composing_changes_neither_the_request_nor_the_drivers_steps() -> None:
    user = [deploy_step("raid.apply", 90, raid_config={})]
    before = json.dumps(user)
    compose(*user)[0]["priority"] = 1
    assert json.dumps(user) == before
    assert CORE.priority == 100


# Which nodes a runbook is for, before and since it has traits, and the order of its steps.

BOOK = {"uuid": "u", "name": "CUSTOM_A", "traits": ["CUSTOM_B", "CUSTOM_C"]}


@pytest.mark.parametrize(
    ("traits", "version", "said"),
    [
        (["CUSTOM_A"], 111, None),
        (["CUSTOM_B"], 111, "none of the traits CUSTOM_A"),
        (["CUSTOM_C", "X"], 112, None),
        (["CUSTOM_A"], 112, "none of the traits CUSTOM_B, CUSTOM_C"),
        ([], 112, "none of the traits"),
    ],
    ids=["name", "no name", "trait", "name no more", "none"],
)
def test_node_and_runbook_have_a_trait_in_common(
    traits: list[str], version: int, said: str | None
) -> None:
    if said is None:
        step_lists.check_runbook(BOOK, "n", traits, version)
        return
    with pytest.raises(errors.InvalidParameter, match=said):
        step_lists.check_runbook(BOOK, "n", traits, version)


def test_a_runbook_without_traits_is_for_nobody() -> None:
    with pytest.raises(errors.InvalidParameter, match="has no traits"):
        step_lists.check_runbook({**BOOK, "traits": None}, "n", ["CUSTOM_A"], 112)


def test_steps_go_by_their_order_and_equals_as_listed() -> None:
    listed = [{"step": name, "order": order} for name, order in (("c", 2), ("a", 0), ("d", 2))]
    assert [step["step"] for step in step_lists.steps_of_runbook({"steps": listed})] == [
        "a",
        "c",
        "d",
    ]
