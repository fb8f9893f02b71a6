"""``baremetal node plan``: what a verb would do to a node, without doing it."""

from __future__ import annotations

import argparse
import json
import pathlib
import urllib.parse
from collections.abc import Sequence
from typing import Any

from cliff import columns, show
from ironicclient import exc
from ironicclient.common import utils

from ironic_lite.cli import retrying
from ironic_lite.core.json_types import Json

REFUSED = 1
"""Exit status if the request would be refused."""

_UNPROCESSABLE = 422
_REQUEST_SECONDS = 60
_LISTS = ("clean_steps", "deploy_steps", "service_steps")
_WORDS = ("runbook", "rescue_password")
_UNKNOWN = "unknown"


class Faults(columns.FormattableColumn[list[Json]]):
    """The faults of a request: a line for each in a table."""

    def human_readable(self) -> str:
        """Return the place and the text of each fault."""
        return "\n".join(
            ": ".join(filter(None, (fault["path"], fault["text"]))) for fault in self._value
        )


class Steps(columns.FormattableColumn[list[Json]]):
    """The steps of a plan: a line for each in a table."""

    def human_readable(self) -> str:
        """Return name, performer, effects and usual duration of each step."""
        return "\n".join(_line(step) for step in self._value)


class Words(columns.FormattableColumn[Any]):
    """A sum over all steps; null is unknown."""

    def human_readable(self) -> str:
        """Return the value for people."""
        return _shown(self._value)


class PlanNode(show.ShowOne):
    """Show the steps that a verb would run on a node, and all reasons to refuse it.

    Nothing is changed. Exit status 0: the request would be accepted now. 1: it would be refused.
    """

    _accepted = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        parser.add_argument("target", metavar="<target>", help="The verb, such as clean.")
        for name in _LISTS:
            parser.add_argument(
                _option(name),
                metavar="<steps>",
                help="The steps as JSON, a file with JSON, or - for standard input.",
            )
        parser.add_argument("--runbook", metavar="<runbook>", help="Name or UUID of a runbook.")
        parser.add_argument(
            "--config-drive",
            metavar="<drive>",
            help="A URL, a JSON object, or a file with a gzipped ISO image in base64.",
        )
        parser.add_argument("--rescue-password", metavar="<password>", help="For rescue.")
        parser.add_argument(
            "--disable-ramdisk", action="store_true", help="Boot no ramdisk for the steps."
        )
        retrying.add_options(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the plan; return the exit status."""
        super().run(parsed_args)
        return 0 if self._accepted else REFUSED

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values of the plan."""
        plan = _request_plan(self.app, parsed_args.node, _body(parsed_args))
        self._accepted = plan["accepted"]
        kinds: Json = {"faults": Faults, "steps": Steps}
        sums = dict.fromkeys(("ramdisk", "restarts", "destroys", "seconds"), Words)
        values = [{**kinds, **sums}.get(name, _as_is)(value) for name, value in plan.items()]
        return tuple(plan), values


def _as_is(value: Any) -> Any:
    return value


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _body(parsed: argparse.Namespace) -> Json:
    """Return the body of the request.

    :raises exc.InvalidAttribute: an argument is no JSON.
    """
    body: Json = {"target": parsed.target}
    for name in _LISTS:
        given = getattr(parsed, name)
        if given is not None:
            body[name] = utils.handle_json_arg(given, name.replace("_", " "))
    body |= {name: getattr(parsed, name) for name in _WORDS if getattr(parsed, name) is not None}
    retry = retrying.options(parsed)
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


def _request_plan(app: Any, node: str, body: Json) -> Json:
    """Return the plan of a request, also of one that would be refused.

    :param app: of cliff, with a client manager.
    :raises exc.HTTPException: the service makes no plan.
    """
    client = app.client_manager.baremetal.http_client
    url = f"/v1/nodes/{urllib.parse.quote(node, safe='')}/plan"
    try:
        _, plan = client.json_request("POST", url, body=body, timeout=_REQUEST_SECONDS)
    except Exception as why:
        answer = getattr(why, "response", None)
        if getattr(why, "http_status", None) != _UNPROCESSABLE or answer is None:
            raise
        plan = json.loads(answer.content)
    if not isinstance(plan, dict) or "accepted" not in plan:
        raise exc.CommandError("The service has answered without a plan.")
    return plan


def _line(step: Json) -> str:
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
