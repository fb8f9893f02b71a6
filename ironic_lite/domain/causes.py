"""The records of errors in runs, steps and events. Pure.

A flow wraps an error in sentences of its own: a step fails with ``CleanStepFailed``, whatever its
driver raised. The record therefore has a ``cause``: the first error of the chain, with the facts
that its driver added. Secrets are masked and the size is bounded, because machines send the facts.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.core.text_masking import PROSE, TextMask

MOST_BYTES = 4096
"""Size limit of a cause, as JSON."""
_MOST_TEXT = 1500  # characters of its text
_MOST_WORDS = 400  # characters of one fact
_MOST_ITEMS = 20  # of a list or an object
_DEEPEST = 4
_LONGEST_CODE = 64
_REASON = "reason"


def record(error: errors.Error, hide: TextMask = PROSE) -> Json:
    """Return the record of an error: code, text, retryable, cause.

    ``retryable`` is that of the cause, because the wrapping errors do not know.

    :param hide: the mask of the node's texts.
    """
    cause = of(error, hide)
    return {
        "code": error.code,
        "text": hide(error.message),
        "retryable": cause["retryable"],
        "cause": cause,
    }


def of(error: errors.Error, hide: TextMask = PROSE) -> Json:
    """Return the cause of an error: code, text, retryable, facts; without one, the error itself.

    The facts of errors between the two are added, such as the child node of a step.

    :param hide: the mask of the node's texts.
    """
    *between, first = error.causes
    facts: Json = {}
    for wrapped in between[1:]:
        facts |= {name: fact for name, fact in wrapped.facts.items() if name != _REASON}
    facts |= first.facts
    about = _without_wrapper(first, hide)
    about |= {"facts": {str(name): _plain(fact, hide) for name, fact in facts.items()}}
    return _bounded(masking.mask(about))


def hide(error: errors.Error, known: Callable[[str], str]) -> None:
    """Hide secrets in an error and its causes: in their messages and in their facts.

    :param known: hides further secrets, such as those of nodes.
    """

    def masked(value: Any) -> Any:
        if isinstance(value, str):
            return PROSE(known(value))
        if isinstance(value, dict):
            return {name: masked(held) for name, held in value.items()}
        return list(map(masked, value)) if isinstance(value, list) else value

    for one in error.causes:
        one.message = masked(one.message)
        one.facts = masked(one.facts)


def code(about: JsonView) -> str | None:
    """Return the code of a recorded error for the column ``runs.code``; None without an error."""
    return str(about["cause"]["code"])[:_LONGEST_CODE] if about else None


def failure(why: Exception) -> errors.Error:
    """Return the error of this service for any exception that a driver raised."""
    if isinstance(why, errors.Error):
        return why
    return errors.Unexpected(
        f"unexpected {type(why).__name__}: {why}", exception=type(why).__name__
    )


def _without_wrapper(first: errors.Error, hide: TextMask) -> Json:
    """Return code, text and retryable of the first error.

    A driver may raise ``StepFailed`` itself. Its code says no more than that a step failed, so the
    record has the parent's code and the driver's own words.
    """
    code, text = first.code, first.message
    if isinstance(first, errors.StepFailed):
        code, text = errors.HardwareError.__name__, str(first.facts.get(_REASON) or text)
    return {
        "code": code,
        "text": _shortened(hide(text), _MOST_TEXT),
        "retryable": first.retryable,
    }


def _plain(fact: object, hide: TextMask, depth: int = 0) -> Any:
    """Return a fact in JSON types, masked and shortened."""
    if fact is None or isinstance(fact, bool | int | float):
        return fact
    if isinstance(fact, datetime.datetime):
        return fact.replace(tzinfo=datetime.UTC).isoformat()
    if depth < _DEEPEST and isinstance(fact, Mapping):
        kept = list(fact.items())[:_MOST_ITEMS]
        return {str(name): _plain(value, hide, depth + 1) for name, value in kept}
    if depth < _DEEPEST and isinstance(fact, list | tuple | set | frozenset):
        return [_plain(value, hide, depth + 1) for value in list(fact)[:_MOST_ITEMS]]
    return _shortened(hide(str(fact)), _MOST_WORDS)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _bounded(cause: Json) -> Json:
    """Return a cause of at most `MOST_BYTES`; the largest facts are left out first."""
    facts = cause["facts"]
    for name in sorted(facts, key=lambda one: _size(facts[one]), reverse=True):
        if _size(cause) <= MOST_BYTES:
            break
        del facts[name]
    while _size(cause) > MOST_BYTES:
        cause["text"] = _shortened(cause["text"], len(cause["text"]) // 2)
    return cause


def _size(value: object) -> int:
    """Return the size of a value as JSON in its longest form, with escapes."""
    return len(json.dumps(value))
