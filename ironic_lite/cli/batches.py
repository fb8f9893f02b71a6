"""Commands for batches: one request for many nodes."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from cliff import command, lister, show
from ironicclient import exc

from ironic_lite.cli import arguments, http_api, progress, tables, watching
from ironic_lite.core.json_types import Json, JsonView

_COLUMNS = ("uuid", "name", "state", "wave", "nodes", "ended", "failed", "requester", "created_at")
_NODE_COLUMNS = ("name", "uuid", "wave", "result", "run", "error", "started_at", "ended_at")
_ENDED = ("done", "failed", "aborted", "refused", "skipped")
_FAILED = ("failed", "refused")
_OPEN = "running,paused"
_PAGE = 1000
_BAR = 20
_USUAL_WIDTH = 80
"""Columns of a terminal that does not report its size."""
_LOOK_SECONDS = 1.0


class CreateBatch(show.ShowOne):
    """Begin a batch: send one request to many nodes, in waves."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "request",
            metavar="<request>",
            help="A provision target such as manage, a power state such as 'power off', or the "
            "request as JSON; @<file> reads JSON from a file, - from standard input.",
        )
        chosen = parser.add_mutually_exclusive_group(required=True)
        chosen.add_argument("--node", metavar="<node>", action="append", help="One of the nodes.")
        chosen.add_argument(
            "--filter",
            metavar="<field>=<value>",
            action="append",
            type=_read_pair,
            help="All nodes with this value; needs --expect. May be given several times.",
        )
        chosen.add_argument(
            "--failed-of", metavar="<batch>", help="Nodes that failed there; needs --expect."
        )
        parser.add_argument(
            "--expect", metavar="<number>", type=int, help="Number of nodes that must be chosen."
        )
        return _add_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Begin the batch, and return names and values."""
        given = {
            "name": parsed_args.name,
            "expect": parsed_args.expect,
            "waves": parsed_args.waves,
            "concurrency": parsed_args.concurrency,
            "max_failures": parsed_args.max_failures,
            "on_failures": parsed_args.on_failures,
            "between_waves": "pause" if parsed_args.pause_between_waves else None,
        }
        body: Json = {"nodes": _nodes(parsed_args), "request": _read_request(parsed_args.request)}
        body |= {name: value for name, value in given.items() if value is not None}
        plan = "true" if parsed_args.plan else None
        found = http_api.Api(self.app).change("POST", "batches", body=body, plan=plan)
        return tables.batch(found)


class ListBatches(lister.Lister):
    """List batches, the newest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--open", action="store_true", help="Only batches that go on.")
        parser.add_argument("--limit", metavar="<number>", type=int, help="Number of batches.")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each batch."""
        query = {"state": _OPEN if parsed_args.open else None, "limit": parsed_args.limit}
        found = http_api.Api(self.app).get("batches", **query)
        return _COLUMNS, [_row(one) for one in found["batches"]]


class ShowBatch(show.ShowOne):
    """Show a batch."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        return _add_batch(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values."""
        found = http_api.Api(self.app).get("batches", parsed_args.batch)
        return tables.batch(found)


class ListBatchNodes(lister.Lister):
    """List the nodes of a batch with their results, in the order of their start."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _add_batch(super().get_parser(prog_name))
        parser.add_argument(
            "--result", metavar="<result>[,<result>]", help="Only these, such as failed,refused."
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each node."""
        found = _members(http_api.Api(self.app), parsed_args.batch, parsed_args.result)
        return _NODE_COLUMNS, [_member_row(one) for one in found]


class PauseBatch(show.ShowOne):
    """Start no further node of a batch until it is resumed."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        return _add_batch(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Pause the batch, and return names and values."""
        return _change(self.app, parsed_args.batch, {"target": "pause"})


class ResumeBatch(show.ShowOne):
    """Continue a paused batch; the failures so far do not count any more."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _add_batch(super().get_parser(prog_name))
        parser.add_argument(
            "--max-failures",
            metavar="<number>",
            type=_read_size,
            help="Number or share of nodes that may fail from now on. Default: as before.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Resume the batch, and return names and values."""
        body: Json = {"target": "resume"}
        if parsed_args.max_failures is not None:
            body["max_failures"] = parsed_args.max_failures
        return _change(self.app, parsed_args.batch, body)


class AbortBatch(show.ShowOne):
    """Skip the nodes of a batch that have not started."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _add_batch(super().get_parser(prog_name))
        parser.add_argument(
            "--runs", action="store_true", help="Abort the runs under way too, at their next step."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Abort the batch, and return names and values."""
        runs = "abort" if parsed_args.runs else "go on"
        return _change(self.app, parsed_args.batch, {"target": "abort", "runs": runs})


class DeleteBatch(command.Command):
    """Delete a batch that has ended; the runs of its nodes stay."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        return _add_batch(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete the batch."""
        http_api.Api(self.app).change("DELETE", "batches", parsed_args.batch)


class WatchBatch(command.Command):
    """Show the progress of a batch until it ends or pauses.

    On a terminal, one line is updated every second. Otherwise a line is printed after each change.
    Then the nodes that failed are listed. Exit status 0: all nodes ended well or were skipped. 3:
    a node failed, or the batch is paused or aborted. 75: not in time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _add_batch(super().get_parser(prog_name))
        # Not --timeout, which is a global option of keystoneauth.
        parser.add_argument(
            "--within",
            metavar="<seconds>",
            type=arguments.read_seconds,
            default=float("inf"),
            help="Seconds to wait in all. Default: without end.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the progress."""
        api, output = http_api.Api(self.app), self.app.stdout
        until = time.monotonic() + parsed_args.within
        states = _states(api, parsed_args.batch, lambda: until - time.monotonic())
        last = _draw(states, output) if _is_terminal(output) else _print(states, output)
        if _is_open(last):
            print("The batch goes on.", file=self.app.stderr)
            return watching.NOT_IN_TIME
        if any(last["counts"][name] for name in _FAILED):
            for one in _members(api, last["uuid"], ",".join(_FAILED)):
                print(failure(one), file=output)
        well = last["state"] == "done" and not any(last["counts"][name] for name in _FAILED)
        return 0 if well and not last["counts"]["aborted"] else watching.ENDED_OTHERWISE


# -- the command line ------------------------------------------------------------------------


def _add_batch(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("batch", metavar="<batch>", help="UUID of the batch.")
    return parser


def _add_options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--name", metavar="<name>", help="A text for operators.")
    parser.add_argument(
        "--waves",
        metavar="<size>[,<size>]",
        type=_read_sizes,
        help="Numbers of nodes or shares, such as 1,10%%,100%%. Default: one wave.",
    )
    parser.add_argument(
        "--concurrency", metavar="<number>", type=int, help="Most nodes at once. Default: 10."
    )
    parser.add_argument(
        "--max-failures",
        metavar="<number>",
        type=_read_size,
        help="Number or share of nodes that may fail. Default: 0.",
    )
    parser.add_argument("--on-failures", choices=("pause", "abort"), help="Default: pause.")
    parser.add_argument(
        "--pause-between-waves", action="store_true", help="Each wave waits for a resume."
    )
    parser.add_argument("--plan", action="store_true", help="Show the batch; begin nothing.")
    return parser


def _read_pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not <field>=<value>")
    return name, value


def _read_size(text: str) -> int | str:
    """Return a number of nodes; a share as it is, for the service to check."""
    if text.endswith("%"):
        return text
    try:
        return int(text)
    except ValueError as why:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number, or a share such as 10%"
        ) from why


def _read_sizes(text: str) -> list[int | str]:
    return [_read_size(word.strip()) for word in text.split(",")]


def _read_request(text: str) -> Json:
    """Return the request that each node gets.

    :raises exc.CommandError: a file cannot be read, or is not JSON.
    """
    if text == "-" or text.startswith("@"):
        try:
            text = sys.stdin.read() if text == "-" else Path(text[1:]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as why:
            raise exc.CommandError(f"The request cannot be read: {why}") from why
    elif not text.lstrip().startswith("{"):
        is_power = text == "reboot" or text.startswith(("power ", "soft "))
        kind = "power" if is_power else "target"
        return {kind: text}
    try:
        found = json.loads(text)
    except ValueError as why:
        raise exc.CommandError(f"The request is not JSON: {why}") from why
    if not isinstance(found, dict):
        raise exc.CommandError('The request is not a JSON object such as {"target": "manage"}.')
    return found


def _nodes(parsed_args: argparse.Namespace) -> Json | list[str]:
    """Return the choice of nodes as the API takes it."""
    if parsed_args.node:
        return list(parsed_args.node)
    if parsed_args.failed_of:
        return {"batch": parsed_args.failed_of, "result": "failed"}
    return dict(parsed_args.filter)


# -- requests --------------------------------------------------------------------------------


def _change(app: Any, batch: str, body: Json) -> tuple[Sequence[str], Sequence[Any]]:
    found = http_api.Api(app).change("PUT", "batches", batch, "state", body=body)
    return tables.batch(found)


def _members(api: http_api.Api, batch: str, result: str | None) -> Iterator[Json]:
    """Yield the nodes of a batch, page by page."""
    marker: str | None = None
    while True:
        query = {"result": result, "limit": _PAGE, "marker": marker}
        page = api.get("batches", batch, "nodes", **query)["nodes"]
        yield from page
        if len(page) < _PAGE:
            return
        marker = page[-1]["uuid"]


def _is_open(batch: JsonView) -> bool:
    return batch["ended_at"] is None and batch["state"] != "paused"


def _states(api: http_api.Api, batch: str, left: Callable[[], float]) -> Iterator[Json]:
    """Yield a batch once a second, until it ends or pauses or the time is over."""
    while True:
        found: Json = http_api.repeated(lambda: api.get("batches", batch))
        yield found
        if not _is_open(found) or left() <= 0:
            return
        time.sleep(max(0.0, min(_LOOK_SECONDS, left())))


# -- text ------------------------------------------------------------------------------------


def line(batch: JsonView) -> str:
    """Return the progress of a batch as one line of text."""
    counts = batch["counts"]
    total, ended = sum(counts.values()), sum(counts[name] for name in _ENDED)
    full = _BAR * ended // max(1, total)
    name = f"{batch['name']}: " if batch["name"] else ""
    by = f" by {batch['paused_by']}" if batch["paused_by"] else ""
    wave = f"wave {batch['wave'] + 1} of {len(batch['waves'])}"
    bar = f"[{'#' * full}{'-' * (_BAR - full)}] {ended}/{total}"
    return progress.one_line(f"{name}{batch['state']}{by}, {wave} {bar}: {tables.counts(counts)}")


def failure(member: JsonView) -> str:
    """Return a line about a node that failed or was refused."""
    error = member["error"] or {}
    name = member["name"] or member["uuid"]
    code, text = error.get("code") or "no code", error.get("text", "")
    return progress.one_line(f"{name} {member['result']}: {code}: {text}")


def _print(states: Iterator[Json], output: TextIO) -> Json:
    """Print a line after each change; return the batch as it is at the end."""
    shown = ""
    for batch in states:
        text = line(batch)
        if text != shown:
            print(text, file=output, flush=True)
        shown = text
    return batch


def _draw(states: Iterator[Json], output: TextIO) -> Json:
    """Write the line over the last one; return the batch as it is at the end."""
    for batch in states:
        width = os.get_terminal_size(output.fileno()).columns or _USUAL_WIDTH
        output.write(f"\r{line(batch)[: width - 1]}\x1b[K")
        output.flush()
    output.write("\n")
    return batch


def _is_terminal(output: TextIO) -> bool:
    return output.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _row(batch: JsonView) -> list[Any]:
    """Return the values of a batch for the list."""
    counts = batch["counts"]
    more = {
        "wave": f"{batch['wave'] + 1}/{len(batch['waves'])}",
        "nodes": sum(counts.values()),
        "ended": sum(counts[name] for name in _ENDED),
        "failed": sum(counts[name] for name in _FAILED),
    }
    return [more.get(name, batch.get(name)) for name in _COLUMNS]


def _member_row(member: JsonView) -> list[Any]:
    error = member["error"] or {}
    words = [str(error[name]) for name in ("code", "text") if error.get(name)]
    return [{**member, "error": ": ".join(words)}[name] for name in _NODE_COLUMNS]
