"""A client of the API: JSON over HTTP, with retries while the service starts."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any

_TIMEOUT = 30.0
"""Time limit of a request in seconds."""
_PAUSE = 0.1
_AWAY = {http.client.SERVICE_UNAVAILABLE}


class ApiError(Exception):
    """A request was refused or not answered; the text is the API's reason."""


class Client:
    """The API at one address.

    :param patience: seconds of retries while the API or its conductor is missing.
    """

    def __init__(self, url: str, patience: float = _TIMEOUT) -> None:
        self.url = url
        self._patience = patience
        # A proxy would not reach this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str) -> Any:
        """Return the body of an answer."""
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and return the body of its answer, None if empty.

        :raises ApiError: the request was refused, or had no answer in time.
        """
        end = time.monotonic() + self._patience
        while True:
            try:
                return self._send_once(method, path, body)
            except urllib.error.HTTPError as answer:
                refusal = ApiError(f"{method} {path}: {answer.code} {_error_reason(answer.read())}")
                if answer.code not in _AWAY:
                    raise refusal from None
            except OSError as why:
                refusal = ApiError(f"{method} {path}: no answer: {why}")
            if time.monotonic() > end:
                raise refusal
            time.sleep(_PAUSE)

    def _send_once(self, method: str, path: str, body: object) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with self._opener.open(request, timeout=_TIMEOUT) as answer:
            said = answer.read()
        return json.loads(said) if said else None


def _error_reason(body: bytes) -> str:
    """Return the message in Ironic's error body."""
    try:
        inner = json.loads(json.loads(body)["error_message"])
        return str(inner["faultstring"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")
