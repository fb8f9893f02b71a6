"""Commands for holds: reasons to leave a node alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from cliff import command, lister, show

from ironic_lite.cli.http_api import Api
from ironic_lite.core.json_types import Json

_COLUMNS = ("uuid", "node_uuid", "kind", "reason", "blocks", "until", "created_by", "created_at")
_ENDED = ("ended_at", "ended_by", "end_reason")
_BLOCKS = ("erase", "use", "verbs", "power", "forget")


class CreateHold(show.ShowOne):
    """Hold a node: refuse classes of operations until the hold ends."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        parser.add_argument(
            "--kind",
            metavar="<kind>",
            required=True,
            help="legal, hardware or freeze, which bring their blocks; or a word of your own.",
        )
        parser.add_argument(
            "--reason", metavar="<reason>", required=True, help="Text for other operators."
        )
        parser.add_argument(
            "--until",
            metavar="<time>",
            help="End of the hold, such as 2030-01-31T18:00:00Z. Default: it is ended by request.",
        )
        parser.add_argument(
            "--block",
            metavar="<block>",
            choices=_BLOCKS,
            action="append",
            help=f"Class of refused operations: {', '.join(_BLOCKS)}. May be given several times.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Add the hold, and return names and values."""
        given = {"until": parsed_args.until, "blocks": parsed_args.block}
        body: Json = {"kind": parsed_args.kind, "reason": parsed_args.reason}
        body |= {name: value for name, value in given.items() if value is not None}
        found = Api(self.app).change("POST", "nodes", parsed_args.node, "holds", body=body)
        return _COLUMNS, _row(found, _COLUMNS)


class ListHolds(lister.Lister):
    """List the holds of a node, or of all nodes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", nargs="?", help="Name or UUID of the node.")
        parser.add_argument("--kind", metavar="<kind>", help="Only holds of this kind.")
        parser.add_argument("--ended", action="store_true", help="Also holds that have ended.")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each hold."""
        columns = (*_COLUMNS, *(_ENDED if parsed_args.ended else ()))
        ended = "true" if parsed_args.ended else None
        query = {"node": parsed_args.node, "kind": parsed_args.kind, "ended": ended}
        found = Api(self.app).get("holds", **query)
        return columns, [_row(one, columns) for one in found["holds"]]


class DeleteHold(command.Command):
    """End a hold of a node."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        parser.add_argument("hold", metavar="<hold>", help="UUID of the hold.")
        parser.add_argument("--reason", metavar="<reason>", help="Why the hold ends.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """End the hold."""
        words = ("nodes", parsed_args.node, "holds", parsed_args.hold)
        Api(self.app).change("DELETE", *words, reason=parsed_args.reason)


def _row(hold: Json, columns: Sequence[str]) -> list[Any]:
    values = {**hold, "blocks": ",".join(hold["blocks"])}
    return [values[name] for name in columns]
