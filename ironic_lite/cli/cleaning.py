"""``baremetal node cleaning step list``: the cleaning steps of a node.

Requirements S1.32 and S1.33.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cliff import columns, lister
from ironicclient import exc

from ironic_lite.core.json_types import Json

LOG = logging.getLogger(__name__)

COLUMNS = ("interface", "step", "priority", "abortable", "args")
"""Named as in the API: ``-f json`` prints the values of the API's answer."""

NOT_YET = os.EX_TEMPFAIL
"""Exit status if the list is not available yet; a retry may succeed."""

_REQUEST_SECONDS = 60
_INTERVAL = 10
"""Seconds between two retries if the service names no time."""
_SHORTEST = 1
_HEADER = "Retry-Request-After"
_NO_MESSAGE = "The steps of this node are not available yet."


class NotYet(Exception):
    """The list is not available yet; ``seconds`` to wait, None if unknown."""

    def __init__(self, message: str, seconds: int | None) -> None:
        super().__init__(message)
        self.seconds = seconds


class Arguments(columns.FormattableColumn[list[Json]]):
    """The arguments of a step: names in a table, all their facts in other formats."""

    def human_readable(self) -> str:
        """Return one line for each argument."""
        return "\n".join(
            f"{arg['name']} (required)" if arg["required"] else str(arg["name"])
            for arg in self._value
        )


class ListCleaningSteps(lister.Lister):
    """List the cleaning steps of a node, highest priority first.

    Exit status 75: the list is not available yet, try again.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line: one node, and two options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        parser.add_argument(
            "--min-priority",
            metavar="<priority>",
            type=_read_number,
            default=0,
            help="List only steps of this priority and above; 1 lists what automated cleaning "
            "runs. Default: 0, all steps.",
        )
        parser.add_argument(
            "--wait",
            metavar="<seconds>",
            type=_read_seconds,
            default=0,
            help="While the list is not available yet, ask again when the service says so, for at "
            "most this long. Default: 0, ask once.",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the list, or why it is missing and what to do."""
        try:
            return super().run(parsed_args)
        except NotYet as why:
            print(f"{why}\n{_retry_advice(why.seconds)}", file=self.app.stderr)
            return NOT_YET

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the names of the columns and a row for each step."""
        client = self.app.client_manager.baremetal  # type: ignore[attr-defined]  # both programs
        node = urllib.parse.quote(parsed_args.node, safe="")
        query = f"min_priority={_number_text(parsed_args.min_priority)}"
        url = f"/v1/nodes/{node}/cleaning/steps?{query}"
        steps = retry_until_ready(lambda: _get_steps(client, url), parsed_args.wait)
        return COLUMNS, [_step_row(step) for step in steps]


def retry_until_ready(
    ask: Callable[[], list[Json]],
    bound: float,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Json]:
    """Return the first answer of ``ask``; after `NotYet`, pause and ask again.

    The service sets the pause; without a value it is 10 seconds.

    :param bound: seconds all pauses may take together; then ``ask`` is called a last time.
    :raises NotYet: the last answer.
    """
    end = now() + bound
    while True:
        try:
            return ask()
        except NotYet as why:
            left = end - now()
            if left <= 0:
                raise
            wanted = _INTERVAL if why.seconds is None else max(why.seconds, _SHORTEST)
            pause = min(wanted, left)
            LOG.info("%s Asking again in %g seconds.", why, pause)
            sleep(pause)


def _get_steps(client: Any, url: str) -> list[Json]:
    answer, body = client.http_client.json_request("GET", url, timeout=_REQUEST_SECONDS)
    if answer.status_code == 202:  # noqa: PLR2004
        said = body.get("message") if isinstance(body, dict) else None
        raise NotYet(str(said or _NO_MESSAGE), _retry_seconds(answer.headers))
    if not isinstance(body, list):
        raise exc.CommandError(f"The answer of the service to {url} is not a list.")
    return body


def _retry_seconds(headers: Mapping[str, str]) -> int | None:
    """Return the seconds of the header; None if unknown or malformed."""
    try:
        seconds = int(headers.get(_HEADER, "-1"))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def _retry_advice(seconds: int | None) -> str:
    when = "later" if seconds is None else f"in {seconds} seconds"
    return f"Try again {when}, or let --wait <seconds> do so."


def _step_row(step: Json) -> tuple[Any, ...]:
    return (*(step.get(name) for name in COLUMNS[:-1]), Arguments(step.get("args") or []))


def _number_text(number: float) -> str:
    return repr(int(number)) if number == int(number) else repr(number)


def _read_number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{word!r} is not a finite number")
    return number


def _read_seconds(word: str) -> float:
    seconds = _read_number(word)
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{word} is less than 0")
    return seconds
