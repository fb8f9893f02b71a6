"""The order of tests for parallel workers, and the tests that one worker runs together.

Tests with real processes wait most of their time, and all others compute. Side by side they keep
the processors busy until the end, so the tests that wait are spread over the run. Tests that
compute stay together by module: a worker makes only once what the tests of a module share. Modules
with a test of a minute begin first, or one worker would end long after the others. Without workers
the order is the usual one.
"""

from __future__ import annotations

import pathlib
from collections.abc import Generator

import pytest

COMPUTING = {
    "recorded": 300,
    "spec": 100,
    "flows": 90,
    "db": 50,
    "rpc": 50,
    "images": 20,
    "drivers": 50,
    "api": 45,
    "lint": 200,
    "unit": 10,
}
"""Folders whose tests compute, with milliseconds of one; in their order, so short ones end the run.

Tests of all other folders wait for processes.
"""
SHARING = {"window": 4}
"""Folders whose tests wait for programs that they share, with the number of their groups.

More groups wait less and start more programs, of which a browser needs most memory.
"""
LONG = (
    "api/test_openapi",
    "api/test_rights",
    "acceptance/test_sdk",
    "attack/test_attack",
    "acceptance/test_partition",
    "plugin/test_plugin",
    "acceptance/test_strangers",
    "api/test_plan",
    "flows/test_any_life",
)
"""Modules with a test, or a set-up, of half a minute or more; the longest comes first."""
PROOFS = (
    *("acceptance/test_agent_inspection", "acceptance/test_apart", "acceptance/test_benchmarks"),
    *("acceptance/test_demo", "acceptance/test_fleet", "acceptance/test_idempotency"),
    *("acceptance/test_logs", "acceptance/test_media", "acceptance/test_partition"),
    *(
        "acceptance/test_paused",
        "acceptance/test_site_faults",
        "acceptance/test_starts",
        "acceptance/test_strangers",
    ),
    *("acceptance/test_watch", "acceptance/test_wheel", "attack/test_attack"),
    *("chaos/test_chaos", "chaos/test_ending", "db/test_prepared", "db/test_sqlite"),
    *("drivers/redfish/served/test_runs", "flows/test_agents_die", "flows/test_any_life"),
    *("flows/test_bmc_steps_die", "flows/test_death_aside", "flows/test_dies_again"),
    *("flows/test_power_dies", "recorded/test_recorder", "rpc/test_deadlines"),
    "spec/test_retirement_ways",
    *("window/test_attention", "window/test_browser", "window/test_care", "window/test_changes"),
    *("window/test_changes_sent", "window/test_curls", "window/test_evidence"),
    *("window/test_filters", "window/test_fleet", "window/test_guard", "window/test_keys"),
    *("window/test_keystone", "window/test_lost", "window/test_orders", "window/test_selection"),
    *("window/test_states", "window/test_tabs", "window/test_tasks", "window/test_ways"),
    "window/test_words",
)
"""Modules that ``make test`` leaves to ``make proofs``.

Each takes long, and shorter tests touch its subject, too. `CONTRIBUTING.rst` says when to run them.
"""
LAST_WAIT = 0.8
"""Share of the run after which no test that waits begins."""
_GROUP = "xdist_group"


def add_option(parser: pytest.Parser) -> None:
    """Let a command choose one of the two parts of the suite."""
    about = "the tests without or with only the modules of PROOFS (default: all)"
    parser.addoption("--part", choices=("tests", "proofs"), help=about)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Choose the tests of ``--part``, group them for parallel workers, and spread those that wait.

    pytest-xdist reads the groups in its own hook, between the two halves of this one.
    """
    if part := config.getoption("part"):
        _choose(config, items, proofs=part == "proofs")
    if not hasattr(config, "workerinput") or not config.getoption("loadgroup"):
        return (yield)
    group(items)
    yield
    items[:] = arrange(items)


def _choose(config: pytest.Config, items: list[pytest.Item], *, proofs: bool) -> None:
    """Keep the tests that are proofs, or those that are not."""
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        is_proof = _name_of(item.nodeid.partition("::")[0]) in PROOFS
        (kept if is_proof is proofs else left).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def folder_of(nodeid: str) -> str:
    """Return the folder of a test, below ``tests``."""
    return pathlib.PurePosixPath(nodeid.partition("::")[0]).parts[1]


def group(items: list[pytest.Item]) -> None:
    """Mark the tests of each module that computes as a group of pytest-xdist.

    The rules of ``lint`` are one group, as they parse the same files. A folder of `SHARING` has a
    few groups of modules. Other tests that wait have no group unless they name one.
    """
    shared: dict[str, list[str]] = {folder: [] for folder in SHARING}
    for item in items:
        module = item.nodeid.partition("::")[0]
        folder = folder_of(module)
        if item.get_closest_marker(_GROUP) is not None:
            continue
        if folder in SHARING:
            if module not in shared[folder]:
                shared[folder].append(module)
            name = f"{folder}-{shared[folder].index(module) % SHARING[folder] + 1}"
        elif folder in COMPUTING:
            name = folder if folder == "lint" else _name_of(module)
        else:
            continue
        item.add_marker(pytest.mark.xdist_group(name))


def _name_of(module: str) -> str:
    """Return the name of a module's group, which reports show behind the name of each test."""
    return str(pathlib.PurePosixPath(module).relative_to("tests").with_suffix(""))


def _rank(unit: list[pytest.Item]) -> int:
    """Return the place of a module in `LONG`; all others have the place behind it."""
    name = _name_of(unit[0].nodeid.partition("::")[0])
    return LONG.index(name) if name in LONG else len(LONG)


def arrange(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return all tests, with their groups, in the order in which workers get them."""
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker(_GROUP)
        name = str(mark.args[0]) if mark is not None else item.nodeid
        units.setdefault(name, []).append(item)
    waiting: list[list[pytest.Item]] = []
    computing: list[list[pytest.Item]] = []
    for unit in units.values():
        (computing if folder_of(unit[0].nodeid) in COMPUTING else waiting).append(unit)
    waiting.sort(key=lambda unit: (_rank(unit), -len(unit)))
    computing.sort(key=lambda unit: (_rank(unit), [*COMPUTING].index(folder_of(unit[0].nodeid))))
    placed = [(LAST_WAIT * number / len(waiting), unit) for number, unit in enumerate(waiting)]
    lengths = [COMPUTING[folder_of(unit[0].nodeid)] * len(unit) for unit in computing]
    begin = 0
    for length, unit in zip(lengths, computing, strict=True):
        placed.append((begin / sum(lengths), unit))
        begin += length
    placed.sort(key=lambda place: place[0])
    return [item for _, unit in placed for item in unit]
