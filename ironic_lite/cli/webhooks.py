"""Commands for webhooks: receivers to which the service sends its events."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from cliff import command, lister, show

from ironic_lite.cli.http_api import Api
from ironic_lite.core.json_types import Json

_COLUMNS = ("uuid", "url", "state", "cursor", "last_status", "failing_since")
_DETAILS = (*_COLUMNS, "kinds", "nodes", "secret", "last_error", "created_by", "created_at")


def _parser_of_one(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("webhook", metavar="<webhook>", help="UUID of the webhook.")
    return parser


def _add_filters(parser: argparse.ArgumentParser) -> None:
    for name, what in (("kind", "Kind of the events to send"), ("node", "Name or UUID of a node")):
        parser.add_argument(
            f"--{name}",
            metavar=f"<{name}>",
            action="append",
            help=f"{what}. May be given several times. Default: all.",
        )


class CreateWebhook(show.ShowOne):
    """Add a webhook, and show its secret, which is not shown again."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = super().get_parser(prog_name)
        parser.add_argument("url", metavar="<url>", help="Where to send events, with https.")
        parser.add_argument("--since", metavar="<cursor>", help="A cursor, 0, or now (default).")
        _add_filters(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Add the webhook, and return names and values."""
        given = {
            "url": parsed_args.url,
            "since": parsed_args.since,
            "kinds": parsed_args.kind,
            "nodes": parsed_args.node,
        }
        body = {name: value for name, value in given.items() if value is not None}
        return _shown(Api(self.app).change("POST", "webhooks", body=body))


class ListWebhooks(lister.Lister):
    """List all webhooks."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        """Return the columns and a row for each webhook."""
        del parsed_args
        found = Api(self.app).get("webhooks")["webhooks"]
        return _COLUMNS, [[one[name] for name in _COLUMNS] for one in found]


class ShowWebhook(show.ShowOne):
    """Show a webhook without its secret."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        return _parser_of_one(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Return names and values."""
        return _shown(Api(self.app).get("webhooks", parsed_args.webhook))


class SetWebhook(show.ShowOne):
    """Change a webhook, pause it, or resume it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _parser_of_one(super().get_parser(prog_name))
        parser.add_argument("--url", metavar="<url>", help="Where to send events.")
        parser.add_argument("--state", choices=("active", "paused"), help="Resume or pause.")
        parser.add_argument(
            "--new-secret", action="store_true", help="Make a new secret, and show it once."
        )
        _add_filters(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Change the webhook, and return names and values."""
        given = {
            "url": parsed_args.url,
            "state": parsed_args.state,
            "kinds": parsed_args.kind,
            "nodes": parsed_args.node,
        }
        patch: list[Json] = [
            {"op": "replace", "path": f"/{name}", "value": value}
            for name, value in given.items()
            if value is not None
        ]
        if parsed_args.new_secret:
            patch.append({"op": "remove", "path": "/secret"})
        return _patched(self, parsed_args.webhook, patch)


class UnsetWebhook(show.ShowOne):
    """Remove filters of a webhook, so that it receives all events."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _parser_of_one(super().get_parser(prog_name))
        parser.add_argument("--kinds", action="store_true", help="Send events of all kinds.")
        parser.add_argument("--nodes", action="store_true", help="Send events of all nodes.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Change the webhook, and return names and values."""
        named = [name for name in ("kinds", "nodes") if getattr(parsed_args, name)]
        patch = [{"op": "remove", "path": f"/{name}"} for name in named]
        return _patched(self, parsed_args.webhook, patch)


class DeleteWebhook(command.Command):
    """Remove a webhook."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        return _parser_of_one(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Remove the webhook."""
        Api(self.app).change("DELETE", "webhooks", parsed_args.webhook)


class ReplayWebhook(show.ShowOne):
    """Send events again, from an earlier cursor or from a failed delivery."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the command line."""
        parser = _parser_of_one(super().get_parser(prog_name))
        start = parser.add_mutually_exclusive_group(required=True)
        start.add_argument("--since", metavar="<cursor>", help="Send the events after this one.")
        start.add_argument(
            "--failed",
            metavar="<id>",
            type=int,
            help="Send again from this failed delivery on.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """Set the cursor back, and return names and values."""
        body: Json = {"since": parsed_args.since}
        if parsed_args.failed is not None:
            body = {"failed": parsed_args.failed}
        return _shown(
            Api(self.app).change("POST", "webhooks", parsed_args.webhook, "replay", body=body)
        )


def _patched(shown: show.ShowOne, webhook: str, patch: Any) -> tuple[Sequence[str], Sequence[Any]]:
    return _shown(Api(shown.app).change("PATCH", "webhooks", webhook, body=patch))


def _shown(found: Json) -> tuple[Sequence[str], Sequence[Any]]:
    return _DETAILS, [found[name] for name in _DETAILS]
