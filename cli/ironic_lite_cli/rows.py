"""Commands made of rows: one request each, by its method, path, arguments and columns.

A command with code of its own is a subclass of `Command`, `Lister` or `ShowOne`.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cliff import command, lister, show

from ironic_lite_cli.http_api import Api, Json, JsonView

REMOVE = "remove"
"""Value of a flag that removes a field in a JSON Patch."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of a command line; its value goes by its key into path, query or body.

    ``shown`` is the placeholder of the value: ``<name>`` by default, None for no placeholder.
    ``more`` are further parameters of argparse; with ``dest`` the key differs from the name.
    ``columns`` are names of columns that the flag adds to a list.
    """

    name: str
    help: str
    shown: str | tuple[str, ...] | None = ""
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    columns: str = ""

    @property
    def key(self) -> str:
        """Return the name of the value in a request."""
        return str(self.more.get("dest", self.name.lstrip("-").replace("-", "_")))

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the argument to a command line."""
        more = dict(self.more)
        if self.shown is not None:
            more["metavar"] = self.shown or f"<{self.name.lstrip('-')}>"
        parser.add_argument(self.name, help=self.help, **more)


class OneOf:
    """Arguments that exclude each other."""

    def __init__(self, *arguments: Argument, required: bool = True) -> None:
        self.arguments = arguments
        self.required = required


Arguments = tuple[Argument | OneOf, ...]


def flag(
    name: str,
    about: str,
    key: str | None = None,
    value: str | bool = True,
    default: str | None = None,
    *,
    columns: str = "",
) -> Argument:
    """Return an option without a value, which sends ``value`` as ``key``, or else ``default``."""
    key = key or name.lstrip("-").replace("-", "_")
    more = {"action": "store_const", "dest": key, "const": value, "default": default}
    return Argument(name, about, None, more, columns)


def read_seconds(word: str) -> float:
    """Return the seconds of an argument; ``inf`` stands for no end.

    :raises argparse.ArgumentTypeError: not a number, or less than 0.
    """
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:  # also NaN
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of seconds, 0 or more, or inf")
    return seconds


NODE = Argument("node", "Name or UUID of the node.")
BATCH = Argument("batch", "UUID of the batch.")
# Not --timeout, which is a global option of keystoneauth.
WITHIN = Argument(
    "--within",
    "Seconds to wait in all. Default: without end.",
    "<seconds>",
    {"type": read_seconds, "default": float("inf")},
)


def limit(about: str) -> Argument:
    """Return the option for a number of rows."""
    return Argument("--limit", about, "<number>", {"type": int})


class Command(command.Command):
    """A command with arguments, and with the HTTP API."""

    arguments: Arguments = ()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        for argument in self.arguments:
            if isinstance(argument, OneOf):
                group = parser.add_mutually_exclusive_group(required=argument.required)
                for one in argument.arguments:
                    one.add_to(group)
            else:
                argument.add_to(parser)
        return parser

    @property
    def api(self) -> Api:
        """Return the HTTP API."""
        return Api(self.app)


class Lister(Command, lister.Lister):
    """A command that shows a table."""


class ShowOne(Command, show.ShowOne):
    """A command that shows names and values."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A command that is one request.

    Values of arguments replace the words in braces of ``path``. The others are the query of GET
    and DELETE, the body of PUT and POST, and the replaced fields of PATCH. ``fixed`` is sent with
    them. ``lists`` names the list in the answer. ``read`` returns the values to show of one
    document; they are shown in the order of ``columns``, or all without these.
    """

    help: str
    path: str
    arguments: Arguments = ()
    method: str = "GET"
    fixed: JsonView = dataclasses.field(default_factory=dict)
    lists: str = ""
    columns: str = ""
    read: Callable[[Json], Json] = dict

    def command(self) -> type[Command]:
        """Return the command: a table, names and values, or nothing after DELETE."""
        kind = _Listed if self.lists else _Done if self.method == "DELETE" else _Shown
        members = {"row": self, "arguments": self.arguments}
        return type("Made", (kind,), {**members, "__doc__": self.help, "__module__": __name__})

    def send(self, api: Api, parsed: argparse.Namespace) -> Any:
        """Send the request, and return the body of the answer."""
        given = {one.key: getattr(parsed, one.key) for one in self.each_argument()}
        given = {**self.fixed, **given}
        words = [given.pop(word[1:-1]) if word[0] == "{" else word for word in self.path.split("/")]
        if self.method == "GET":
            return api.get(*words, **given)
        if self.method == "DELETE":
            return api.change("DELETE", *words, **given)
        body: Any = {name: value for name, value in given.items() if value is not None}
        if self.method == "PATCH":
            body = [_patch(f"/{name}", value) for name, value in body.items()]
        return api.change(self.method, *words, body=body)

    def values(self, found: Json) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the names and values of a document."""
        values = self.read(found)
        names = tuple(self.columns.split()) or tuple(values)
        return names, [values.get(name) for name in names]

    def each_argument(self) -> Iterator[Argument]:
        """Yield all arguments."""
        for one in self.arguments:
            yield from one.arguments if isinstance(one, OneOf) else (one,)


def _patch(path: str, value: Any) -> Json:
    if value == REMOVE:
        return {"op": "remove", "path": path}
    return {"op": "replace", "path": path, "value": value}


class _Listed(Lister):
    row: Row

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        found = self.row.send(self.api, parsed_args)[self.row.lists]
        flags = (one for one in self.row.each_argument() if one.columns)
        given = (one for one in flags if getattr(parsed_args, one.key) == one.more["const"])
        columns = " ".join([self.row.columns, *(one.columns for one in given)])
        row = dataclasses.replace(self.row, columns=columns)
        return columns.split(), [row.values(one)[1] for one in found]


class _Shown(ShowOne):
    row: Row

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        return self.row.values(self.row.send(self.api, parsed_args))


class _Done(Command):
    row: Row

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.row.send(self.api, parsed_args)
