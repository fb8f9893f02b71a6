"""Answers of a BMC in the form that sushy reads, with error bodies normalized."""

from __future__ import annotations

import codecs
import datetime
import email.utils
import html
import importlib
import json
import re
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from ironic_lite.core import bounded_http, clock
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
_DIGITS = 9
_READ, _EXCERPT, _ENTRIES = 4096, 400, 10
_TEXT_NAMES: tuple[str, ...] = (
    *("value", "message", "messages", "detail", "details", "description", "reason", "error"),
    *("errors", "fault", "faultstring", "title", "text", "msg", "messageid"),
)
"""Names in lower case of properties with the text of an error, the best first."""
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


def memory(document: JsonView) -> int:
    """Return the bytes of memory that a document takes."""
    found = 0
    left: list[Any] = [document]
    while left:
        one = left.pop()
        found += sys.getsizeof(one)
        if isinstance(one, dict):
            left += one
            left += one.values()
        elif isinstance(one, list):
            left += one
    return found


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
            self._document = _json_value(self.content)
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

    @property
    def retry_after(self) -> float | None:
        """The seconds after which the BMC wants the request again (RFC 9110, 10.2.3), or None.

        A date is compared with the BMC's own clock, which may be wrong, if the answer has its time.
        """
        told = (self.headers.get("Retry-After") or "").strip()
        if told.isascii() and told.isdigit():
            return float(told[:_DIGITS])
        then, now = _moment(told), _moment(self.headers.get("Date"))
        if then is None:
            return None
        now = now or clock.now().replace(tzinfo=datetime.UTC)
        return max(0.0, (then - now).total_seconds())

    def tidied(self, secret: str | None) -> Response:
        """Return an error answer in the form of DSP0266, because sushy breaks on other forms.

        Sushy also logs the message, so a password in it is removed.
        """
        if self.status_code < HTTPStatus.BAD_REQUEST:
            return self
        try:
            error = _error_object(self.json())
        except ValueError:
            error = {"message": _excerpt(self.content)}
        body = orjson.dumps({"error": _without_secret(secret, error) if secret else error})
        return Response(self.url, self.status_code, self.headers, body)


def _moment(told: str | None) -> datetime.datetime | None:
    try:
        found = email.utils.parsedate_to_datetime(told or "")
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _json_value(content: bytes) -> Any:
    """Return the value of a JSON body, also of one with the usual mistakes of BMCs.

    These are bytes that are not UTF-8, NaN, a byte order mark, control characters, lone surrogates,
    and NULs, which databases cannot store.

    :raises bounded_http.TooManyValues, ValueError: see `bounded_http.json_value`.
    """
    try:
        found = bounded_http.json_value(content)
    except bounded_http.TooManyValues:
        raise
    except ValueError:
        text = content.removeprefix(codecs.BOM_UTF8).decode(errors="replace").rstrip("\0 \r\n\t")
        try:
            found = json.loads(text, strict=False, parse_constant=lambda name: None)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return _cleaned(found)
    return _cleaned(found) if b"\\u0000" in content else found


def _cleaned(found: Any) -> Any:
    """Return a value of JSON without lone surrogates and NULs."""
    if isinstance(found, str):
        return found.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(found, dict):
        return {_cleaned(key): _cleaned(one) for key, one in found.items()}
    return [_cleaned(one) for one in found] if isinstance(found, list) else found


def _error_object(document: Any) -> Json:
    """Return the error of an answer as DSP0266 describes it, whatever form it has."""
    error = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(error, dict):
        # Some have a number as the error, and its text beside it.
        beside = document if isinstance(document, dict) and not isinstance(error, str) else {}
        error = {"message": _text_of(error) or _text_of(beside)}
    said = error.get(INFO, document.get(INFO) if isinstance(document, dict) else None)
    listed = said if isinstance(said, list) else [said]
    shown = [_entry(one) for one in listed if isinstance(one, dict | str)]
    found = {name: error[name] for name in ("code", "message") if error.get(name) is not None}
    message = _text_of(found.get("message"))
    if not message and not shown:
        message = _text_of(error)
    code = found.get("code")
    return {
        **({"code": code} if isinstance(code, str) else {}),
        **({"message": message} if message else {}),
        INFO: shown,
    }


def _entry(said: Json | str) -> Json:
    """Return a message entry whose Message is text."""
    if isinstance(said, str):
        return {"Message": said}
    known = {key: one for key, one in said.items() if key != "Message"}
    message = _text_of(said.get("Message"))
    return {**known, "Message": message} if message else known


def _text_of(said: Any) -> str:
    """Return the text of an error in any form: a word, a list, or an object with lang and value."""
    if isinstance(said, str):
        return said.strip()[:_EXCERPT]
    if isinstance(said, list):
        parts = [_text_of(one) for one in said[:_ENTRIES]]
        return " ".join(filter(None, parts))[:_EXCERPT]
    if isinstance(said, dict):
        lower = {str(key).lower(): one for key, one in said.items()}
        for name in _TEXT_NAMES:
            if isinstance(lower.get(name), str | list | dict) and (found := _text_of(lower[name])):
                return found
    return ""


def _excerpt(content: bytes) -> str:
    """Return the begin of a body that is not JSON, without the tags of HTML."""
    text = content[:_READ].decode(errors="replace")
    text = re.sub(r"(?is)<(script|style|head)\b.*?(</\1>|$)", " ", text)
    text = html.unescape(re.sub(r"<[^>]*(>|$)", " ", text))
    text = " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
    return text[:_EXCERPT]


def _without_secret(secret: str, said: object) -> Any:
    if isinstance(said, str):
        return unicode_text.blanked(said, secret)
    if isinstance(said, dict):
        return {
            key: one if key in _NAMES else _without_secret(secret, one) for key, one in said.items()
        }
    return [_without_secret(secret, one) for one in said] if isinstance(said, list) else said
