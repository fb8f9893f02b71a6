"""Enrol nodes, send verbs and wait for states over HTTP, as an operator does.

Most tests have one node, ``m1``, and do not name it.
"""

from __future__ import annotations

from typing import Any

from tests.support.service import Service, until

Json = dict[str, Any]
NAME = "m1"


def enrol(up: Service, mac: str | None = None, *, node: str = NAME, **fields: Any) -> str:
    """Create a node, with a port if it has a card, and bring it to manageable; return its UUID."""
    found = up.create(node, **fields)
    if mac is not None:
        add_port(up, found, mac)
    up.provision(node, "manage", "manageable")
    return found


def add_port(up: Service, uuid: str, mac: str) -> None:
    """Give a node a card."""
    answer = up.ask("POST", "/v1/ports", {"node_uuid": uuid, "address": mac})
    assert answer.status_code == 201, answer.text


def asks(up: Service, target: str, *, node: str = NAME, **body: Any) -> None:
    """Ask for a verb, which is taken."""
    path = f"/v1/nodes/{node}/states/provision"
    answer = up.ask("PUT", path, {"target": target, **body})
    assert answer.status_code == 202, answer.text


def cleans(up: Service, *names: str, node: str = NAME, **args: Any) -> None:
    """Ask for these steps, ``interface.step``, or ``step`` for one of deploy."""
    steps = []
    for name in names:
        interface, _, step = name.rpartition(".")
        steps.append({"interface": interface or "deploy", "step": step, "args": args.get(step, {})})
    asks(up, "clean", node=node, clean_steps=steps)


def reaches(up: Service, state: str, *, node: str = NAME) -> Json:
    """Return the node when it rests in a state, a failure or not."""

    def look() -> Json | None:
        found: Json | None = up.get(f"/v1/nodes/{node}")
        rests = found and not found["reservation"] and found["provision_state"] == state
        return found if rests else None

    found = until(look, f"{node} {state}")
    assert found is not None
    return found


def told(up: Service, *, node: str = NAME) -> Json:
    """Return what drivers have noted of the node."""
    found: Json = up.get(f"/v1/nodes/{node}")["driver_internal_info"]
    return found
