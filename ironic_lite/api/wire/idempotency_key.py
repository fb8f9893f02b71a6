"""The header ``Idempotency-Key``: its value, and the fingerprint of a request."""

from __future__ import annotations

import hashlib
import re

import orjson

from ironic_lite import errors

NAME = "Idempotency-Key"
HEADER = "HTTP_IDEMPOTENCY_KEY"
LONGEST = 255
_TEXT = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
"""A string of Structured Fields (RFC 9651, 3.3.3)."""
_TOKEN = re.compile(r"[!#-+\--:<-\[\]-~]*")
"""Visible ASCII without the quote, comma, semicolon and backslash."""
_ESCAPED = re.compile(r'\\(["\\])')


def read(given: str) -> str:
    """Return the key of a header; a quoted key is the same as the bare one.

    :raises errors.InvalidParameter: the header has another form, or occurs twice.
    """
    text = given.strip(" \t")
    quoted = _TEXT.fullmatch(text)
    key = _ESCAPED.sub(r"\1", quoted[1]) if quoted is not None else text
    if quoted is None and not _TOKEN.fullmatch(text):
        reason = (
            "must be one string in double quotes, or one bare word, of printable ASCII; a bare "
            "word has no quote, comma, semicolon, backslash or space"
        )
        raise errors.InvalidParameter(path=NAME, reason=reason)
    if not 1 <= len(key) <= LONGEST:
        reason = f"must have 1 to {LONGEST} characters, not {len(key)}"
        raise errors.InvalidParameter(path=NAME, reason=reason)
    return key


def hashed(*parts: str | None) -> str:
    """Return a hash of texts, for an index."""
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()


def fingerprint(method: str, path: str, query: str, body: bytes) -> str:
    """Return the hash that two requests share if they ask for the same.

    :param path: below ``/v1``.
    :param query: the query string; the order of its arguments does not count.
    """
    arguments = "&".join(sorted(filter(None, query.split("&"))))
    head = orjson.dumps((method, path.encode("utf-8", "backslashreplace").decode(), arguments))
    return hashlib.sha256(head + b"\n" + body).hexdigest()
