"""The command that explains the state of a node."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from cliff import show

from ironic_lite.cli.http_api import Api
from ironic_lite.core.json_types import Json

_LABEL = 10


class WhyNode(show.ShowOne):
    """Explain the state of a node: its work or wait, its failure, and its possible verbs.

    With -f json, -f yaml and so on, print the document of the API.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="Name or UUID of the node.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values of the explanation."""
        found = Api(self.app).get("nodes", parsed_args.node, "why")
        return tuple(found), tuple(found.values())

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        """Print a text, or the document in the format of the command line."""
        if parsed_args.formatter != self.formatter_default:
            return int(super().produce_output(parsed_args, column_names, data))
        for line in _lines(dict(zip(column_names, data, strict=True))):
            print(line, file=self.app.stdout)
        return 0


def _lines(why: Json) -> Iterator[str]:
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
