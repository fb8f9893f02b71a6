"""A model of one node: the expected states, from the tables of states and verbs.

The model stores how the fake machine is set to behave, the steps of the current run, and the
current step. From these it derives the state in which each request and each timer must end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ironic_lite.domain import states, verbs
from ironic_lite.domain.states import Kind, State

S = State

AUTOMATED = ("deploy.erase_devices_metadata", "deploy.erase_devices")
DEPLOY = ("deploy.deploy", "deploy.write_image", "deploy.boot_instance")
SERVICE = "vendor.log_passthrough"
CLEAN = (
    *("bios.factory_reset", "raid.delete_configuration", "management.reset_bmc", "power.cycle"),
    "deploy.erase_devices",
)
RESERVED = ("power.power_on", "power.reboot", "power.hold", "power.wait")
UNKNOWN = "raid.no_such"
ON_CHILD = ("power.power_on@", "management.reset_bmc@")  # as `titles` writes what children run
POWERED = frozenset({"power.cycle", "deploy.boot_instance", "power.power_on", "power.reboot"})
STEPS = (*AUTOMATED, *DEPLOY, SERVICE, *CLEAN)
VERBS = ("inspect", "rescue", "unrescue", "adopt", "delete", "verify")

# kind -> its states: busy, waiting, held, failed
PLACES = {
    "clean": (S.CLEANING, S.CLEANWAIT, S.CLEANHOLD, S.CLEANFAIL),
    "deploy": (S.DEPLOYING, S.DEPLOYWAIT, S.DEPLOYHOLD, S.DEPLOYFAIL),
    "service": (S.SERVICING, S.SERVICEWAIT, S.SERVICEHOLD, S.SERVICEFAIL),
}
KIND_OF = {state: kind for kind, places in PLACES.items() for state in places[:3]}


@dataclasses.dataclass(frozen=True)
class Told:
    """The behaviour that is set on the fake machine."""

    waits: bool = False
    fail_steps: frozenset[str] = frozenset()
    fail_verbs: frozenset[str] = frozenset()
    slow_verbs: frozenset[str] = frozenset()
    fail_power: bool = False

    def driver_info(self) -> dict[str, Any]:
        """Return the node's driver_info that makes it so."""
        told: dict[str, Any] = {
            "fake_async_steps": ["*"] if self.waits else [],
            "fake_fail_steps": dict.fromkeys(sorted(self.fail_steps), "smoke"),
            "fake_fail_verbs": dict.fromkeys(sorted(self.fail_verbs), "no"),
            "fake_async_verbs": sorted(self.slow_verbs),
        }
        return {**told, "fake_fail_power": "dark"} if self.fail_power else told


@dataclasses.dataclass
class Model:
    """One node as it should be."""

    state: State
    told: Told = Told()
    maintenance: bool = False
    fault: bool = False
    retired: bool = False
    automated: bool | None = None
    child_fails: bool = False
    manual: bool = False
    listed: tuple[str, ...] = ()
    at: int = 0
    later: bool = False  # an abort waits for the end of the step
    kept: bool = False  # the deployment's list stays to be read

    # -- requests ----------------------------------------------------------------------------

    def accepts(self, target: str) -> bool:
        """Return whether a provision verb is accepted."""
        verb = verbs.BY_TARGET[target]
        if not verbs.possible(verb, self.state):
            return False
        if verb.refused_if_retired and self.retired:
            return False
        if self.state is S.SERVICEFAIL and target == "abort" and self.maintenance:
            return False
        return not (self.maintenance and not verb.in_maintenance)

    def takes(self, target: str, body: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Follow an accepted verb to where the node comes to rest.

        :param row: the node before, for what its step says of itself.
        """
        if target == "abort":
            self._abort(row)
            return
        first = states.follow(self.state, verbs.BY_TARGET[target].event)
        if target == "unhold":
            self.state = first
            self.goes_on()
            return
        self.listed, self.at, self.later = (), 0, False
        self._begin(first, body)

    def _begin(self, first: State, body: Mapping[str, Any]) -> None:
        if first is S.CLEANING:
            self._clean(body.get("clean_steps"))
        elif first is S.DEPLOYING:
            self._deploy(body.get("deploy_steps") or ())
        elif first is S.SERVICING:
            self._walk_titles("service", titles(body["service_steps"]))
        elif first is S.DELETING:
            self._delete()
        else:
            self.state = self._in_one(first)

    def _in_one(self, first: State) -> State:
        """Return where what is no list of steps ends."""
        told = self.told
        name = _ONE_PIECE.get(first)
        if name is None:
            return first
        if name in told.slow_verbs and name in ("inspect", "rescue"):
            return states.follow(first, "wait")
        dark = told.fail_power and name in ("verify", "adopt")
        return states.follow(first, "fail" if name in told.fail_verbs or dark else "done")

    def _clean(self, asked: Sequence[Mapping[str, Any]] | None) -> None:
        self.manual = asked is not None
        if asked is None and self.automated is False:
            self.state = self._cleaned()
            return
        self._walk_titles("clean", AUTOMATED if asked is None else titles(asked))

    def _cleaned(self) -> State:
        return states.follow(S.CLEANING, "manage" if self.manual or self.retired else "done")

    def _deploy(self, asked: Sequence[Mapping[str, Any]]) -> None:
        self.kept = False
        self._walk_titles("deploy", (*DEPLOY[:2], *titles(asked), DEPLOY[2]))

    def _delete(self) -> None:
        self.kept = False
        # The machine is switched off, and its child, which has no supply of its own, before it.
        if "delete" in self.told.fail_verbs or self.told.fail_power or self.child_fails:
            self.state = states.follow(S.DELETING, "fail")
            return
        goal = self.retired
        self._clean(None)
        self.manual = goal and self.state in KIND_OF

    def _abort(self, row: Mapping[str, Any]) -> None:
        kind = KIND_OF.get(self.state)
        if kind and states.kind(self.state) is Kind.WAIT and not _abortable(row[f"{kind}_step"]):
            self.later = True
            return
        self._called_off()

    def _called_off(self) -> None:
        self.kept = self.kept or self.state in (S.DEPLOYWAIT, S.DEPLOYHOLD)
        self.state = states.follow(self.state, "abort")
        if self.state is S.SERVICEFAIL:  # as long as tidying up takes
            self.state = states.follow(self.state, "abort")
        self.later = False

    # -- going on ----------------------------------------------------------------------------

    def rings(self) -> None:
        """Follow what a timer's ring leads to: the end of what waited, good or bad."""
        name = {S.INSPECTWAIT: "inspect", S.RESCUEWAIT: "rescue"}.get(self.state)
        if name is not None:
            busy = states.follow(self.state, "resume")
            failed = name in self.told.fail_verbs
            self.state = states.follow(busy, "fail" if failed else "done")
        elif self._breaks(self.listed[self.at]) and self.listed[self.at] not in RESERVED:
            self._fails(KIND_OF[self.state])
        else:
            self.goes_on()

    def goes_on(self) -> None:
        """Follow the end of the step that waits."""
        if self.later:
            self._called_off()
            return
        self._walk(KIND_OF[self.state], self.at + 1)

    def waits_too_long(self) -> None:
        """Follow a time-out."""
        if states.kind(self.state) is not Kind.WAIT or (self.maintenance and not self.fault):
            return
        if self.state in KIND_OF:
            self._fails(KIND_OF[self.state])
        else:
            self.state = states.follow(self.state, "fail")

    # -- lists -------------------------------------------------------------------------------

    def _walk_titles(self, kind: str, listed: Sequence[str]) -> None:
        self.listed = tuple(listed)
        if UNKNOWN in listed:
            self._fails(kind)
            return
        self._walk(kind, 0)

    def _walk(self, kind: str, first: int) -> None:
        busy, waiting, held, _ = PLACES[kind]
        for place, title in enumerate(self.listed[first:], first):
            self.at = place
            if title == "power.hold":
                self.state = held
                return
            own = title not in ON_CHILD
            if title == "power.wait" or (self.told.waits and own and title not in RESERVED):
                self.state = waiting
                return
            if self._breaks(title):
                self._fails(kind)
                return
        self.later = False
        self.state = self._cleaned() if kind == "clean" else states.follow(busy, "done")

    def _breaks(self, title: str) -> bool:
        if title in ON_CHILD:
            return self.child_fails
        return title in self.told.fail_steps or (self.told.fail_power and title in POWERED)

    def _fails(self, kind: str) -> None:
        self.state = PLACES[kind][3]
        self.later = False
        if kind == "deploy":
            self.kept = True
        else:
            self.maintenance = self.fault = True


_ONE_PIECE = {
    S.VERIFYING: "verify",
    S.INSPECTING: "inspect",
    S.ADOPTING: "adopt",
    S.RESCUING: "rescue",
    S.UNRESCUING: "unrescue",
}


def titles(listed: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return ``interface.step`` of each step, with an @ if it is for the children."""
    return tuple(
        f"{step['interface']}.{step['step']}{'@' if step.get('execute_on_child_nodes') else ''}"
        for step in listed
    )


def _abortable(step: Mapping[str, Any] | None) -> bool:
    if not step:
        return True
    return bool(step.get("abortable")) or f"power.{step['step']}" in RESERVED
