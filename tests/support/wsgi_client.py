"""A WSGI client that calls the API in this process, and checks responses by the OpenAPI document.

The check covers the status and the type of the body.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import sys
from collections.abc import Mapping
from typing import Any

import orjson

from ironic_lite.api import middleware, openapi
from ironic_lite.api.http import request
from tests.support import whole_api

VERSION = "X-OpenStack-Ironic-API-Version"


@dataclasses.dataclass(frozen=True)
class Response:
    """An answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's JSON value."""
        return orjson.loads(self.body)

    @property
    def fault(self) -> dict[str, Any]:
        """The message of an error body, in any of its three forms."""
        value = self.json
        if "error_message" in value:
            return dict(orjson.loads(value["error_message"]))
        return dict(value)

    @property
    def text(self) -> str:
        """The sentence of an error body."""
        said = self.fault
        return str(said.get("faultstring", said.get("description")))


class Client:
    """Calls one WSGI application."""

    def __init__(self, app: middleware.Wsgi, version: str | None = None) -> None:
        self.app = app
        self.version = version

    def at(self, version: int | str) -> Client:
        """Return a client that speaks minor version ``version``."""
        return Client(self.app, f"1.{version}" if isinstance(version, int) else version)

    def request(
        self,
        method: str,
        path: str,
        json: Any = None,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request; ``json`` is sent as such, ``body`` as it is."""
        sent = body if body is not None else b"" if json is None else orjson.dumps(json)
        environ = environment(method, path, sent)
        if body is None and json is not None:
            environ["CONTENT_TYPE"] = "application/json"
        shown = {VERSION: self.version, **(headers or {})}
        for name, value in shown.items():
            key = name.upper().replace("-", "_")
            plain = key in {"CONTENT_TYPE", "CONTENT_LENGTH"}
            if value is not None:
                environ[key if plain else f"HTTP_{key}"] = value
        return call(self.app, environ)

    def get(self, path: str, **more: Any) -> Response:
        """Send a GET."""
        return self.request("GET", path, **more)

    def post(self, path: str, json: Any = None, **more: Any) -> Response:
        """Send a POST."""
        return self.request("POST", path, json, **more)

    def put(self, path: str, json: Any = None, **more: Any) -> Response:
        """Send a PUT."""
        return self.request("PUT", path, json, **more)

    def patch(self, path: str, json: Any = None, **more: Any) -> Response:
        """Send a PATCH."""
        return self.request("PATCH", path, json, **more)

    def delete(self, path: str, **more: Any) -> Response:
        """Send a DELETE."""
        return self.request("DELETE", path, **more)


def environment(method: str, path: str, body: bytes = b"") -> dict[str, Any]:
    """Return the WSGI environment of a request; ``path`` may have a query string."""
    place, _, query = path.partition("?")
    return {
        "REQUEST_METHOD": method,
        "PATH_INFO": place,
        "QUERY_STRING": query,
        "SCRIPT_NAME": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "6385",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost:6385",
        "CONTENT_LENGTH": str(len(body)) if body else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }


def call(app: middleware.Wsgi, environ: dict[str, Any]) -> Response:
    """Run one WSGI call to its end."""
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _info: Any = None) -> None:
        started.append((status, headers))

    body = b"".join(app(environ, start_response))
    (status, headers), *again = started
    assert not again, "start_response was called twice"
    names = [name.lower() for name, _ in headers]
    assert len(names) == len(set(names)), f"a header twice: {names}"
    told = dict(zip(names, (v for _, v in headers), strict=True))
    answer = Response(int(status.split()[0]), told, body)
    if request.CALL in environ:
        _check_documented(environ["REQUEST_METHOD"], environ[request.CALL].route, answer)
    return answer


@functools.cache
def _documented() -> dict[tuple[str, str], dict[str, set[str]]]:
    """Return, by method and route as calls have it, each status with the types of its bodies."""
    document = openapi.document(whole_api.ROWS, *whole_api.ANSWERS)
    paths = document["paths"]
    shared = document["components"]["responses"]
    found: dict[tuple[str, str], dict[str, set[str]]] = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            # The document / is the route "", which is counted as /.
            key = (method.upper(), path.removeprefix("/v1") or "/")
            known = found.setdefault(key, {})
            for status, one in operation["responses"].items():
                name = one.get("$ref", "").rpartition("/")[2]
                told = shared[name] if name else one
                known[status] = {*told.get("content", ()), *told.get("x-preferred-content", ())}
    return found


def _check_documented(method: str, route: str, answer: Response) -> None:
    known = _documented().get((method, route))
    if known is None:  # before it is routed, or a probe
        return
    assert str(answer.status) in known, f"{method} {route}: {answer.status} is not documented"
    if answer.body:
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in known[str(answer.status)], f"{method} {route}: {answer.status} as {kind}"


def op(kind: str, path: str, *value: Any) -> dict[str, Any]:
    """Return an operation of a JSON PATCH."""
    return {"op": kind, "path": path, **({"value": value[0]} if value else {})}
