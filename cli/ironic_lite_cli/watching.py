"""Commands that wait for nodes, and show and follow runs, batches and events.

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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from ironicclient import exc

from ironic_lite_cli import commands, http_api, progress, rows
from ironic_lite_cli.http_api import Json, JsonView
from ironic_lite_cli.rows import BATCH, NODE, WITHIN, Argument, flag, limit

ENDED_OTHERWISE = 3
NOT_IN_TIME = os.EX_TEMPFAIL

_FAILED_DEPENDENCY = 424
_REDRAW_SECONDS = 1.0
_LOG_SECONDS = 10
"""Longest time between two reads of a log that is followed: lines may come without an event."""
_LOOK_SECONDS = 1.0
_RUN = (NODE, Argument("run", "UUID of the run; without it the newest run.", more={"nargs": "?"}))


class WaitForNode(rows.Command):
    """Wait until a node is in one of several provision states.

    Exit status 0: it is. 3: it has failed, or was aborted. 75: not in time.
    """

    arguments = (
        NODE,
        Argument(
            "--until",
            "Provision states, with hyphens or blanks, or idle: no run is under way.",
            "<state>[,<state>]",
            {"required": True},
        ),
        WITHIN,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Wait, and print the state or the reason."""
        exits = {_FAILED_DEPENDENCY: ENDED_OTHERWISE, http_api.GATEWAY_TIMEOUT: NOT_IN_TIME}
        given = parsed_args
        try:
            state = _wait_for_node(self.api, given.node, given.until, given.within)
        except Exception as why:
            if http_api.status_of(why) not in exits:
                raise
            print(why, file=self.app.stderr)
            return exits[http_api.status_of(why)]
        print(state, file=self.app.stdout)
        return 0


class ShowRun(rows.ShowOne):
    """Show a run of a node; without a UUID the current or newest one."""

    arguments = _RUN

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values."""
        found = progress.run_columns(find_run(self.api, parsed_args.node, parsed_args.run))
        return tuple(found), tuple(found.values())


class WatchRun(rows.Command):
    """Show the progress of a run until it ends: its steps with state, duration and attempt.

    On a terminal, a picture of the run is updated every second. Otherwise a line is printed when a
    step begins or ends. Exit status 0: the run has ended well. 3: otherwise. 75: not in time.
    """

    arguments = (*_RUN, WITHIN)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the progress."""
        api, left, output = self.api, _countdown(parsed_args.within), self.app.stdout
        first = find_run(api, parsed_args.node, parsed_args.run)
        states = _states(api, parsed_args.node, first["uuid"], left)
        print(progress.opening(first), file=output, flush=True)
        last = _draw(states, output) if _is_terminal(output) else _print(states, output)
        if last["state"] in progress.OPEN:
            print("The run goes on.", file=self.app.stderr)
            return NOT_IN_TIME
        print(progress.ending(last), file=output)
        return 0 if last["state"] == "done" else ENDED_OTHERWISE


class ShowRunLog(rows.Command):
    """Show the log of a run of a node; without a UUID of the current or newest one.

    With --follow, exit status 0: the run has ended well. 3: otherwise.
    """

    arguments = (*_RUN, flag("--follow", "Show further lines until the run ends."))

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the lines, each once."""
        api, node = self.api, parsed_args.node
        run = find_run(api, node, parsed_args.run)["uuid"]
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
                return 0 if state == "done" else ENDED_OTHERWISE
            ask = functools.partial(api.events, cursor, _LOG_SECONDS, run=run)
            cursor = str(http_api.repeated(ask)["cursor"])

    def _print_new(self, text: str, shown: set[str]) -> None:
        for line in text.splitlines():
            if line not in shown:
                shown.add(line)
                print(line, file=self.app.stdout, flush=True)


class WatchBatch(rows.Command):
    """Show the progress of a batch until it ends or pauses.

    On a terminal, one line is updated every second. Otherwise a line is printed after each change.
    Then the nodes that failed are listed. Exit status 0: all nodes ended well or were skipped. 3:
    a node failed, or the batch is paused or aborted. 75: not in time.
    """

    arguments = (BATCH, WITHIN)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show the progress."""
        api, output = self.api, self.app.stdout
        states = _batch_states(api, parsed_args.batch, _countdown(parsed_args.within))
        show = _draw_batch if _is_terminal(output) else _print_batch
        last = show(states, output)
        if _is_open(last):
            print("The batch goes on.", file=self.app.stderr)
            return NOT_IN_TIME
        counts = last["counts"]
        failed = any(counts[name] for name in progress.BATCH_FAILED)
        if failed:
            for one in api.batch_nodes(last["uuid"], ",".join(progress.BATCH_FAILED)):
                print(progress.failure_line(one), file=output)
        well = last["state"] == "done" and not failed and not counts["aborted"]
        return 0 if well else ENDED_OTHERWISE


class WatchEvents(rows.Command):
    """Print a line for each event as it happens, until interrupted."""

    arguments = (*commands.EVENT_FILTERS, limit("End after this number of events."))

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the events."""
        query = {name: getattr(parsed_args, name) for name in ("node", "kind", "requester")}
        events = _follow(self.api, parsed_args.since or "now", query)
        columns = commands.EVENT_COLUMNS.split()
        for event in itertools.islice(events, parsed_args.limit):
            words = (str(event[name]) for name in columns if event[name] is not None)
            print(*words, file=self.app.stdout, flush=True)
        return 0


# Helpers.


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


def _is_open(batch: JsonView) -> bool:
    return batch["ended_at"] is None and batch["state"] != "paused"


def _batch_states(api: http_api.Api, batch: str, left: Callable[[], float]) -> Iterator[Json]:
    """Yield a batch once a second, until it ends or pauses or the time is over."""
    while True:
        found: Json = http_api.repeated(lambda: api.get("batches", batch))
        yield found
        if not _is_open(found) or left() <= 0:
            return
        time.sleep(max(0.0, min(_LOOK_SECONDS, left())))


def _print_batch(states: Iterator[Json], output: TextIO) -> Json:
    """Print a line after each change; return the batch as it is at the end."""
    shown = ""
    for batch in states:
        text = progress.batch_line(batch)
        if text != shown:
            print(text, file=output, flush=True)
        shown = text
    return batch


def _draw_batch(states: Iterator[Json], output: TextIO) -> Json:
    """Write the line over the last one; return the batch as it is at the end."""
    for batch in states:
        width = os.get_terminal_size(output.fileno()).columns or progress.USUAL.columns
        output.write(f"\r{progress.batch_line(batch)[: width - 1]}\x1b[K")
        output.flush()
    output.write("\n")
    return batch


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


def _countdown(seconds: float) -> Callable[[], float]:
    """Return a function that returns the seconds left."""
    until = time.monotonic() + seconds
    return lambda: until - time.monotonic()


def _poll(left: float) -> int:
    """Return the seconds that the next request may wait."""
    return max(1, int(min(http_api.POLL_SECONDS, left)))
