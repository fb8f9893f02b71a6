"""Machines on the way through their states, concurrently, by requests over HTTP.

Each round reads all machines by one request; each machine that has reached a state is sent the next
verb.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from demo.client import Client
from ironic_lite.core.json_types import Json
from ironic_lite.domain import states
from ironic_lite.domain.states import State

PAUSE = 0.05
"""Seconds between two polls."""
_FIELDS = "name,provision_state,power_state,clean_step,deploy_step,last_error"


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """A verb to send, and the state that it finally leads to."""

    verb: str
    goal: State
    more: Json = dataclasses.field(default_factory=dict)


STEPS = [
    {"interface": "raid", "step": "delete_configuration"},
    {"interface": "deploy", "step": "erase_devices_metadata"},
]
"""Steps of the manual clean. The emulator has none of its own: it cannot reset its BMC."""

STAGES = (
    Stage("manage", State.MANAGEABLE),
    Stage("clean", State.MANAGEABLE, {"clean_steps": STEPS}),
    Stage("provide", State.AVAILABLE),
    Stage("active", State.ACTIVE),
    Stage("deleted", State.AVAILABLE),
)


class JourneyError(Exception):
    """A machine failed, or was not finished in time; the text names it."""


@dataclasses.dataclass
class Machine:
    """One machine: its state, the current verb, and its start time.

    ``seconds`` is the time since its first verb, and stops when the machine has finished.
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
        """True if all verbs are done."""
        return self.done == len(STAGES)

    def look(self, node: Json) -> bool:
        """Store the values of the API; return whether they have changed."""
        self.seconds = time.monotonic() - self._began
        state, power = node["provision_state"], node["power_state"]
        running = node["clean_step"] or node["deploy_step"] or {}
        step = f"{running['interface']}.{running['step']}" if running else ""
        news = (state, power, step) != (self.state, self.power, self.step)
        if state != self.state:
            self.path.append(state)
        self.state, self.power, self.step = state, power, step
        return news

    def check(self, node: Json) -> None:
        """Raise JourneyError if the machine failed."""
        # A machine that fails verification returns to its former state.
        fallen = self._asked and self.state == State.ENROLL
        if fallen or State(self.state) in states.of_kind(states.Kind.FAIL):
            raise JourneyError(f"{self.name} is in {self.state}: {node['last_error']}")

    def advance(self, api: Client) -> None:
        """Send the next verb if the last one is done."""
        if self._asked and self.state == STAGES[self.done].goal:
            self.done += 1
            self._asked = False
        if not self._asked and not self.arrived:
            leg = STAGES[self.done]
            body = {"target": leg.verb, **leg.more}
            # The accepted request has changed the state, so an old state cannot look like the goal.
            api.ask("PUT", f"/v1/nodes/{self.name}/states/provision", body)
            self._asked = True


def travel(
    api: Client,
    names: Sequence[str],
    show: Callable[[Sequence[Machine], Sequence[Machine]], None],
    limit: float,
) -> list[Machine]:
    """Lead machines through all of `STAGES`; return them.

    :param show: called with all machines, and those that changed, after each poll.
    :param limit: seconds for all of it.
    :raises JourneyError: a machine failed, or was not finished in time.
    :raises client.ApiError: a request was refused.
    """
    everybody = [Machine(name) for name in names]
    end = time.monotonic() + limit
    while left := [one for one in everybody if not one.arrived]:
        if time.monotonic() > end:
            where = ", ".join(f"{one.name} is in {one.state}" for one in left)
            raise JourneyError(f"not done within {limit:g} s: {where}")
        nodes = {node["name"]: node for node in api.get(f"/v1/nodes?fields={_FIELDS}")["nodes"]}
        show(everybody, [one for one in left if one.look(nodes[one.name])])
        for one in left:
            one.check(nodes[one.name])
            one.advance(api)
        time.sleep(PAUSE)
    show(everybody, [])
    return everybody
