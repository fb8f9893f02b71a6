"""Commands that wait for nodes, show runs and follow events.

They repeat bounded requests and keep their place by cursor, so a broken connection or a restart of
the service ends none of them.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO, TypeVar

from cliff import command, lister, show
from ironicclient import exc

from ironic_lite.cli import arguments, http_api, progress, tables
from ironic_lite.core.json_types import Json

T = TypeVar("T")

ENDED_OTHERWISE = 3
NOT_IN_TIME = os.EX_TEMPFAIL

_FAILED_DEPENDENCY = 424
_REDRAW_SECONDS = 1.0
_RUN_COLUMNS = ("uuid", "verb", "state", "requester", "started_at", "ended_at")
_EVENT_COLUMNS = ("cursor", "at", "name", "kind", "event", "before", "after")


class WaitForNode(command.Command):
    """Wait until a node is in one of several provision states.

    Exit status 0: it is. 3: it has failed, or was aborted. 75: not in time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        parser.add_argument(
            "--until",
            metavar="<state>[,<state>]",
            required=True,
            help="Provision states, with hyphens or blanks, or idle: no run is under way.",
        )
        _add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Wait, and print the state or the reason."""
        exits = {_FAILED_DEPENDENCY: ENDED_OTHERWISE, http_api.GATEWAY_TIMEOUT: NOT_IN_TIME}
        given = parsed_args
        try:
            state = _wait_for_node(http_api.Api(self.app), given.node, given.until, given.within)
        except Exception as why:
            if http_api.status_of(why) not in exits:
                raise
            print(why, file=self.app.stderr)
            return exits[http_api.status_of(why)]
        print(state, file=self.app.stdout)
        return 0


class ListRuns(lister.Lister):
    """List the runs of a node, the newest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        parser.add_argument("--limit", metavar="<number>", type=int, help="Number of runs.")
        parser.add_argument(
            "--state", metavar="<state>", help="Only runs in this state, such as failed."
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each run."""
        query = {"limit": parsed_args.limit, "state": parsed_args.state}
        found = http_api.Api(self.app).get("nodes", parsed_args.node, "runs", **query)
        rows = ([run.get(name) for name in _RUN_COLUMNS] for run in found["runs"])
        return _RUN_COLUMNS, rows


class ShowRun(show.ShowOne):
    """Show a run of a node; without a UUID the current or newest one."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        return add_run(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values."""
        return tables.run(find_run(http_api.Api(self.app), parsed_args.node, parsed_args.run))


class WatchRun(command.Command):
    """Show the progress of a run until it ends: its steps with state, duration and attempt.

    On a terminal, a picture of the run is updated every second. Otherwise a line is printed when a
    step begins or ends. Exit status 0: the run has ended well. 3: otherwise. 75: not in time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = add_run(super().get_parser(prog_name))
        _add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the progress."""
        api, left, output = http_api.Api(self.app), _countdown(parsed_args.within), self.app.stdout
        first = find_run(api, parsed_args.node, parsed_args.run)
        states = _states(api, parsed_args.node, first["uuid"], left)
        print(progress.opening(first), file=output, flush=True)
        last = _draw(states, output) if _is_terminal(output) else _print(states, output)
        if last["state"] in progress.OPEN:
            print("The run goes on.", file=self.app.stderr)
            return NOT_IN_TIME
        print(progress.ending(last), file=output)
        return 0 if last["state"] == "done" else ENDED_OTHERWISE


class ListEvents(lister.Lister):
    """List events, the oldest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _add_filters(super().get_parser(prog_name))
        parser.add_argument("--limit", metavar="<number>", type=int, help="Number of events.")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each event."""
        query = {**_filters(parsed_args), "limit": parsed_args.limit}
        found = http_api.Api(self.app).get("events", since=parsed_args.since, **query)
        rows = ([event.get(name) for name in _EVENT_COLUMNS] for event in found["events"])
        return _EVENT_COLUMNS, rows


class WatchEvents(command.Command):
    """Print a line for each event as it happens, until interrupted."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _add_filters(super().get_parser(prog_name))
        parser.add_argument(
            "--limit", metavar="<number>", type=int, help="End after this number of events."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the events."""
        events = _follow(http_api.Api(self.app), parsed_args.since or "now", _filters(parsed_args))
        for event in itertools.islice(events, parsed_args.limit):
            words = (str(event[name]) for name in _EVENT_COLUMNS if event[name] is not None)
            print(*words, file=self.app.stdout, flush=True)
        return 0


# -- helpers ---------------------------------------------------------------------------------


def _follow(api: http_api.Api, cursor: str, query: Json) -> Iterator[Json]:
    """Yield events after a cursor for ever."""
    while True:
        found = http_api.repeat_until(
            functools.partial(api.events, cursor, http_api.POLL_SECONDS, **query), http_api.no_end
        )
        yield from found["events"]
        cursor = str(found["cursor"])


def wait_for_run(api: http_api.Api, node: str, run: str, seconds: float) -> Json | None:
    """Return a run when it has ended; None if it goes on after so many seconds."""
    left = _countdown(seconds)
    while True:
        found = http_api.repeat_until(lambda: api.run(node, run), left)
        if found["state"] not in progress.OPEN:
            return found
        if left() <= 0:
            return None
        try:
            api.get("nodes", node, "runs", run, wait=_poll(left()), until="ended", fields="state")
        except Exception as why:
            if not http_api.is_passing(why):
                raise
            http_api.pause_after(why)


def _wait_for_node(api: http_api.Api, node: str, until: str, seconds: float) -> str:
    """Return a node's state when it is one of those waited for."""
    left, fields = _countdown(seconds), "provision_state"
    found: Json = http_api.repeat_until(
        lambda: api.get("nodes", node, wait=_poll(left()), until=until, fields=fields), left
    )
    return str(found[fields])


def wait_until_idle(api: http_api.Api, node: str, seconds: float) -> str | None:
    """Return a node's state when no run is under way; None if one goes on after so many seconds."""
    try:
        return _wait_for_node(api, node, "idle", seconds)
    except Exception as why:
        if http_api.status_of(why) != http_api.GATEWAY_TIMEOUT:
            raise
        return None


def _states(api: http_api.Api, node: str, run: str, left: Callable[[], float]) -> Iterator[Json]:
    """Yield a run after each change, until it has ended or the time is over."""
    cursor = str(http_api.repeat_until(lambda: api.get("events", since="now"), left)["cursor"])
    while True:
        found = http_api.repeat_until(lambda: api.run(node, run), left)
        yield found
        if found["state"] not in progress.OPEN or left() <= 0:
            return
        ask = functools.partial(api.events, cursor, _poll(left()), run=run)
        cursor = str(http_api.repeat_until(ask, left)["cursor"])


def _print(states: Iterator[Json], output: TextIO) -> Json:
    """Print a line for each change of a step; return the run as it is at the end."""
    shown: progress.Shown = {}
    for run in states:
        for line in progress.changes(run, shown):
            print(line, file=output, flush=True)
    return run


def _draw(states: Iterator[Json], output: TextIO) -> Json:
    """Draw the run again after each change and each second; return it as it is at the end."""
    found: queue.SimpleQueue[Json | Exception | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for run in states:
                found.put(run)
            found.put(None)
        except Exception as why:
            found.put(why)

    threading.Thread(target=read, name="states", daemon=True).start()
    screen = progress.Screen(output, lambda: os.get_terminal_size(output.fileno()))
    run: Json = {}
    read_at = time.monotonic()
    while True:
        with contextlib.suppress(queue.Empty):
            news = found.get(timeout=_REDRAW_SECONDS if run else None)
            if isinstance(news, Exception):
                raise news
            if news is None:
                return run
            run, read_at = news, time.monotonic()
        screen.draw(run, time.monotonic() - read_at)


def _is_terminal(output: TextIO) -> bool:
    return output.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def find_run(api: http_api.Api, node: str, run: str | None) -> Json:
    """Return the named run, or the newest one of a node.

    :raises exc.CommandError: the node has no run.
    """
    if run is not None:
        return api.run(node, run)
    newest = api.get("nodes", node, "runs", limit=1)["runs"]
    if not newest:
        raise exc.CommandError(f"Node {node} has no runs yet.")
    return api.run(node, newest[0]["uuid"])


def add_run(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the arguments that name a run, and return the parser."""
    parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
    parser.add_argument(
        "run", metavar="<run>", nargs="?", help="UUID of the run; without it the newest run."
    )
    return parser


def _add_filters(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--since", metavar="<cursor>", help="A cursor, 0 for all stored events, or now."
    )
    parser.add_argument("--node", metavar="<node>", help="Only events of these nodes.")
    parser.add_argument("--kind", metavar="<kind>", help="Only events of these kinds.")
    return parser


def _filters(parsed: argparse.Namespace) -> Json:
    return {"node": parsed.node, "kind": parsed.kind}


def _add_timeout(parser: argparse.ArgumentParser) -> None:
    # Not --timeout, which is a global option of keystoneauth.
    parser.add_argument(
        "--within",
        metavar="<seconds>",
        type=arguments.read_seconds,
        default=float("inf"),
        help="Seconds to wait in all. Default: without end.",
    )


def _countdown(seconds: float) -> Callable[[], float]:
    """Return a function that returns the seconds left."""
    until = time.monotonic() + seconds
    return lambda: until - time.monotonic()


def _poll(left: float) -> int:
    """Return the seconds that the next request may wait."""
    return max(1, int(min(http_api.POLL_SECONDS, left)))
