"""Deliveries to webhooks: bodies, signatures of Standard Webhooks, and times of retries. Pure.

The signature is that of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over the
delivery's id, the time and the body, under the bytes that the secret encodes.
"""

from __future__ import annotations

import base64
import datetime
import enum
import hashlib
import hmac
import random
import secrets
import urllib.parse
from collections.abc import Sequence
from http import HTTPStatus

import orjson

from ironic_lite.core.json_types import Json, JsonView

MOST = 50
"""Largest number of webhooks."""
MOST_EVENTS = 100
"""Largest number of events in a delivery."""
MOST_BYTES = 256 * 1024
"""Largest size of a delivery of several events."""
MOST_REFUSALS = 10
"""Refusals by the receiver after which a delivery is put aside."""
MOST_FAILURES = 100
"""Deliveries put aside that are kept for each webhook; the oldest are forgotten."""
SUSPENDED_AFTER = 72 * 3600.0
"""Seconds of failures after which a webhook is suspended."""
OLD_SECRET = datetime.timedelta(hours=24)
"""Time in which a replaced secret signs, too."""
LONGEST_URL = 1024
PREFIX = "whsec_"
_SECRET_BYTES = 32
_CHOICE_DIGITS = 8
_DELAYS = (5.0, 60.0, 300.0, 1800.0, 3600.0)
_HOUR = 3600
_JITTER = 0.2
_TEMPORARY = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.GONE, HTTPStatus.TOO_MANY_REQUESTS})


class State(enum.StrEnum):
    """Condition of a webhook."""

    ACTIVE = "active"
    PAUSED = "paused"
    SUSPENDED = "suspended"


def new_secret() -> str:
    """Return a secret for a new webhook."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def replaced(secret: JsonView, now: datetime.datetime) -> Json:
    """Return the stored form of a new secret beside the present one, which signs for a while."""
    until = (now + OLD_SECRET).isoformat()
    return {"current": new_secret(), "old": secret["current"], "old_until": until}


def signing(secret: JsonView, now: datetime.datetime) -> tuple[str, ...]:
    """Return the secrets that sign at this time, the present one first."""
    old, until = secret.get("old"), secret.get("old_until")
    if old and until and now < datetime.datetime.fromisoformat(until):
        return secret["current"], old
    return (secret["current"],)


def signature(secret: str, ident: str, timestamp: int, body: bytes) -> str:
    """Return one signature for the header ``webhook-signature``."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    content = f"{ident}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def headers(used: Sequence[str], ident: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a delivery, with one signature for each secret."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "ironic-lite",
        "Connection": "close",
        "webhook-id": ident,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signature(one, ident, timestamp, body) for one in used),
    }


def portion(lines: Sequence[bytes]) -> int:
    """Return how many of these events fit into one delivery, at least 1."""
    size = count = 0
    for line in lines[:MOST_EVENTS]:
        size += len(line) + 1
        if count and size > MOST_BYTES:
            break
        count += 1
    return count


def delivery_id(webhook: JsonView) -> str:
    """Return the id of the delivery that a webhook has begun, the same in each try.

    It depends on the chosen kinds and nodes as well: a replay with another choice of the same span
    has other events, and must not be dropped as a repetition.
    """
    span = f"evt_{webhook['uuid']}_{webhook['first']}_{webhook['last']}"
    choice = [sorted(webhook[name] or ()) for name in ("kinds", "nodes")]
    if not any(choice):
        return span
    return f"{span}_{hashlib.sha256(orjson.dumps(choice)).hexdigest()[:_CHOICE_DIGITS]}"


def body(since: int, last: int, events: Sequence[JsonView]) -> bytes:
    """Return the body of a delivery; its timestamp is that of the last event."""
    document = {
        "type": "ironic_lite.events",
        "timestamp": events[-1]["at"],
        "data": {"since": str(since), "cursor": str(last), "events": events},
    }
    return orjson.dumps(document, option=orjson.OPT_NAIVE_UTC)


def delay(tries: int, retry_after: str | None = None) -> float:
    """Return the seconds until the next try, a fifth more or less by chance.

    :param tries: failed tries so far, at least 1.
    :param retry_after: the header of the answer; seconds up to an hour are respected.
    """
    # Jitter needs no cryptographic random generator.
    usual = _usual(tries) * random.uniform(1 - _JITTER, 1 + _JITTER)
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return max(usual, min(float(retry_after[:9]), _HOUR))
    return usual


def longest_delay(tries: int, status: int | None) -> datetime.timedelta:
    """Return the longest result of `delay`.

    :param status: of the last answer; None without one, so without a Retry-After.
    """
    longest = _usual(tries) * (1 + _JITTER)
    return datetime.timedelta(seconds=longest if status is None else max(longest, _HOUR))


def _usual(tries: int) -> float:
    return _DELAYS[min(max(tries, 1), len(_DELAYS)) - 1]


def refuses(status: int | None) -> bool:
    """Return whether a status refuses this delivery, so that others may be accepted."""
    if status is None or status in _TEMPORARY:
        return False
    return HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR


def url_fault(url: str, *, allow_http: bool) -> str | None:
    """Return the reason why a URL cannot be that of a webhook, None if it can."""
    if not url.isascii() or not url.isprintable() or " " in url or len(url) > LONGEST_URL:
        return f"it must be at most {LONGEST_URL} printable characters of ASCII without spaces"
    try:
        where = urllib.parse.urlsplit(url)
        port = where.port
    except ValueError:
        return "it is not a URL"
    if where.scheme != "https" and not (allow_http and where.scheme == "http"):
        return "it must begin with https://; [webhooks]allow_http accepts http:// as well"
    if not where.hostname or port == 0:
        return "it must name a host, and a port from 1 to 65535 if any"
    if "@" in where.netloc:
        return "it must not contain a user or password; the signature proves the sender"
    return "it must not have a fragment" if "#" in url else None
