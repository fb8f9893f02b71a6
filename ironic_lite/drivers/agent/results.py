"""Parsing of an agent's command list, to find the command of a step. Pure.

Commands live in the agent's memory, run one at a time, and are lost with its ramdisk. The step's id
(``Task.step_id``) is sent with it and returned with its result, so a conductor that died between
request and note finds its step again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ironic_lite.core.json_types import JsonView
from ironic_lite.domain.steps import StepKind

MARK = "ironic_lite_step_id"
"""The key of a step for its id; the agent returns the whole step."""
LISTED: Mapping[StepKind, str] = MappingProxyType(
    {StepKind.CLEAN: "clean", StepKind.DEPLOY: "deploy", StepKind.SERVICE: "service"}
)
"""Step kinds of agents, and the agent's extension for each."""


class Status(enum.StrEnum):
    """Status of a command in the agent's words."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CHANGED = "CLEAN_VERSION_MISMATCH"

    @classmethod
    def read(cls, word: object) -> Status | None:
        """Return the status of a word, None for an unknown word."""
        if word == "VERSION_MISMATCH":  # a later name of the same status
            return cls.CHANGED
        return next((status for status in cls if status == word), None)


_MOST = 1000  # characters kept from the beginning and from the end of an error text


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """A command as the agent reports it.

    ``name`` has no extension; ``value`` is the result; ``kind``, ``reason`` and ``code`` are those
    of the error, and ``erasure`` the report of a failed erasing step, unchecked.
    """

    id: str
    name: str
    status: Status
    value: JsonView = dataclasses.field(default_factory=dict, repr=False)
    kind: str = ""
    reason: str = ""
    code: int | None = None
    erasure: object = dataclasses.field(default=None, repr=False)


def read(document: object) -> Result:
    """Parse a command in an answer.

    :raises ValueError: naming the fault.
    """
    if not isinstance(document, Mapping):
        raise ValueError("a command is not a JSON object")
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
        *_error_text(why),
        why.get("erasure") if isinstance(why, Mapping) else None,
    )


def _error_text(why: object) -> tuple[str, str, int | None]:
    """Return type, text and code of an error; ``details``, if present, tells more."""
    if not isinstance(why, Mapping):
        return "", _shortened_text(str(why)) if why else "", None
    said, code = why.get("details") or why.get("message") or "", why.get("code")
    kind = str(why.get("type") or "")[:_MOST]
    return kind, _shortened_text(str(said)), code if isinstance(code, int) else None


def _shortened_text(text: str) -> str:
    """Return the beginning and the end of a long text, because a program's last words matter."""
    return text if len(text) <= 2 * _MOST else f"{text[:_MOST]} [...] {text[-_MOST:]}"


def read_list(document: object) -> list[Result]:
    """Parse all commands of an answer, oldest first.

    Broken ones are left out, except the last one, which may be running.

    :raises ValueError: naming the fault of the list or of its last command.
    """
    listed = document.get("commands") if isinstance(document, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError("there is no list of commands")
    found = []
    for place, one in enumerate(listed, 1):
        try:
            found.append(read(one))
        except ValueError:
            if place == len(listed):
                raise
    return found


def execute(kind: StepKind) -> str:
    """Return the name of the command that runs a step of this kind, without the extension."""
    return f"execute_{kind}_step"


def begun(commands: Sequence[Result], kind: StepKind, step_id: str) -> Result | None:
    """Return the command of a step whose start was not noted.

    The agent runs one command at a time, and only this service sends commands, so a running step
    command is this one. A finished command contains its step, unless it failed; then the step runs
    again.
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
    """Return the command ``name`` if the agent runs it now."""
    last = commands[-1] if commands else None
    runs = last is not None and last.name == name and last.status is Status.RUNNING
    return last if runs else None


def unknown(before: Sequence[Result], now: Sequence[Result], name: str) -> Result | None:
    """Return the command ``name`` that is new since ``before``, so its request had arrived."""
    known = {one.id for one in before}
    last = now[-1] if now else None
    return last if last is not None and last.id not in known and last.name == name else None
