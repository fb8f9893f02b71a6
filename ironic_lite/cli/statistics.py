"""The command ``baremetal step statistics``: durations and failures of ended steps."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from cliff import lister

from ironic_lite.cli.http_api import Api
from ironic_lite.core.json_types import Json

_FILTERS = {
    # option: (argument of the API, placeholder, text)
    "--step": ("step", "<interface.step>", "Only this step, such as deploy.erase_devices."),
    "--driver": ("driver", "<driver>", "Only nodes of this hardware type."),
    "--resource-class": ("resource_class", "<class>", "Only nodes of this resource class."),
    "--since": ("since", "<time>", "Only steps that ended then or later: 2026-01-31T12:00:00Z."),
}
_COLUMNS = ("step", "kind", "driver", "resource_class", "count", "failed", "aborted")
_SECONDS = ("p50", "p90", "p99", "longest")
_HEAD = (*_COLUMNS, *_SECONDS, "codes")


class StepStatistics(lister.Lister):
    """List durations in seconds, and failures, of the newest steps that have ended."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        for option, (name, shown, text) in _FILTERS.items():
            parser.add_argument(option, dest=name, metavar=shown, help=text)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each group of steps."""
        query = {name: getattr(parsed_args, name) for name, _, _ in _FILTERS.values()}
        found = Api(self.app).get("stats", "steps", **query)
        return _HEAD, [_row(group) for group in found["steps"]]


def _row(group: Json) -> list[Any]:
    shown = {**group, "step": f"{group['interface']}.{group['step']}"}
    codes = ", ".join(f"{code} {count}" for code, count in group["codes"].items())
    return [*("" if shown[name] is None else shown[name] for name in _HEAD[:-1]), codes]
