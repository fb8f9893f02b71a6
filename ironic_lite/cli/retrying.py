"""The command that retries a failed run of a node."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from cliff import command

from ironic_lite.cli import arguments, http_api, watching
from ironic_lite.core.json_types import Json


class RetryNode(command.Command):
    """Continue the failed run of a node from the step that failed.

    Steps that have ended well are kept, if their effect lasts. With --wait, exit status 0: the run
    has ended well. 3: otherwise. 75: not in time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        add_options(parser)
        parser.add_argument(
            "--wait",
            metavar="<seconds>",
            type=arguments.read_seconds,
            default=0.0,
            help="Wait for the end of the run, so many seconds in all, as --within of other "
            "commands; inf: without end. Default: do not wait.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Retry, print the run, and wait for its end."""
        api = http_api.Api(self.app)
        wanted: Json = {"force": False, "waive": [], **options(parsed_args)}
        run = api.retry(parsed_args.node, wanted)
        if run is None:
            print("Accepted. The service does not name the run.", file=self.app.stderr)
        else:
            print(run, file=self.app.stdout, flush=True)
        if not parsed_args.wait:
            return 0
        ended = _wait_for_end(api, parsed_args.node, run, parsed_args.wait)
        if ended is None:
            print("The run goes on.", file=self.app.stderr)
            return watching.NOT_IN_TIME
        print(ended, file=self.app.stdout)
        return watching.ENDED_OTHERWISE if ended.endswith(_FAILURES) else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a retry."""
    parser.add_argument(
        "--from",
        dest="start",
        metavar="<ordinal>",
        type=int,
        help="Begin with this earlier step. Default: the step that failed.",
    )
    parser.add_argument(
        "--waive",
        metavar="<reason>",
        dest="waive",
        action=_AppendWaiver,
        help="Leave the step out that failed, for this reason.",
    )
    parser.add_argument(
        "--waive-step",
        metavar=("<ordinal>", "<reason>"),
        dest="waive",
        nargs=2,
        action=_AppendWaiver,
        help="Leave this step out, for this reason. May be given several times.",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="Repeat a step although it is unknown whether it has ended.",
    )


def options(parsed: argparse.Namespace) -> Json:
    """Return the description of a retry: what the command line has of it."""
    given: Json = {"from": parsed.start, "waive": parsed.waive, "force": parsed.force or None}
    return {name: value for name, value in given.items() if value is not None}


_FAILURES = ("failed", "aborted")
"""Ends of the names of states, of runs and of nodes."""
_HIDDEN = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
"""Answers to callers who may not read the run."""


def _wait_for_end(api: http_api.Api, node: str, run: str | None, seconds: float) -> str | None:
    """Return the state of a run when it has ended, None if it goes on.

    Without the run, or for a caller who may not read it, it is the state of the node.
    """
    if run is not None:
        try:
            ended = watching.wait_for_run(api, node, run, seconds)
        except Exception as why:
            if getattr(why, "http_status", 0) not in _HIDDEN:
                raise
        else:
            return None if ended is None else str(ended["state"])
    return watching.wait_until_idle(api, node, seconds)


class _AppendWaiver(argparse.Action):
    """Append the waiver of ``--waive REASON`` or ``--waive-step ORDINAL REASON``."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Store the waiver."""
        waiver: Json = {"reason": values}
        if self.nargs is not None:
            ordinal, reason = map(str, values or ())
            if not ordinal.isdecimal():
                raise argparse.ArgumentError(self, f"{ordinal!r} is not the number of a step")
            waiver = {"ordinal": int(ordinal), "reason": reason}
        namespace.waive = [*(namespace.waive or ()), waiver]
