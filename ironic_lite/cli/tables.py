"""Runs and batches as tables: steps, errors, times and counts as text, not as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cliff import columns

from ironic_lite.cli import progress
from ironic_lite.core.json_types import Json


class Steps(columns.FormattableColumn[list[Json]]):
    """The steps of a run: a line for each in a table."""

    def human_readable(self) -> str:
        """Return ordinal, name, state, duration and error of each step."""
        return "\n".join(progress.steps(self._value))


class Reason(columns.FormattableColumn[Json | None]):
    """The error of a run: code and text in a table."""

    def human_readable(self) -> str:
        """Return the code of the cause, and the text."""
        if not self._value:
            return ""
        code = (self._value.get("cause") or self._value).get("code")
        return progress.one_line(f"{code}: {self._value['text']}")


class Eta(columns.FormattableColumn[Json | None]):
    """The expected end of a run: two times in a table."""

    def human_readable(self) -> str:
        """Return the expected end, and the time after which the run is late."""
        return progress.expected_end(self._value) if self._value else ""


class Links(columns.FormattableColumn[list[Json]]):
    """The links of a run: the first address in a table."""

    def human_readable(self) -> str:
        """Return the address of the run."""
        return str(self._value[0]["href"]) if self._value else ""


class Counts(columns.FormattableColumn[dict[str, int]]):
    """The nodes of a batch by result: those that are not 0, in a table."""

    def human_readable(self) -> str:
        """Return the numbers with their results."""
        return counts(self._value)


class FirstWave(columns.FormattableColumn[list[Json]]):
    """The first nodes of a planned batch: their names in a table."""

    def human_readable(self) -> str:
        """Return the names."""
        return ", ".join(node["name"] or node["uuid"] for node in self._value)


class Refusals(columns.FormattableColumn[Json]):
    """The nodes that would refuse a planned batch: their number and a line for each in a table."""

    def human_readable(self) -> str:
        """Return the number, and name and reason of the first ones."""
        first = (f"{node['name'] or node['uuid']}: {node['text']}" for node in self._value["first"])
        return "\n".join([str(self._value["count"]), *map(progress.one_line, first)])


Columns = Mapping[str, type[columns.FormattableColumn[Any]]]
_OF_RUN: Columns = MappingProxyType({"steps": Steps, "error": Reason, "eta": Eta, "links": Links})
_OF_BATCH: Columns = MappingProxyType(
    {"counts": Counts, "first_wave": FirstWave, "refused": Refusals}
)


def run(found: Json) -> tuple[Sequence[str], Sequence[Any]]:
    """Return names and values of a run, for cliff."""
    return _fields(found, _OF_RUN)


def batch(found: Json) -> tuple[Sequence[str], Sequence[Any]]:
    """Return names and values of a batch, for cliff."""
    return _fields(found, _OF_BATCH)


def counts(found: Mapping[str, int]) -> str:
    """Return the numbers that are not 0, with their names."""
    return ", ".join(f"{number} {name}" for name, number in found.items() if number)


def _fields(found: Json, kinds: Columns) -> tuple[Sequence[str], Sequence[Any]]:
    values = [kinds[name](value) if name in kinds else value for name, value in found.items()]
    return tuple(found), values
