"""Behaviour of a fake machine, as the ``fake_`` keys of driver_info control it.

``parse`` reads the keys of ``PROPERTIES``; `Staged`, the base of all fake interfaces, plays each
step as they say. The state of a fake machine is stored on its node, nothing in memory, so it
survives a restart and is the same on every conductor.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import erasure_results, step_lists, steps, vocabulary
from ironic_lite.drivers import base, settings

VERBS = ("inspect", "rescue", "unrescue", "adopt", "delete", "verify")
ASYNC_VERBS = ("inspect", "rescue")
CALLS = (
    *("management.set_boot_mode", "management.set_secure_boot_state", "management.inject_nmi"),
    *("management.set_indicator_state", "management.get_sensors_data"),
    *("management.attach_virtual_media", "management.detach_virtual_media", "vendor.blink"),
)
ALL = "*"
LONGEST = 366 * 24 * 3600
"""Limit in seconds, so that a timer's end is a valid date."""
LONGEST_MESSAGE = 1024
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_LONGEST_KEY = 64
_LISTS: Mapping[str, base.StepKind] = {
    f"{kind}_steps": kind
    for kind in (base.StepKind.CLEAN, base.StepKind.DEPLOY, base.StepKind.SERVICE)
}

PROPERTIES: Mapping[str, str] = {
    "fake_step_seconds": (
        "Seconds each step takes, a number of 0 or more. Default: [fake]step_seconds. Optional."
    ),
    "fake_async_steps": (
        'List of "interface.step", or ["*"] for all: these steps wait and finish by themselves '
        "after fake_step_seconds. Verify steps never wait. Optional."
    ),
    "fake_fail_steps": (
        'Dictionary of "interface.step" to a message: these steps fail with it. Optional.'
    ),
    "fake_fail_power": "Message with which every power call fails. Optional.",
    "fake_health": (
        f"Health that the power sync reads: {', '.join(vocabulary.HEALTH)}. Default: unknown. "
        "Optional."
    ),
    "fake_fail_verbs": (
        f"Dictionary of a verb ({', '.join(VERBS)}) to the message it fails with. Optional."
    ),
    "fake_fail_calls": (
        f"Dictionary of a call ({', '.join(CALLS)}) to the message it fails with. Optional."
    ),
    "fake_async_verbs": (
        f"List of verbs ({', '.join(ASYNC_VERBS)}) that pass through their wait state and finish "
        "by themselves after fake_step_seconds. Optional."
    ),
    "fake_ports": "List of MAC addresses: an inspection finds these network cards. Optional.",
    "fake_vendor": "Who made the machine, as its BMC tells. Default: it does not tell. Optional.",
    "fake_steps_unavailable": (
        "Seconds, an integer: only an agent knows the clean steps. Before the first cleaning the "
        "list is not available, retry after that time; -1 is unknown. Optional."
    ),
    "fake_erasures": (
        "List of disks that deploy.erase_devices reports, as an agent does: each a dictionary with "
        "name, result (erased, skipped or failed), serial, level and so on. Optional."
    ),
    "fake_agent": (
        "List of ramdisks, the first of which boots to clean, deploy or service: each a dictionary "
        "with version, clean_steps, deploy_steps and service_steps (as an agent lists them), and "
        'but for the first at, the "interface.step" at which it takes the place of the one before. '
        "Optional."
    ),
}

_OF_STEPS = ("fake_step_seconds", "fake_async_steps", "fake_fail_steps")
_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "deploy": ("fake_fail_verbs", "fake_steps_unavailable", "fake_agent", "fake_erasures"),
    "inspect": ("fake_step_seconds", "fake_fail_verbs", "fake_async_verbs", "fake_ports"),
    "management": (
        *("fake_step_seconds", "fake_fail_verbs", "fake_fail_calls", "fake_ports"),
        "fake_vendor",
    ),
    "power": ("fake_fail_power", "fake_health"),
    "rescue": ("fake_step_seconds", "fake_fail_verbs", "fake_async_verbs"),
    "vendor": ("fake_step_seconds", "fake_fail_calls"),
}
"""The keys that a fake interface reads; an interface with steps also reads ``_OF_STEPS``."""


def properties(kind: str, *, with_steps: bool) -> settings.DriverFields:
    """Return the keys that control one fake interface."""
    keys = {*_OF_KIND.get(kind, ()), *(_OF_STEPS if with_steps else ())}
    return {
        key: settings.DriverField(functools.partial(_READERS[key], key), text)
        for key, text in PROPERTIES.items()
        if key in keys
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Ramdisk:
    """One ramdisk with its agent: the agent's version and its steps.

    ``at`` is the step at which it replaces the previous ramdisk; None for the first.
    """

    version: str
    at: str | None
    steps: Mapping[base.StepKind, list[base.StoredStep]]


@dataclasses.dataclass(frozen=True, slots=True)
class Behaviour:
    """The checked keys of one node; a missing key's field is empty or None."""

    step_seconds: float | None = None
    async_steps: frozenset[str] = frozenset()
    fail_steps: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fail_power: str | None = None
    health: str | None = None
    fail_verbs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fail_calls: Mapping[str, str] = dataclasses.field(default_factory=dict)
    async_verbs: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()
    vendor: str | None = None
    steps_unavailable: int | None = None
    agent: tuple[Ramdisk, ...] = ()
    erasures: list[Any] | None = None

    def waits(self, title: str) -> bool:
        """Return whether the step ``interface.step`` waits and finishes by itself."""
        return title in self.async_steps or ALL in self.async_steps

    @property
    def named(self) -> Mapping[str, set[str]]:
        """Return the steps that each key names."""
        return {
            "fake_async_steps": set(self.async_steps - {ALL}),
            "fake_fail_steps": set(self.fail_steps),
            "fake_agent": {disk.at for disk in self.agent if disk.at is not None},
        }

    @property
    def agents(self) -> set[str]:
        """Return the steps, of any kind, that only an agent has."""
        lists = (listed for disk in self.agent for listed in disk.steps.values())
        return {steps.title(step) for listed in lists for step in listed}


def parse(driver_info: JsonView) -> Behaviour:
    """Parse the ``fake_`` keys of a node; other keys are ignored.

    Only the interfaces know their steps: see ``check``.

    :raises errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    if driver_info.keys().isdisjoint(_READERS):
        return _PLAIN
    found = {
        key.removeprefix("fake_"): read(key, driver_info[key])
        for key, read in _READERS.items()
        if key in driver_info
    }
    return Behaviour(**found)


def check(driver_info: JsonView, interface: str, own: Callable[[], set[str]]) -> None:
    """Reject typing errors: unknown keys, and steps that an interface does not have.

    :param interface: the kind whose steps are checked; other kinds check theirs.
    :param own: returns the names of its steps.
    :raises errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    for key in driver_info:
        if key.startswith("fake_") and key not in PROPERTIES:
            raise _refuse_key(
                _shortened_key(key), f"there is no such key; there are {', '.join(PROPERTIES)}"
            )
    script = parse(driver_info)
    for key, titles in script.named.items():
        for title in sorted(titles):
            kind, _, name = title.partition(".")
            if kind == interface and title not in script.agents and name not in own():
                known = ", ".join(sorted(own())) or "none"
                raise _refuse_key(key, f"{_shortened_value(title)} is no step; {kind} has {known}")


def _shortened_key(key: str) -> str:
    return key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]}..."


def _refuse_key(key: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=f"driver_info/{key}", reason=reason)


def _wrong_value(key: str, value: object, what: str) -> errors.InvalidParameter:
    return _refuse_key(key, f"{_shortened_value(value)} {what}")


def _shortened_value(value: object) -> str:
    """Return a value shortened for an error."""
    return reprlib.repr(value)


def _read_seconds(key: str, value: object) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    # Comparing, not math.isfinite: that one fails on a very large int. NaN compares as false.
    if not fits or not 0 <= value <= LONGEST:  # type: ignore[operator]  # fits
        raise _wrong_value(key, value, f"is not a number of seconds from 0 to {LONGEST}")
    return value  # type: ignore[return-value]  # narrowed by the isinstance above


def _whole_seconds(key: str, value: object) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or not -1 <= value <= LONGEST:  # type: ignore[operator]  # fits
        raise _wrong_value(key, value, f"is not an integer from -1 (unknown) to {LONGEST}")
    return value  # type: ignore[return-value]  # narrowed by the isinstance above


def _read_message(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong_value(key, value, "is not a message; remove the key to fail no more")
    if len(value) > LONGEST_MESSAGE:
        raise _refuse_key(key, f"a message has at most {LONGEST_MESSAGE} characters")
    return value


def _read_word(key: str, value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _LONGEST_KEY:
        raise _wrong_value(key, value, f"is no name of 1 to {_LONGEST_KEY} characters")
    return value


def _read_text_of(read: Callable[[str, object], str]) -> Callable[[str, object], str]:
    """Return a reader that takes a number for its text, as Ironic's command line sends it."""

    def read_text(key: str, value: object) -> str:
        try:
            return read(key, settings.text(value))
        except ValueError:
            return read(key, value)

    return read_text


def _read_title(key: str, value: object) -> str:
    interface, _, step = value.partition(".") if isinstance(value, str) else ("", "", "")
    if interface not in base.KINDS or not step.isidentifier():
        raise _refuse_key(
            key,
            f'{_shortened_value(value)} is not of the form "interface.step" '
            f"with an interface of {', '.join(base.KINDS)}",
        )
    return str(value)


def _async_title(key: str, value: object) -> str:
    return ALL if value == ALL else _read_title(key, value)


def _one_of(words: Collection[str]) -> Callable[[str, object], str]:
    def read(key: str, value: object) -> str:
        if value not in words:
            raise _wrong_value(key, value, f"is not one of {', '.join(words)}")
        return str(value)

    return read


def _read_mac(key: str, value: object) -> str:
    if not isinstance(value, str) or not _MAC.fullmatch(value):
        raise _wrong_value(key, value, "is not a MAC address")
    return value


def _list_reader(entry: Callable[[str, object], str]) -> Callable[[str, object], frozenset[str]]:
    def read(key: str, value: object) -> frozenset[str]:
        if not isinstance(value, list):
            raise _wrong_value(key, value, "is not a list")
        return frozenset(entry(key, each) for each in value)

    return read


def _messages_reader(name: Callable[[str, object], str]) -> Callable[[str, object], dict[str, str]]:
    def read(key: str, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise _wrong_value(key, value, "is not a dictionary of names to messages")
        return {name(key, each): _read_message(key, message) for each, message in value.items()}

    return read


def _read_ramdisks(key: str, value: object) -> tuple[Ramdisk, ...]:
    if not isinstance(value, list) or not value:
        raise _wrong_value(key, value, "is not a list of ramdisks, one at least")
    return tuple(_read_ramdisk(key, place, entry) for place, entry in enumerate(value))


def _read_ramdisk(key: str, place: int, entry: object) -> Ramdisk:
    if not isinstance(entry, dict):
        raise _refuse_key(key, f"{place}: {_shortened_value(entry)} is not a dictionary")
    unknown = sorted(set(entry) - {"version", "at", *_LISTS})
    if unknown:
        raise _refuse_key(key, f"{place}: {_shortened_value(unknown[0])} is not a key of a ramdisk")
    if ("at" in entry) is (place == 0):
        raise _refuse_key(key, f"{place}: at is for all but the first, which boots by itself")
    listed = {
        kind: _read_steps(key, f"{place}/{name}", entry, name) for name, kind in _LISTS.items()
    }
    at = _read_title(key, entry["at"]) if place else None
    return Ramdisk(_read_message(key, entry.get("version", str(place + 1))), at, listed)


def _read_steps(key: str, place: str, entry: JsonView, name: str) -> list[base.StoredStep]:
    given = entry.get(name, [])
    if not isinstance(given, list):
        raise _refuse_key(key, f"{place}: {_shortened_value(given)} is not a list of steps")
    try:
        found = steps.from_agent({"fake": given})
    except errors.HardwareError as why:
        raise _refuse_key(key, f"{place}: {_shortened_value(why.message)}") from why
    for interface in found:
        if interface not in step_lists.RANKS[_LISTS[name]]:
            raise _refuse_key(key, f"{place}: {_shortened_value(interface)} has no such steps")
    return [step for listed in found.values() for step in listed]


def _read_erasures(key: str, value: object) -> list[Any]:
    found = erasure_results.parse({"kind": erasure_results.KIND, "disks": value})
    if found.fault is not None or not isinstance(value, list):
        raise _refuse_key(key, found.fault or "it is not a list")
    return value


_READERS: Mapping[str, Callable[[str, object], Any]] = {
    "fake_step_seconds": _read_seconds,
    "fake_async_steps": _list_reader(_async_title),
    "fake_fail_steps": _messages_reader(_read_title),
    "fake_fail_power": _read_text_of(_read_message),
    "fake_health": _one_of(vocabulary.HEALTH),
    "fake_fail_verbs": _messages_reader(_one_of(VERBS)),
    "fake_fail_calls": _messages_reader(_one_of(CALLS)),
    "fake_async_verbs": _list_reader(_one_of(ASYNC_VERBS)),
    "fake_ports": _list_reader(_read_mac),
    "fake_vendor": _read_text_of(_read_word),
    "fake_steps_unavailable": _whole_seconds,
    "fake_agent": _read_ramdisks,
    "fake_erasures": _read_erasures,
}
_PLAIN = Behaviour()


RAMDISK = "fake_ramdisk"
"""Key of the running ramdisk's index in driver_info/fake_agent; absent without a ramdisk."""
BOOTS = "deploy.deploy"
"""The deploy step that boots the ramdisk, and so does not go to its agent."""
MANAGER = "fake"
"""The agent's only hardware manager."""
FAILURES: Mapping[base.StepKind, type[errors.StepFailed]] = {
    base.StepKind.CLEAN: errors.CleanStepFailed,
    base.StepKind.DEPLOY: errors.DeployStepFailed,
    base.StepKind.SERVICE: errors.StepFailed,
    base.StepKind.VERIFY: errors.StepFailed,
}


def read_behaviour(task: base.Task) -> Behaviour:
    """Parse the node's driver_info.

    :raises errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    return parse(task.node.driver_info)


def step_seconds(script: Behaviour) -> float:
    """Return the duration of a step on this node."""
    if script.step_seconds is not None:
        return script.step_seconds
    return float(config.CONF.fake.step_seconds)


def fail_verb(task: base.Task, verb: str) -> None:
    """Fail if driver_info requests it for ``verb`` (one of ``VERBS``).

    :raises errors.HardwareError: with the operator's message.
    """
    message = read_behaviour(task).fail_verbs.get(verb)
    if message is not None:
        raise errors.HardwareError(reason=message)


def play_call(task: base.Task, title: str) -> None:
    """Take a step's time for a call (one of ``CALLS``); fail if requested.

    :raises errors.HardwareError: with the operator's message.
    """
    script = read_behaviour(task)
    if step_seconds(script):
        task.pause(step_seconds(script))
    if title in script.fail_calls:
        raise errors.HardwareError(reason=script.fail_calls[title])


def begin_wait(task: base.Task, verb: str) -> bool:
    """Set the timer and return True if ``verb`` is to pass through its wait state."""
    script = read_behaviour(task)
    if verb not in script.async_verbs:
        return False
    task.wake_after(step_seconds(script))
    return True


def meet_agent(task: base.Task, title: str) -> None:
    """Give a step to the running agent, if there is one.

    :raises errors.AgentChanged: the agent is not the one that listed its steps (S2.29).
    """
    running, disks = task.recall(RAMDISK), read_behaviour(task).agent
    if running is None or not disks or title == BOOTS:
        return
    if running + 1 < len(disks) and disks[running + 1].at == title:
        running += 1
        task.keep(RAMDISK, running)
    version = disks[min(running, len(disks) - 1)].version
    if task.manager_version != {MANAGER: version}:
        raise errors.AgentChanged(reason=f"now it is version {version}")


class Staged(base.Interface):
    """Base of all fake interfaces: the keys, their checks, and the play of a step.

    A step takes its time, then fails if requested, and only then has its effect. A waiting step
    does the same at the end of its wait.
    """

    def property_groups(self) -> settings.GroupedFields:
        """Return the ``fake_`` keys that control this interface."""
        return {settings.REHEARSAL: properties(self.kind, with_steps=bool(self._own_steps()))}

    def validate(self, task: base.Task) -> None:
        """Check the ``fake_`` keys.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        self.check_driver_info(task.node.driver_info)

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values of the ``fake_`` keys.

        :raises errors.InvalidParameter: naming ``driver_info/<key>``.
        """
        check(driver_info, self.kind, self._own_steps)

    def _own_steps(self) -> set[str]:
        kinds = (steps.collect(self.kind, self, kind) for kind in base.StepKind)
        return {step.name for listed in kinds for step in listed}

    def uses_agent(self, task: base.Task) -> bool:
        """Return whether the machine has a ramdisk with an agent (driver_info/fake_agent)."""
        return bool(read_behaviour(task).agent)

    def execute_clean_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a clean step.

        :raises errors.CleanStepFailed: told to, or an argument is wrong (S1.17).
        """
        return self._play_step(task, base.StepKind.CLEAN, step)

    def execute_deploy_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a deploy step.

        :raises errors.DeployStepFailed: told to, or an argument is wrong (S3.17).
        """
        return self._play_step(task, base.StepKind.DEPLOY, step)

    def execute_service_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a service step.

        :raises errors.StepFailed: told to, or an argument is wrong.
        """
        return self._play_step(task, base.StepKind.SERVICE, step)

    def execute_verify_step(self, task: base.Task, step: base.StoredStep) -> base.Outcome | None:
        """Play a verify step, never waiting.

        :raises errors.StepFailed: told to.
        """
        return self._play_step(task, base.StepKind.VERIFY, step)

    def poll_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome:
        """End a waiting step, because its time is over.

        :raises errors.StepFailed: or its child of this kind, as when the step had not waited.
        """
        return self._end_step(task, kind, step) or base.DONE

    def _play_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome | None:
        script = read_behaviour(task)
        time = step_seconds(script)
        if kind is not base.StepKind.VERIFY and script.waits(self._step_title(step)):
            task.wake_after(time)
            return base.WAIT
        if time:
            task.pause(time)
        return self._end_step(task, kind, step)

    def _end_step(
        self, task: base.Task, kind: base.StepKind, step: base.StoredStep
    ) -> base.Outcome | None:
        title = self._step_title(step)
        meet_agent(task, title)
        message = read_behaviour(task).fail_steps.get(title)
        if message is not None:
            raise FAILURES[kind](step=title, reason=message)
        if title in read_behaviour(task).agents and step["step"] not in self._own_steps():
            return None  # the agent has done it
        try:
            return self._execute(task, step)
        except errors.InvalidParameter as why:
            # A step does not know for which list it runs; here it is known.
            raise FAILURES[kind](step=title, reason=why.message) from why

    def _step_title(self, step: base.StoredStep) -> str:
        return f"{self.kind}.{step['step']}"
