"""Commands for the runs of all nodes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cliff import lister, show

from ironic_lite.cli import tables
from ironic_lite.cli.http_api import Api
from ironic_lite.core.json_types import JsonView

_COLUMNS = ("uuid", "node", "verb", "state", "step", "code", "started_at", "duration_seconds")
_LONG = ("ended_at", "requester", "project", "request_id", "conductor", "text")
_FIELDS = "uuid,node_uuid,node_name,verb,state,code,started_at,ended_at,duration_seconds,error"
_FIELDS_LONG = f"{_FIELDS},requester,project,request_id,conductor"
_FILTERS: Mapping[str, tuple[str, str]] = {
    # option: its value in the help, the help
    "state": ("<state>[,<state>]", "Only runs in these states, such as failed,aborted."),
    "verb": ("<verb>[,<verb>]", "Only runs of these verbs."),
    "node": ("<node>", "Only runs of this node, by its name or UUID."),
    "requester": ("<user>", "Only runs that this user has requested."),
    "driver": ("<driver>[,<driver>]", "Only runs of nodes with these drivers."),
    "resource-class": ("<class>[,<class>]", "Only runs of nodes of these resource classes."),
    "code": ("<code>[,<code>]", "Only runs whose error has one of these codes as its cause."),
    "since": ("<time>", "Only runs begun at this time or later; or PT12H for 12 hours ago."),
    "before": ("<time>", "Only runs begun before this time."),
    "batch": ("<batch>", "Only runs that this batch has started."),
    "retry-of": ("<run>", "Only runs that repeat this run."),
}


class ListFleetRuns(lister.Lister):
    """List the runs of all nodes, the newest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        for name, (value, about) in _FILTERS.items():
            parser.add_argument(f"--{name}", metavar=value, help=about)
        # Not --project, which is a global option of some clients.
        parser.add_argument(
            "--of-project", metavar="<project>", help="Only runs that this project has requested."
        )
        parser.add_argument(
            "--latest", action="store_true", help="Only the newest run of each node."
        )
        parser.add_argument(
            "--overdue",
            action="store_true",
            help="Only runs with a step that takes much longer than usual, the longest first.",
        )
        parser.add_argument("--limit", metavar="<number>", type=int, help="Number of runs.")
        parser.add_argument(
            "--long", action="store_true", help="Also show requester, conductor and error text."
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each run."""
        given = vars(parsed_args)
        query = {name: given[name] for name in (one.replace("-", "_") for one in _FILTERS)}
        query |= {"project": parsed_args.of_project, "limit": parsed_args.limit}
        query |= {name: "true" if given[name] else None for name in ("latest", "overdue")}
        fields = _FIELDS_LONG if parsed_args.long else _FIELDS
        found = Api(self.app).get("runs", **query, fields=fields)
        columns = (*_COLUMNS, *(_LONG if parsed_args.long else ()))
        return columns, [_row(run, columns) for run in found["runs"]]


class ShowFleetRun(show.ShowOne):
    """Show a run with its steps."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("run", metavar="<run>", help="UUID of the run.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values."""
        return tables.run(Api(self.app).get("runs", parsed_args.run))


def _row(run: JsonView, columns: Sequence[str]) -> list[Any]:
    """Return the values of a run; step and text are those of its error."""
    error = run["error"] or {}
    more = {
        "node": run["node_name"] or run["node_uuid"],
        "step": error.get("step"),
        "text": error.get("text"),
    }
    return [more[name] if name in more else run.get(name) for name in columns]
