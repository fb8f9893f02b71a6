"""Commands that wait for nodes, show runs and follow events.

They repeat bounded requests and keep their place by cursor, so a broken connection or a restart of
the service ends none of them.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cliff import command, lister, show
from ironicclient import exc

from ironic_lite.core.json_types import Json

ENDED_OTHERWISE = 3
NOT_IN_TIME = os.EX_TEMPFAIL

_POLL_SECONDS = 50
"""Longest wait of one request, below the idle time-out of most proxies."""
_REQUEST_SECONDS = _POLL_SECONDS + 60
_PAUSE = 1.0
"""Seconds before a request is repeated after a fault of the service or of the network."""
_FAILED_DEPENDENCY, _GATEWAY_TIMEOUT, _UNAVAILABLE = 424, 504, 503
_OPEN = frozenset({"running", "waiting"})
_RUN_COLUMNS = ("uuid", "verb", "state", "requester", "started_at", "ended_at")
_EVENT_COLUMNS = ("cursor", "at", "name", "kind", "event", "before", "after")


class Api:
    """The HTTP API by the client of python-ironicclient.

    :param app: of cliff, with a client manager.
    """

    def __init__(self, app: Any) -> None:
        self._client = app.client_manager.baremetal.http_client

    def get(self, *words: str, **query: object) -> Any:
        """Return the body of ``GET /v1/words...``; arguments that are None are left out.

        :raises exc.HTTPException: the service refuses the request.
        """
        path = "/".join(urllib.parse.quote(word, safe="") for word in words)
        given = {name: value for name, value in query.items() if value is not None}
        url = f"/v1/{path}?{urllib.parse.urlencode(given, safe=',')}".rstrip("?")
        _, body = self._client.json_request("GET", url, timeout=_REQUEST_SECONDS)
        return body

    def run(self, node: str, run: str) -> Json:
        """Return one run of a node, with its steps."""
        found: Json = self.get("nodes", node, "runs", run)
        return found

    def events(self, since: str, wait: int, **query: object) -> Json:
        """Return the events after a cursor; wait for the first one."""
        found: Json = self.get("events", since=since, wait=wait, **query)
        return found


def _status(why: Exception) -> int:
    return int(getattr(why, "http_status", 0) or 0)


def _passing(why: Exception) -> bool:
    """Return whether a request may succeed if it is repeated."""
    lost = isinstance(why, exc.ConnectionRefused | exc.CommunicationError)
    return lost or _status(why) in (_UNAVAILABLE, _GATEWAY_TIMEOUT)


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
        api, left = Api(self.app), _countdown(parsed_args.within)
        while True:
            try:
                found = api.get(
                    "nodes",
                    parsed_args.node,
                    wait=_poll(left()),
                    until=parsed_args.until,
                    fields="provision_state",
                )
            except Exception as why:
                if _status(why) == _FAILED_DEPENDENCY:
                    print(why, file=self.app.stderr)
                    return ENDED_OTHERWISE
                if not _passing(why):
                    raise
                if left() <= 0:
                    print(why, file=self.app.stderr)
                    return NOT_IN_TIME
                _pause(why)
                continue
            print(found["provision_state"], file=self.app.stdout)
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
        found = Api(self.app).get("nodes", parsed_args.node, "runs", **query)
        rows = ([run.get(name) for name in _RUN_COLUMNS] for run in found["runs"])
        return _RUN_COLUMNS, rows


class ShowRun(show.ShowOne):
    """Show a run of a node; without a UUID the current or newest one."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        return _add_run(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values."""
        run = _find_run(Api(self.app), parsed_args.node, parsed_args.run)
        return tuple(run), tuple(run.values())


class WatchRun(command.Command):
    """Print a line when each step of a run begins and ends, until the run ends.

    Exit status 0: it has ended well. 3: otherwise. 75: not in time.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _add_run(super().get_parser(prog_name))
        _add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the progress."""
        api, left = Api(self.app), _countdown(parsed_args.within)
        run = _find_run(api, parsed_args.node, parsed_args.run)
        shown: dict[tuple[str, int], tuple[str, int]] = {}
        known = run["uuid"]
        cursor = str(_repeated(lambda: api.get("events", since="now"), left)["cursor"])
        while True:
            run = _repeated(lambda: api.run(parsed_args.node, known), left)
            for line in _progress(run, shown):
                print(line, file=self.app.stdout, flush=True)
            if run["state"] not in _OPEN:
                reason = (run["error"] or {}).get("text", "")
                seconds = run["duration_seconds"] or 0.0
                last = f"run {run['verb']}: {run['state']} after {seconds:.1f} s {reason}".rstrip()
                print(last, file=self.app.stdout)
                return 0 if run["state"] == "done" else ENDED_OTHERWISE
            if left() <= 0:
                print("The run goes on.", file=self.app.stderr)
                return NOT_IN_TIME
            ask = functools.partial(api.events, cursor, _poll(left()), run=known)
            found = _repeated(ask, left)
            cursor = str(found["cursor"])


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
        found = Api(self.app).get("events", since=parsed_args.since, **query)
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
        events = _follow(Api(self.app), parsed_args.since or "now", _filters(parsed_args))
        for event in itertools.islice(events, parsed_args.limit):
            words = (str(event[name]) for name in _EVENT_COLUMNS if event[name] is not None)
            print(*words, file=self.app.stdout, flush=True)
        return 0


# -- helpers ---------------------------------------------------------------------------------


def _follow(api: Api, cursor: str, query: Json) -> Iterator[Json]:
    """Yield events after a cursor for ever."""
    while True:
        found = _repeated(functools.partial(api.events, cursor, _POLL_SECONDS, **query), _no_end)
        yield from found["events"]
        cursor = str(found["cursor"])


def _repeated(ask: Callable[[], Json], left: Callable[[], float]) -> Json:
    """Return the answer of ``ask``; repeat it while the service or the network is away.

    :param left: returns the seconds that are left; the last fault is raised at their end.
    """
    while True:
        try:
            return ask()
        except Exception as why:
            if not _passing(why) or left() <= 0:
                raise
            _pause(why)


def _no_end() -> float:
    return float("inf")


def _pause(why: Exception) -> None:
    """Pause before a repetition, unless the service has waited already."""
    if _status(why) != _GATEWAY_TIMEOUT:
        time.sleep(_PAUSE)


def _progress(run: Json, shown: dict[tuple[str, int], tuple[str, int]]) -> Iterator[str]:
    """Yield a line for each step whose state or attempt has changed.

    :param shown: kind and ordinal -> state and attempt of the last line; updated.
    """
    count = len(run["steps"])
    for step in run["steps"]:
        place, state = (step["kind"], step["ordinal"]), (step["state"], step["attempt"])
        if step["state"] == "pending" or shown.get(place) == state:
            continue
        shown[place] = state
        name = f"{step['interface']}.{step['step']}"
        again = f", attempt {step['attempt']}" if step["attempt"] > 1 else ""
        reason = (step["error"] or {}).get("text", "")
        seconds = f" {step['duration_seconds']:.1f} s" if step["ended_at"] else ""
        line = f"[{step['ordinal'] + 1}/{count}] {name}: {step['state']}{again}{seconds} {reason}"
        yield line.rstrip()


def _find_run(api: Api, node: str, run: str | None) -> Json:
    """Return the named run, or the newest one of a node.

    :raises exc.CommandError: the node has no run.
    """
    if run is not None:
        return api.run(node, run)
    newest = api.get("nodes", node, "runs", limit=1)["runs"]
    if not newest:
        raise exc.CommandError(f"Node {node} has no runs yet.")
    return api.run(node, newest[0]["uuid"])


def _add_run(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
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
        type=float,
        default=float("inf"),
        help="Seconds to wait in all. Default: without end.",
    )


def _countdown(seconds: float) -> Callable[[], float]:
    """Return a function that returns the seconds left."""
    until = time.monotonic() + seconds
    return lambda: until - time.monotonic()


def _poll(left: float) -> int:
    """Return the seconds that the next request may wait."""
    return max(1, int(min(_POLL_SECONDS, left)))
