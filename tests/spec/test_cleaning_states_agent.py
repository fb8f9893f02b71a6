"""S2, cleaning states: the steps of an agent, and what a clean must remember of it (S2.29)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ironic_lite.domain import steps
from tests.support.cleaning_fixture import begun, stored, watched
from tests.support.conductor_fixture import listed
from tests.support.operator import Json, Operator

Serve = Callable[..., Operator]
METADATA, DEVICES, BURN = "deploy.erase_devices_metadata", "deploy.erase_devices", "deploy.burn_in"
Seen = list[tuple[str, Json]]


def ramdisk(version: str, priority: float, **more: str) -> Json:
    """Return a ramdisk whose agent knows one step."""
    step = {"interface": "deploy", "step": "burn_in", "priority": priority}
    return {"version": version, "clean_steps": [step], **more}


CHANGING = [ramdisk("1", 50), ramdisk("2", 5, at=BURN)]


@pytest.fixture
def seen(serve: Serve) -> tuple[Operator, Seen]:
    """A service, and what GET shows of its one node as each clean step begins."""
    shown: Seen = []

    def before(_kind: str, name: str) -> None:
        if name == "execute_clean_step":
            (row,) = operator.api.get("/v1/nodes/detail").json["nodes"]
            shown.append((steps.title(row["clean_step"]), row["driver_internal_info"]))

    operator = serve(registry=watched(before))
    return operator, shown


def enroll(operator: Operator, ramdisks: list[Json]) -> str:
    """Return a manageable node that boots these ramdisks."""
    node = operator.enroll()
    assert operator.patches(node, driver_info={"fake_agent": ramdisks}).status == 200
    return node


def test_s2_29_another_hardware_manager_restarts_an_automated_clean(
    seen: tuple[Operator, Seen],
) -> None:
    operator, shown = seen
    node = enroll(operator, CHANGING)
    told = operator.shows(node)["driver_info"]
    assert operator.asks(node, "provide").status == 202
    row = operator.rig.reaches(node, "available")
    # The step that the new agent was given is refused; then everything is run, in the new order.
    ran = [METADATA, BURN, METADATA, DEVICES, BURN]
    assert [title for title, _ in shown] == begun(operator, node) == ran
    versions = [info["hardware_manager_version"]["fake"] for _, info in shown]
    assert versions == ["1", "1", "2", "2", "2"]
    assert [info["clean_step_index"] for _, info in shown] == [0, 1, 0, 1, 2]
    assert (stored(row), row["last_error"], row["maintenance"]) == (
        ("available", None),
        None,
        False,
    )
    # C17: what the clean remembers is not kept in the operator's driver_info.
    assert operator.shows(node)["driver_info"] == told
    assert row["driver_internal_info"]["hardware_manager_version"] == {"fake": "2"}


def test_s2_29_unchanged_hardware_manager_does_not_restart_a_clean(
    seen: tuple[Operator, Seen],
) -> None:
    operator, shown = seen
    node = enroll(operator, CHANGING[:1])
    operator.asks(node, "provide")
    operator.rig.reaches(node, "available")
    assert [title for title, _ in shown] == [METADATA, BURN, DEVICES]


def test_s2_29_a_manual_clean_is_not_begun_again(seen: tuple[Operator, Seen]) -> None:
    operator, shown = seen
    node = enroll(operator, CHANGING)
    asked = [METADATA, BURN, DEVICES]
    assert operator.asks(node, "clean", clean_steps=listed(*asked)).status == 202
    assert stored(operator.rig.reaches(node, "manageable")) == ("manageable", None)
    # Only the step that was refused is given to the new agent.
    assert [title for title, _ in shown] == [METADATA, BURN, BURN, DEVICES]


def test_s2_12_steps_of_an_agent_with_one_priority_run_by_their_names(
    operator: Operator,
) -> None:
    names = ("z_last", "a_first", "m_middle")
    ours = [{"interface": "deploy", "step": name, "priority": 10} for name in names]
    node = enroll(operator, [{"version": "1", "clean_steps": ours}])
    operator.asks(node, "provide")
    operator.rig.reaches(node, "available")
    # C8: nobody can give them another priority here, so they are not refused.
    wanted = ["a_first", "erase_devices", "m_middle", "z_last"]
    assert begun(operator, node) == [METADATA, *(f"deploy.{name}" for name in wanted)]


def test_s2_29_notes_of_a_step_are_on_the_node(operator: Operator) -> None:
    node = operator.enroll()
    settings = [{"name": "turbo", "value": "on"}]
    step = {**listed("bios.apply_configuration")[0], "args": {"settings": settings}}
    row = operator.provision(node, "clean", clean_steps=[step])
    assert row["driver_internal_info"]["driver_notes"]["fake_bios_settings"] == settings
    assert row["driver_info"] == {}
