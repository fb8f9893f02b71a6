"""Answers of a BMC in the form that sushy reads, with error bodies normalized."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from ironic_lite.core import bounded_http
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.errors import unicode_text

_NAMES = frozenset({"@odata.type", "MessageId", "RelatedProperties", "code"})
"""Properties that only name things, and whose values matter to this driver and to sushy."""
_SHOWN = 80

INFO = "@Message.ExtendedInfo"
_POINTER = re.compile(r"\bsee\b.{0,12}extendedinfo", re.IGNORECASE)
"""A message that only refers to the entries beside it."""
_ARGUMENT = re.compile(r"%([1-9])")
_ARGS = 8
_BROKEN = frozenset({"GeneralError", "InternalError"})


def entries(document: JsonView) -> list[Json]:
    """Return the message entries of a task or of an answer (DSP0266, DSP0268)."""
    error = document.get("error")
    lists = (
        document.get("Messages"),
        document.get(INFO),
        error.get(INFO) if isinstance(error, dict) else None,
    )
    return [
        entry
        for found in lists
        if isinstance(found, list)
        for entry in found
        if isinstance(entry, dict)
    ]


def entry_text(entry: JsonView) -> str | None:
    """Return the message of an entry, or its id with its arguments if it has no message."""
    message, ident = entry.get("Message"), entry.get("MessageId")
    given = entry.get("MessageArgs")
    args = [str(arg) for arg in given[:_ARGS]] if isinstance(given, list) else []
    if isinstance(message, str) and message.strip() and not is_pointer(message):

        def filled(mark: re.Match[str]) -> str:
            place = int(mark[1]) - 1
            return args[place] if place < len(args) else mark[0]

        return _ARGUMENT.sub(filled, message.strip())
    if isinstance(ident, str) and ident.strip():
        return f"{ident.strip()} ({', '.join(args)})" if args else ident.strip()
    return None


def is_pointer(message: str) -> bool:
    """Return whether a message only refers to the entries beside it."""
    return _POINTER.search(message) is not None


def is_failure(document: JsonView) -> bool:
    """Return whether a task or an answer without an error status has the entry of an error."""
    return any(
        "Critical" in (entry.get("MessageSeverity"), entry.get("Severity"))
        or str(entry.get("MessageId")).rpartition(".")[2] in _BROKEN
        for entry in entries(document)
    )


def not_json(what: str) -> Exception:
    """Return the error for a successful answer that is not a JSON object, but ``what``."""
    module = importlib.import_module("ironic_lite.drivers.redfish.bmc.not_json")
    found: Exception = module.NotJson(what)
    return found


class Response:
    """One answer, with the attributes that sushy reads from a response of requests."""

    __slots__ = ("_document", "content", "headers", "status_code", "url")

    def __init__(self, url: str, status: int, headers: Mapping[str, str], content: bytes) -> None:
        """``headers`` must look up names in any case."""
        self.url = url
        self.status_code = status
        self.headers = headers
        self.content = content
        self._document: Any = None

    def json(self) -> Any:
        """Return the JSON document.

        :raises ValueError: it is not JSON.
        """
        if self._document is None:
            self._document = bounded_http.json_value(self.content)
        return self._document

    def mapping(self) -> Json:
        """Return the JSON object.

        The error does not quote the body: if the address is not a BMC's, the body may have secrets.

        :raises not_json.NotJson: the body is not JSON, or not an object.
        """
        try:
            document = self.json()
        except bounded_http.TooManyValues as why:
            raise not_json(f"{self.url} is {why}") from None
        except ValueError:
            kind = (self.headers.get("Content-Type") or "none")[:_SHOWN]
            size = len(self.content)
            raise not_json(f"{self.url} is not JSON: {size} bytes, content type {kind}") from None
        if not isinstance(document, dict):
            raise not_json(f"{self.url} is not a JSON object but {type(document).__name__}")
        return document

    @property
    def etag(self) -> str | None:
        """The ETag of the document, from the header or else from the document itself."""
        found = self.headers.get("ETag") or self.mapping().get("@odata.etag")
        return found if isinstance(found, str) and found else None

    def tidied(self, secret: str | None) -> Response:
        """Return an error answer in the form of DSP0266, because sushy breaks on other forms.

        Sushy also logs the message, so a password in it is removed.
        """
        if self.status_code < HTTPStatus.BAD_REQUEST:
            return self
        try:
            document = self.json()
        except ValueError:
            document = None
        error = document.get("error") if isinstance(document, dict) else None
        if not isinstance(error, dict):
            error = {"message": error if isinstance(error, str) else ""}
        said = error.get("@Message.ExtendedInfo")
        entries = said if isinstance(said, list) else [said]
        error["@Message.ExtendedInfo"] = [entry for entry in entries if isinstance(entry, dict)]
        body = orjson.dumps({"error": _without_secret(secret, error) if secret else error})
        return Response(self.url, self.status_code, self.headers, body)


def _without_secret(secret: str, said: object) -> Any:
    if isinstance(said, str):
        return unicode_text.blanked(said, secret)
    if isinstance(said, dict):
        return {
            key: one if key in _NAMES else _without_secret(secret, one) for key, one in said.items()
        }
    return [_without_secret(secret, one) for one in said] if isinstance(said, list) else said
