"""Findings of an import: what was taken, changed, lost or refused. Pure."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from ironic_lite.core.json_types import Json

REFUSED, LOSS, MAPPED, DEFAULT, ENABLE, PATH, INFO = KINDS = (
    *("refused", "loss", "mapped", "default", "enable", "path", "info"),
)
"""Kinds of findings. Only the first one stops an import."""
SHOWN = 20
"""Names of a finding in a report."""
MOST_BYTES = 256 * 1024
"""Size of the findings that stay in the database."""
READ, WRITTEN, OUT = "read", "written", "left_out"
COUNTS = (READ, WRITTEN, REFUSED, OUT)


class MoveFinding(NamedTuple):
    """A fact about some objects.

    :ivar path: in the object.
    :ivar do: advice, empty if there is nothing to do.
    """

    kind: str
    resource: str
    path: str
    text: str
    do: str = ""


class MoveReport:
    """Findings with the names of their objects, and numbers of rows by table.

    :ivar secrets: number of values that were written into encrypted columns.
    """

    def __init__(self) -> None:
        self.findings: dict[MoveFinding, dict[str, None]] = {}
        self.counts: dict[str, collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self.secrets = 0

    def add(self, finding: MoveFinding, name: str) -> None:
        """Add an object to a finding; each counts once."""
        self.findings.setdefault(finding, {})[name] = None

    def extend(self, findings: Iterable[MoveFinding], name: str) -> None:
        """Add an object to each of some findings."""
        for finding in findings:
            self.add(finding, name)

    def count(self, table: str, what: str, number: int = 1) -> None:
        """Count rows of a table."""
        self.counts[table][what] += number

    def has(self, *kinds: str) -> bool:
        """Return whether there is a finding of one of these kinds."""
        return any(finding.kind in kinds for finding in self.findings)

    def ordered(self) -> list[tuple[MoveFinding, list[str]]]:
        """Return the findings in the order of their kinds, the largest of each first."""
        return sorted(
            ((finding, list(names)) for finding, names in self.findings.items()),
            key=lambda one: (KINDS.index(one[0].kind), -len(one[1]), one[0]),
        )

    def documents(self, shown: int | None = SHOWN) -> list[Json]:
        """Return the findings as JSON.

        :param shown: largest number of names, None for all.
        """
        return [
            {**finding._asdict(), "nodes": len(names), "names": names[:shown]}
            for finding, names in self.ordered()
        ]

    def stored(self) -> list[Json]:
        """Return the findings that the table of imports keeps."""
        kept: list[Json] = []
        size = 0
        for one in self.documents():
            size += len(orjson.dumps(one)) + 1
            if size > MOST_BYTES:
                break
            kept.append(one)
        return kept

    def table_counts(self) -> dict[str, dict[str, int]]:
        """Return the numbers of rows by table."""
        return {
            table: {name: found[name] for name in COUNTS} for table, found in self.counts.items()
        }


def lines(document: Json) -> Iterator[str]:
    """Yield the lines of a report as text."""
    yield f"Source: {document['source']}, Ironic {document['release']}, {document['head']}"
    for table, found in document["counts"].items():
        more = "".join(
            f", {found[name]} {name.replace('_', ' ')}" for name in (REFUSED, OUT) if found[name]
        )
        yield f"{table}: {found[READ]} read, {found[WRITTEN]} written{more}"
    for one in document["findings"]:
        yield line(one)
    secrets = document["secrets"]
    clear = "in clear, because [database]encryption_keys is empty"
    how = clear if secrets["key"] is None else "encrypted"
    yield f"{secrets['values']} values with secrets, {how}"


def line(one: Json) -> str:
    """Return a finding as text."""
    rest = one["nodes"] - len(one["names"])
    names = ", ".join(one["names"]) + (f" and {rest} more" if rest > 0 else "")
    path = f" {one['path']}" if one["path"] else ""
    do = f" {one['do']}" if one["do"] else ""
    text: Any = one["text"].rstrip(".")
    whole = f"{one['kind']:8} {one['resource']}{path} ({one['nodes']}): {text}.{do} [{names}]"
    return "".join(letter if letter.isprintable() else "?" for letter in whole)
