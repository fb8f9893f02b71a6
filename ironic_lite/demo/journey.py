"""Machines on their way through their states, step by step over HTTP, all of them at once.

One request a round tells where all of them are; each that has arrived is sent on.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from ironic_lite import states
from ironic_lite.demo.client import Client
from ironic_lite.states import State

PAUSE = 0.05
"""Seconds between two looks."""
_FIELDS = "name,provision_state,power_state,clean_step,deploy_step,last_error"


@dataclasses.dataclass(frozen=True, slots=True)
class Leg:
    """A verb to be sent, and the state that it leads to in the end."""

    verb: str
    goal: State
    more: dict[str, Any] = dataclasses.field(default_factory=dict)


STEPS = [
    {"interface": "raid", "step": "delete_configuration"},
    {"interface": "deploy", "step": "erase_devices_metadata"},
]
"""Of the manual clean. The emulator has no step of its own: it cannot reset its BMC."""

LEGS = (
    Leg("manage", State.MANAGEABLE),
    Leg("clean", State.MANAGEABLE, {"clean_steps": STEPS}),
    Leg("provide", State.AVAILABLE),
    Leg("active", State.ACTIVE),
    Leg("deleted", State.AVAILABLE),
)


class JourneyError(Exception):
    """A machine failed, or did not arrive in time; the text says which and why."""


@dataclasses.dataclass
class Traveller:
    """One machine: where it is, what is done to it, and since when.

    ``seconds`` is the time since it was first sent off, and stands still when it has arrived.
    """

    name: str
    state: str = State.ENROLL
    power: str | None = None
    step: str = ""
    path: list[str] = dataclasses.field(default_factory=lambda: [str(State.ENROLL)])
    done: int = 0
    seconds: float = 0.0
    _asked: bool = False
    _began: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def arrived(self) -> bool:
        """Whether nothing is left to do."""
        return self.done == len(LEGS)

    def look(self, node: dict[str, Any]) -> bool:
        """Take over what the API says; return whether it is news."""
        self.seconds = time.monotonic() - self._began
        state, power = node["provision_state"], node["power_state"]
        running = node["clean_step"] or node["deploy_step"] or {}
        step = f"{running['interface']}.{running['step']}" if running else ""
        news = (state, power, step) != (self.state, self.power, self.step)
        if state != self.state:
            self.path.append(state)
        self.state, self.power, self.step = state, power, step
        return news

    def check(self, node: dict[str, Any]) -> None:
        """Raise JourneyError if the machine failed."""
        # A machine that cannot be verified falls back to where it came from.
        fallen = self._asked and self.state == State.ENROLL
        if fallen or State(self.state) in states.of_kind(states.Kind.FAIL):
            raise JourneyError(f"{self.name} is in {self.state}: {node['last_error']}")

    def go_on(self, api: Client) -> None:
        """Send the next verb if the last one has been carried out."""
        if self._asked and self.state == LEGS[self.done].goal:
            self.done += 1
            self._asked = False
        if not self._asked and not self.arrived:
            leg = LEGS[self.done]
            body = {"target": leg.verb, **leg.more}
            # Once this is accepted, the state is another one: the goal cannot be seen too early.
            api.ask("PUT", f"/v1/nodes/{self.name}/states/provision", body)
            self._asked = True


def travel(
    api: Client,
    names: Sequence[str],
    show: Callable[[Sequence[Traveller], Sequence[Traveller]], None],
    limit: float,
) -> list[Traveller]:
    """Lead machines through all of `LEGS`; return them.

    :param show: is told all machines, and those with news, after each look.
    :param limit: seconds for all of it.
    :raises JourneyError: a machine failed, or was not there in time.
    :raises client.ApiError: a request was refused.
    """
    everybody = [Traveller(name) for name in names]
    end = time.monotonic() + limit
    while left := [one for one in everybody if not one.arrived]:
        if time.monotonic() > end:
            where = ", ".join(f"{one.name} is in {one.state}" for one in left)
            raise JourneyError(f"not done within {limit:g} s: {where}")
        nodes = {node["name"]: node for node in api.get(f"/v1/nodes?fields={_FIELDS}")["nodes"]}
        show(everybody, [one for one in left if one.look(nodes[one.name])])
        for one in left:
            one.check(nodes[one.name])
            one.go_on(api)
        time.sleep(PAUSE)
    show(everybody, [])
    return everybody
