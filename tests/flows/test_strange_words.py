"""What a machine says, or a driver leaves, that no database takes: the node must not be stuck."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.registry import Registry
from ironic_lite.errors import unicode_text
from tests.db.conftest import database, server_urls
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed

__all__ = ["database", "server_urls"]

SAID = "no disk \0 \ud83d here"
SHOWN = "no disk \ufffd \ufffd here"


@pytest.fixture(autouse=True)
def plain_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel test processes tell each other what was logged, and can only do so in UTF-8."""
    formatted = logging.Formatter.formatException

    def plain(self: logging.Formatter, info: Any) -> str:
        return unicode_text.clean(formatted(self, info))

    monkeypatch.setattr(logging.Formatter, "formatException", plain)


def acting(act: Callable[[Any], None], method: str) -> Registry:
    """Return drivers of which one method does something else, with its task."""

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return act(cast(Any, call).args[0]) if name == method else call()

    return cast(Registry, crashes.Drivers(drivers(), around))


def raising(why: Exception) -> Callable[[Any], None]:
    def act(_task: Any) -> None:
        raise why

    return act


@pytest.mark.parametrize(
    "why",
    [errors.CleanStepFailed(step="power.cycle", reason=SAID), RuntimeError(SAID)],
    ids=["of ours", "any other"],
)
def test_a_step_fails_in_words_that_can_be_stored(
    build: Callable[..., ConductorFixture],
    database: Database,
    why: Exception,
) -> None:
    rig = build(database, registry=acting(raising(why), "execute_clean_step"))
    node = rig.node()
    row = rig.clean(node, "power.cycle")
    assert (row["provision_state"], row["fault"]) == ("clean failed", "clean failure")
    assert row["last_error"].endswith(SHOWN)
    assert rig.step_states(node) == ["failed"]
    assert rig.run(node)["error"]["text"] == row["last_error"] == row["maintenance_reason"]


def test_inspection_result_is_stored_with_invalid_text_replaced(
    build: Callable[..., ConductorFixture],
) -> None:
    def find(task: Any) -> None:
        task.node.properties = {"serial": SAID[8:], "sizes": [2**70]}

    rig = build(registry=acting(find, "inspect_hardware"))
    row = rig.call("inspect_hardware", rig.node())
    assert row["provision_state"] == "manageable"
    assert row["properties"] == {"serial": SHOWN[8:], "sizes": [str(2**70)]}


CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    # method -> first state, endpoint, its arguments, where it ends
    "execute_clean_step": ("manageable", "do_node_clean", {"clean_steps": listed("power.cycle")}),
    "execute_deploy_step": ("available", "do_node_deploy", {}),
    "execute_service_step": (
        *("active", "do_node_service"),
        {"service_steps": listed("vendor.log_passthrough")},
    ),
    "inspect_hardware": ("manageable", "inspect_hardware", {}),
    "rescue": ("active", "do_node_rescue", {"rescue_password": "secret"}),
}
ENDS = ("clean failed", "deploy failed", "service failed", "inspect failed", "rescue failed")


@pytest.mark.parametrize(("method", "end"), list(zip(CASES, ENDS, strict=True)))
@pytest.mark.parametrize("fails", [False, True], ids=["ends", "fails"])
def test_value_that_cannot_be_saved_leads_to_the_fail_state(
    build: Callable[..., ConductorFixture], method: str, end: str, fails: bool
) -> None:
    def leave(task: Any) -> None:
        task.node.properties = {"found": object()}
        if fails:
            raise RuntimeError("no disk")

    rig = build(registry=acting(leave, method))
    first, endpoint, args = CASES[method]
    node = rig.node(first, properties={"cpus": 1})
    row = rig.call(endpoint, node, **args)
    assert row["provision_state"] == end
    assert "Unexpected" in row["last_error"]
    assert (row["properties"], row["run_uuid"]) == ({"cpus": 1}, None)
    assert rig.run(node)["state"] == "failed"
    assert not {"running", "waiting"} & set(rig.step_states(node))
    assert rig.tasks.held == frozenset()
