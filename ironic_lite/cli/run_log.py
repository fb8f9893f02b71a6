"""The command that shows the log of a run."""

from __future__ import annotations

import argparse
import functools

from cliff import command

from ironic_lite.cli import http_api, progress, watching

_SECONDS = 10
"""Longest time between two reads of a log that is followed: lines may come without an event."""


class ShowRunLog(command.Command):
    """Show the log of a run of a node; without a UUID of the current or newest one.

    With --follow, exit status 0: the run has ended well. 3: otherwise.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = watching.add_run(super().get_parser(prog_name))
        parser.add_argument(
            "--follow", action="store_true", help="Show further lines until the run ends."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the lines, each once."""
        api, node = http_api.Api(self.app), parsed_args.node
        run = watching.find_run(api, node, parsed_args.run)["uuid"]
        read = functools.partial(api.text, "nodes", node, "runs", run, "log")
        if not parsed_args.follow:
            self._print_new(read(), set())
            return 0
        shown: set[str] = set()
        cursor = str(http_api.repeated(lambda: api.get("events", since="now"))["cursor"])
        while True:
            # The state first: a run that has ended gets no more events.
            state = http_api.repeated(lambda: api.run(node, run))["state"]
            self._print_new(http_api.repeated(read), shown)
            if state not in progress.OPEN:
                return 0 if state == "done" else watching.ENDED_OTHERWISE
            ask = functools.partial(api.events, cursor, _SECONDS, run=run)
            cursor = str(http_api.repeated(ask)["cursor"])

    def _print_new(self, text: str, shown: set[str]) -> None:
        for line in text.splitlines():
            if line not in shown:
                shown.add(line)
                print(line, file=self.app.stdout, flush=True)
