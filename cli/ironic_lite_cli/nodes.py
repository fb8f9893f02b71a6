"""Commands for one node: explain its state, list its cleaning steps, plan a verb, retry a run."""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from cliff import columns
from ironicclient import exc
from ironicclient.common import utils

from ironic_lite_cli import http_api, rows, watching
from ironic_lite_cli.http_api import Api, Json, in_commands
from ironic_lite_cli.rows import NODE, Argument, flag

LOG = logging.getLogger(__name__)

# The explanation of a state.

_LABEL = 10


class WhyNode(rows.ShowOne):
    """Explain the state of a node: its work or wait, its failure, and its possible verbs.

    With -f json, -f yaml and so on, print the document of the API.
    """

    arguments = (NODE,)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values of the explanation."""
        found = self.api.get("nodes", parsed_args.node, "why")
        return tuple(found), tuple(found.values())

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        """Print a text, or the document in the format of the command line."""
        if parsed_args.formatter != self.formatter_default:
            return int(super().produce_output(parsed_args, column_names, data))
        for line in _explanation(dict(zip(column_names, data, strict=True))):
            print(in_commands(line), file=self.app.stdout)
        return 0


def _explanation(why: Json) -> Iterator[str]:
    yield f"{why['name'] or why['node']}: {why['provision_state']} since {why['since']}"
    yield why["says"]
    if why.get("do"):
        yield _labelled("do", why["do"])
    run = why["run"]
    if run is not None:
        place = f", step {run['step']} of {run['of']}, {run['title']}" if run["step"] else ""
        yield _labelled("run", f"{run['uuid']} {run['verb']} {run['state']}{place}")
    if why["failure"] is not None:
        yield from _about_failure(why["failure"])
    for verb in why["verbs"]:
        refused = verb["refused"]
        text = f"leads to {verb['leads_to']}"
        if verb["after"]:
            text += f", after the step {verb['after']}"
        if refused:
            text = f"refused: {refused['text']} ({refused['code']})"
        yield _labelled("verb", f"{verb['target']} {text}")


def _about_failure(failure: Json) -> Iterator[str]:
    yield _labelled("failure", " ".join(filter(None, (failure["code"], failure["text"]))))
    cause = failure["cause"]
    if cause is not None and cause["text"] != failure["text"]:
        yield _labelled("cause", f"{cause['code']} {cause['text']}")
    for evidence in failure["evidence"]:
        about = {name: value for name, value in evidence.items() if name not in ("kind", "tail")}
        text = about.pop("href", None) or about.pop("text", None)
        facts = ", ".join(f"{name} {value}" for name, value in about.items())
        yield _labelled(evidence["kind"], " ".join(filter(None, (text, facts))))
        for line in evidence.get("tail", ()):
            yield f"{'':{_LABEL}}{line}"


def _labelled(label: str, text: str) -> str:
    return f"{label:{_LABEL}}{text}"


# Cleaning steps.

CLEANING_COLUMNS = ("interface", "step", "priority", "abortable", "args")
"""Named as in the API: ``-f json`` prints the values of the API's answer."""

NOT_YET = os.EX_TEMPFAIL
"""Exit status if the list is not available yet; a retry may succeed."""

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


class _StepArguments(columns.FormattableColumn[list[Json]]):
    """The arguments of a step: names in a table, all their facts in other formats."""

    def human_readable(self) -> str:
        """Return one line for each argument."""
        return "\n".join(
            f"{arg['name']} (required)" if arg["required"] else str(arg["name"])
            for arg in self._value
        )


def _read_number(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{word!r} is not a finite number")
    return number


def _read_bounded_seconds(word: str) -> float:
    seconds = _read_number(word)
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{word} is less than 0")
    return seconds


class ListCleaningSteps(rows.Lister):
    """List the cleaning steps of a node, highest priority first.

    Exit status 75: the list is not available yet, try again.
    """

    arguments = (
        NODE,
        Argument(
            "--min-priority",
            "List only steps of this priority and above; 1 lists what automated cleaning runs. "
            "Default: 0, all steps.",
            "<priority>",
            {"type": _read_number, "default": 0},
        ),
        Argument(
            "--wait",
            "While the list is not available yet, ask again when the service says so, for at most "
            "this long. Default: 0, ask once.",
            "<seconds>",
            {"type": _read_bounded_seconds, "default": 0},
        ),
    )

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the list, or why it is missing and what to do."""
        try:
            return super().run(parsed_args)
        except NotYet as why:
            print(f"{why}\n{_retry_advice(why.seconds)}", file=self.app.stderr)
            return NOT_YET

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the names of the columns and a row for each step."""
        node, least = parsed_args.node, _number_text(parsed_args.min_priority)
        steps = retry_until_ready(lambda: _get_steps(self.api, node, least), parsed_args.wait)
        return CLEANING_COLUMNS, [_step_row(step) for step in steps]


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


def _get_steps(api: Api, node: str, least: str) -> list[Json]:
    url = http_api.url_of("nodes", node, "cleaning", "steps", min_priority=least)
    answer, body = api.send_once("GET", url)
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
    return (
        *(step.get(name) for name in CLEANING_COLUMNS[:-1]),
        _StepArguments(step.get("args") or []),
    )


def _number_text(number: float) -> str:
    return repr(int(number)) if number == int(number) else repr(number)


# The retry of a run.

_FAILURES = ("failed", "aborted")
"""Ends of the names of states, of runs and of nodes."""
_HIDDEN = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
"""Answers to callers who may not read the run."""


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


_RETRY_OPTIONS = (
    Argument(
        "--from",
        "Begin with this earlier step. Default: the step that failed.",
        "<ordinal>",
        {"dest": "start", "type": int},
    ),
    Argument(
        "--waive",
        "Leave the step out that failed, for this reason.",
        "<reason>",
        {"action": _AppendWaiver},
    ),
    Argument(
        "--waive-step",
        "Leave this step out, for this reason. May be given several times.",
        ("<ordinal>", "<reason>"),
        {"dest": "waive", "nargs": 2, "action": _AppendWaiver},
    ),
    flag("--force", "Repeat a step although it is unknown whether it has ended."),
)


class RetryNode(rows.Command):
    """Continue the failed run of a node from the step that failed.

    Steps that have ended well are kept, if their effect lasts. With --wait, exit status 0: the run
    has ended well. 3: otherwise. 75: not in time.
    """

    arguments = (
        NODE,
        *_RETRY_OPTIONS,
        Argument(
            "--wait",
            "Wait for the end of the run, so many seconds in all, as --within of other commands; "
            "inf: without end. Default: do not wait.",
            "<seconds>",
            {"type": rows.read_seconds, "default": 0.0},
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Retry, print the run, and wait for its end."""
        api = self.api
        wanted: Json = {"force": False, "waive": [], **_retry_values(parsed_args)}
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


def _retry_values(parsed: argparse.Namespace) -> Json:
    """Return the description of a retry: what the command line has of it."""
    given: Json = {"from": parsed.start, "waive": parsed.waive, "force": parsed.force or None}
    return {name: value for name, value in given.items() if value is not None}


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


# The plan of a verb.

REFUSED = 1
"""Exit status if the request would be refused."""

_LISTS = ("clean_steps", "deploy_steps", "service_steps")
_WORDS = ("runbook", "rescue_password")
_UNKNOWN = "unknown"


class _Faults(columns.FormattableColumn[list[Json]]):
    """The faults of a request: a line for each in a table."""

    def human_readable(self) -> str:
        """Return the place and the text of each fault."""
        return "\n".join(
            ": ".join(filter(None, (fault["path"], fault["text"]))) for fault in self._value
        )


class _PlannedSteps(columns.FormattableColumn[list[Json]]):
    """The steps of a plan: a line for each in a table."""

    def human_readable(self) -> str:
        """Return name, performer, effects and usual duration of each step."""
        return "\n".join(_step_line(step) for step in self._value)


class _Sum(columns.FormattableColumn[Any]):
    """A sum over all steps; null is unknown."""

    def human_readable(self) -> str:
        """Return the value for people."""
        return _shown(self._value)


class PlanNode(rows.ShowOne):
    """Show the steps that a verb would run on a node, and all reasons to refuse it.

    Nothing is changed. Exit status 0: the request would be accepted now. 1: it would be refused.
    """

    _accepted = True

    arguments = (
        NODE,
        Argument("target", "The verb, such as clean."),
        *(
            Argument(
                f"--{name.replace('_', '-')}",
                "The steps as JSON, a file with JSON, or - for standard input.",
                "<steps>",
            )
            for name in _LISTS
        ),
        Argument("--runbook", "Name or UUID of a runbook."),
        Argument(
            "--config-drive",
            "A URL, a JSON object, or a file with a gzipped ISO image in base64.",
            "<drive>",
        ),
        Argument("--rescue-password", "For rescue.", "<password>"),
        flag("--disable-ramdisk", "Boot no ramdisk for the steps."),
        *_RETRY_OPTIONS,
    )

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the plan; return the exit status."""
        super().run(parsed_args)
        return 0 if self._accepted else REFUSED

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values of the plan."""
        plan = _request_plan(self.api, parsed_args.node, _plan_body(parsed_args))
        self._accepted = plan["accepted"]
        sums = dict.fromkeys(("ramdisk", "restarts", "destroys", "seconds"), _Sum)
        kinds: Json = {"faults": _Faults, "steps": _PlannedSteps, **sums}
        values = [kinds[name](value) if name in kinds else value for name, value in plan.items()]
        return tuple(plan), values


def _plan_body(parsed: argparse.Namespace) -> Json:
    """Return the body of the request.

    :raises exc.InvalidAttribute: an argument is no JSON.
    """
    body: Json = {"target": parsed.target}
    for name in _LISTS:
        given = getattr(parsed, name)
        if given is not None:
            body[name] = utils.handle_json_arg(given, name.replace("_", " "))
    body |= {name: getattr(parsed, name) for name in _WORDS if getattr(parsed, name) is not None}
    retry = _retry_values(parsed)
    if retry:
        body["retry"] = retry
    if parsed.disable_ramdisk:
        body["disable_ramdisk"] = True
    if parsed.config_drive is not None:
        body["configdrive"] = _config_drive(parsed.config_drive)
    return body


def _config_drive(given: str) -> Any:
    if given.lstrip().startswith("{"):
        return json.loads(given)
    path = pathlib.Path(given)
    return path.read_text() if "://" not in given and path.is_file() else given


def _request_plan(api: Api, node: str, body: Json) -> Json:
    """Return the plan of a request, also of one that would be refused.

    :raises exc.HTTPException: the service makes no plan.
    """
    try:
        _, plan = api.send_once("POST", http_api.url_of("nodes", node, "plan"), body=body)
    except Exception as why:
        answer = getattr(why, "response", None)
        if http_api.status_of(why) != HTTPStatus.UNPROCESSABLE_ENTITY or answer is None:
            raise
        plan = json.loads(answer.content)
    if not isinstance(plan, dict) or "accepted" not in plan:
        raise exc.CommandError("The service has answered without a plan.")
    return plan


def _step_line(step: Json) -> str:
    """Return a step in one line."""
    name = f"{step['ordinal']} {step['interface']}.{step['step']}"
    source = " ".join(str(word) for word in step["from"].values() if word is not None)
    return (
        f"{name}: from {source}, by {_shown(step['by'])}, destroys {_shown(step['destroys'])}, "
        f"restarts {_shown(step['restarts'])}, seconds {_shown(step['usual_seconds'])}"
    )


def _shown(value: Any) -> str:
    """Return a value for people; null is unknown."""
    if value is None:
        return _UNKNOWN
    if isinstance(value, list):
        return ", ".join(value) or "nothing"
    if isinstance(value, dict):
        return f"{value['p50']:.0f} (90 % within {value['p90']:.0f})"
    return str(value)
