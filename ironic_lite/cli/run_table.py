"""A run as a table: its steps, error and expected end as text, not as JSON."""

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


_COLUMNS: Mapping[str, Any] = MappingProxyType(
    {"steps": Steps, "error": Reason, "eta": Eta, "links": Links}
)


def fields(run: Json) -> tuple[Sequence[str], Sequence[Any]]:
    """Return names and values of a run, for cliff."""
    values = [_COLUMNS[name](value) if name in _COLUMNS else value for name, value in run.items()]
    return tuple(run), values
