"""What an agent's list of commands says of a step: pure tables, without I/O.

Commands live in the agent's memory, one runs at a time, and they are lost with its ramdisk. The
step's own name (``Task.step_id``) goes along with it and comes back with its result, so a conductor
that died between asking and writing down what it asked finds its step again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ironic_lite.steps import StepKind

MARK = "ironic_lite_step_id"
"""The key of a step that names it; the agent hands the whole step back."""
LISTED: Mapping[StepKind, str] = MappingProxyType(
    {StepKind.CLEAN: "clean", StepKind.DEPLOY: "deploy", StepKind.SERVICE: "service"}
)
"""Kinds of which an agent has steps, and its extension for them."""


class Status(enum.StrEnum):
    """What an agent says of a command; the words are the wire's."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CHANGED = "CLEAN_VERSION_MISMATCH"

    @classmethod
    def read(cls, word: object) -> Status | None:
        """Return the status of a word, None for one that no agent has."""
        if word == "VERSION_MISMATCH":  # a later name of the same
            return cls.CHANGED
        return next((status for status in cls if status == word), None)


_MOST = 1000  # characters of the beginning, and of the end, of what an agent says of a failure


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """A command as the agent tells of it.

    ``name`` comes without the extension; ``value`` is what it returned; ``reason`` why it failed.
    """

    id: str
    name: str
    status: Status
    value: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    kind: str = ""
    reason: str = ""


def read(document: object) -> Result:
    """Return the result object of an answer.

    :raises ValueError: saying what of it is not as it should be.
    """
    if not isinstance(document, Mapping):
        raise ValueError("a command is no JSON object")
    known, name = document.get("id"), document.get("command_name")
    status = Status.read(document.get("command_status"))
    if not (isinstance(known, str) and isinstance(name, str)):
        raise ValueError("a command has no id or no command_name")
    if status is None:
        raise ValueError(f"command_status is {document.get('command_status')!r:.80}")
    value, why = document.get("command_result"), document.get("command_error")
    return Result(
        known,
        name.rpartition(".")[2],
        status,
        value if isinstance(value, Mapping) else {},
        *_error(why),
    )


def _error(why: object) -> tuple[str, str]:
    """Return type and sentence; ``details`` says more than ``message``, where there is one."""
    if not isinstance(why, Mapping):
        return "", _short(str(why)) if why else ""
    said = why.get("details") or why.get("message") or ""
    return str(why.get("type") or "")[:_MOST], _short(str(said))


def _short(text: str) -> str:
    """Return the beginning and the end of a long text: a program's last words are there."""
    return text if len(text) <= 2 * _MOST else f"{text[:_MOST]} [...] {text[-_MOST:]}"


def read_list(document: object) -> list[Result]:
    """Return all commands of an answer, oldest first.

    :raises ValueError: saying what of it is not as it should be.
    """
    listed = document.get("commands") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError("there is no list of commands")
    return [read(one) for one in listed]


def execute(kind: StepKind) -> str:
    """Return the name of the command that runs a step of this kind, without the extension."""
    return f"execute_{kind}_step"


def begun(commands: Sequence[Result], kind: StepKind, step_id: str) -> Result | None:
    """Return the command that runs, or has run, a step of which nothing was written down.

    One runs at a time, and ours is the only service that gives commands: one that runs a step just
    now runs this one. One that has ended says which it was, unless it failed; then it is run again.
    """
    last = commands[-1] if commands else None
    if last is None or last.name != execute(kind):
        return None
    if last.status is Status.RUNNING:
        return last
    echo = last.value.get(f"{kind}_step")
    mine = isinstance(echo, Mapping) and echo.get(MARK) == step_id
    return last if mine else None


def running(commands: Sequence[Result], name: str) -> Result | None:
    """Return the command ``name`` if the agent carries it out just now."""
    last = commands[-1] if commands else None
    runs = last is not None and last.name == name and last.status is Status.RUNNING
    return last if runs else None


def unknown(before: Sequence[Result], now: Sequence[Result], name: str) -> Result | None:
    """Return the command ``name`` that is new since ``before``: its request arrived after all."""
    known = {one.id for one in before}
    last = now[-1] if now else None
    return last if last is not None and last.id not in known and last.name == name else None
