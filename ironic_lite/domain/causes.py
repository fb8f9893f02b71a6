"""Causes of failures: the key that equal failures of many nodes share. Pure.

The end of a failed run stores its key, so a cause is one line, one filter and one alert, however
many nodes have it.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Iterator

from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import failures, states
from ironic_lite.domain.states import Kind, State

FAIL_STATES = (*sorted(states.of_kind(Kind.FAIL)), State.ERROR)
UNVERIFIED = State.ENROLL
"""The states in which a node stands in a failure, the latter if it has ``last_error``."""
NODE_COLUMNS = ("name", "uuid", "instance_uuid", "driver_info")
"""Columns of a node that `pattern` replaces in its texts."""
_LENGTH = 200
_DIGITS = 12
_SHORTEST_NAME = 3
_ADDRESS = "_address"
_REPLACED = tuple(
    (re.compile(expression, re.IGNORECASE), word)
    for expression, word in (
        (r"https?://[^\s/'\"<>?#,;)]+", "HOST"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "#"),
        (r"\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b", "#"),
        (r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])", "#"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "#"),
        (r"\b(?:sd|vd|xvd|hd)[a-z]{1,2}\d*\b", "sd#"),
        (r"\b(?=[a-f]*\d)[0-9a-f]{8,}\b", "#"),
        (r"0x[0-9a-f]+|\d+(?:\.\d+)*", "#"),
        (r"\s+", " "),
    )
)


def pattern(text: str, node: JsonView) -> str:
    """Return a text without what differs between nodes, at most 200 characters.

    :param text: of an error, masked.
    :param node: its columns `NODE_COLUMNS`; missing ones are not replaced.
    """
    names = sorted({name for name in _names(node) if len(name) >= _SHORTEST_NAME}, key=len)
    if names:
        words = "|".join(map(re.escape, reversed(names)))
        text = re.sub(rf"(?<![\w-])(?:{words})(?![\w-])", "NODE", text, flags=re.IGNORECASE)
    for expression, word in _REPLACED:
        text = expression.sub(word, text)
    return text.strip()[:_LENGTH]


def _names(node: JsonView) -> Iterator[str]:
    """Yield the words that name a node or its BMC."""
    yield from (node[name] for name in NODE_COLUMNS[:-1] if node.get(name))
    for name, value in (node.get("driver_info") or {}).items():
        if name.endswith(_ADDRESS) and isinstance(value, str):
            try:
                yield urllib.parse.urlsplit(value if "//" in value else f"//{value}").hostname or ""
            except ValueError:
                continue


def key(verb: str | None, step: str | None, code: str | None, text: str) -> str:
    """Return the key of a cause: 12 hexadecimal digits.

    :param step: title of the failed step, None without one.
    :param text: a `pattern`.
    """
    parts = "\0".join(part or "" for part in (verb, step, code, text))
    return hashlib.sha256(parts.encode()).hexdigest()[:_DIGITS]


def of_error(verb: str, error: JsonView, node: JsonView) -> str:
    """Return the key of a run's error.

    :param verb: of the run.
    :param error: as `failures.record`, with the step.
    :param node: as for `pattern`.
    """
    text = pattern(str(error["cause"]["text"]), node)
    return key(verb, error.get("step"), failures.code(error), text)
