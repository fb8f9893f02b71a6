"""The command ``baremetal doctor``: checks of the service, and of a node."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from cliff import lister

from ironic_lite.cli.http_api import Api

_COLUMNS = ("status", "where", "name", "text", "do")
_EXIT_STATUS = {"ok": 0, "failed": 2}
_WARNING = 1


class Doctor(lister.Lister):
    """Examine the service, and a node if it is named.

    Exit status 0: all is well. 1: a warning, or a check that could not be made. 2: a check has
    failed.
    """

    status = _WARNING
    """The exit status; that of a warning until an answer has come."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--node", metavar="<node>", help="Examine this node, too: name or UUID."
        )
        parser.add_argument(
            "--bad", action="store_true", help="List only checks with another result than ok."
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each check."""
        found = Api(self.app).get("doctor", node=parsed_args.node)
        self.status = _EXIT_STATUS.get(found["status"], _WARNING)
        checks = [
            check for check in found["checks"] if not parsed_args.bad or check["status"] != "ok"
        ]
        return _COLUMNS, ([check[name] or "" for name in _COLUMNS] for check in checks)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print the list; return the exit status of the worst check."""
        return int(super().run(parsed_args)) or self.status
