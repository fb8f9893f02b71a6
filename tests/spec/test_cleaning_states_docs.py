"""S2, cleaning states: what the documentation owes to operators."""

from __future__ import annotations

from ironic_lite.core import options
from ironic_lite.domain import step_planning
from ironic_lite.domain.steps import StepKind, collect
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry, Settings
from tests.support.conductor_fixture import configure
from tests.support.docs_pages import lacks, section

CLEANING = "cleaning.rst"


def test_s2_33_page_says_how_cleaning_works_and_is_configured() -> None:
    how = section(CLEANING, "Cleaning")
    assert lacks(how, "after ``deleted``", "``provide``", "priority is above 0", "``clean``") == []
    automated = section(CLEANING, "Automated cleaning")
    ranks = sorted(step_planning.RANKS[StepKind.CLEAN].items(), key=lambda each: -each[1])
    places = [automated.index(f"``{kind}``") for kind, _ in ranks]
    assert places == sorted(places)  # equal priorities, in their true order
    assert lacks(automated, "falling priority", "logs an error", "0 leaves a step out") == []
    names = {option.dest for option in (*options.GROUPS["conductor"], *options.GROUPS["deploy"])}
    told = [
        "automated_clean_enable",
        "clean_step_priority_override",
        *sorted(name for name in names if name.endswith("_priority")),
    ]
    assert set(told) <= names
    assert lacks(automated, *told, "/automated_clean", "clean_nodes", "rebuild never cleans") == []


def test_s2_33_page_says_what_the_steps_do_and_how_interfaces_differ() -> None:
    text = section(CLEANING, "Differences between interfaces")
    conf = configure(DEFAULT__enabled_hardware_types=["fake-hardware", "redfish"])
    registry = Registry.load(Settings.read(conf))
    rows = [
        f"- ``{step.title}`` - ``{name}`` - {step.priority}"
        for kind in base.KINDS
        for name, interface in registry.interfaces[kind].items()
        for step in collect(kind, interface, StepKind.CLEAN)
    ]
    assert len(rows) >= 9
    assert lacks(text, *rows) == []
    assert lacks(text, "Out of band", "in band", "ramdisk", "not* erased", "Effect") == []


def test_s2_34_page_names_the_risks_that_remain() -> None:
    text = section("security.rst", "What remains although machines are cleaned")
    assert lacks(text, "firmware", "BMC", "network", "ramdisk", "root on a machine") == []
    assert lacks(text, "does not make a machine trustworthy", "priority 0") == []


def test_s2_35_cleaning_can_be_abused_to_empty_the_pool() -> None:
    text = section("security.rst", "Cleaning as a denial of service")
    assert lacks(text, "hours", "empty the pool", "deploy and delete", "quotas") == []
    assert lacks(text, "for administrators", "max_concurrent_clean") == []
    names = {option.dest for option in options.GROUPS["conductor"]}
    assert {"max_concurrent_clean", "max_concurrent_deploy"} <= names


def test_s2_36_tear_down_takes_longer_than_old_clients_think() -> None:
    text = section("upgrading.rst", "Deleting takes longer")
    assert lacks(text, "``deleted``", "hours", "compute services", "time-out", "raise") == []
    assert lacks(section("upgrading.rst", "Clients that know fewer states"), "clean wait") == []
