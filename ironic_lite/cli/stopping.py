"""The command that stops a run of a node at its next step."""

from __future__ import annotations

import argparse

from cliff import command

from ironic_lite.cli.http_api import Api
from ironic_lite.core.json_types import Json


class StopRun(command.Command):
    """Hold or abort the run of a node when the step under way has ended.

    A held run goes on with the verb unhold and ends with the verb abort.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        parser.add_argument(
            "--run", metavar="<run>", default="current", help="UUID of the run. Default: current."
        )
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument(
            "--abort", action="store_true", help="End the run. Default: hold it until unhold."
        )
        chosen.add_argument("--undo", action="store_true", help="Take the stop back.")
        parser.add_argument(
            "--after",
            metavar="<ordinal>",
            type=int,
            help="Stop after this step. Default: the step under way.",
        )
        parser.add_argument("--reason", metavar="<reason>", help="Text for other operators.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Ask for the stop, or take it back."""
        words = ("nodes", parsed_args.node, "runs", parsed_args.run, "stop")
        if parsed_args.undo:
            Api(self.app).change("DELETE", *words)
            return
        body: Json = {"how": "abort" if parsed_args.abort else "hold"}
        given = {"after": parsed_args.after, "reason": parsed_args.reason}
        body |= {name: value for name, value in given.items() if value is not None}
        Api(self.app).change("PUT", *words, body=body)
