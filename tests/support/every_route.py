"""Requests for every route: with a valid body, with an invalid body, and with no JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tests.support import whole_api

Request = tuple[str, str, bytes]
"""Method, path and body."""

BODIES: tuple[Any, ...] = (
    {},
    [],
    {"target": "power on", "extra": {"a": ["b", {"c": 1}]}, "name": "n", "driver": "fake-hardware"},
    [{"op": "add", "path": "/extra/a", "value": {"b": [1, 2, {}]}}],
    {"traits": ["CUSTOM_A"], "steps": [], "nodes": [], "address": "52:54:00:00:00:99"},
)
BROKEN = b'{"a": [{"b": '


def requests(words: Mapping[str, str]) -> Iterator[Request]:
    """Give some requests of each route.

    :param words: what stands for ``{...}`` in a path, by its name; others are a name nobody has.
    """
    for controller in whole_api.CONTROLLERS:
        for route, _ in controller.exposed():
            known = re.sub(r"{(\w+)}", lambda m: words.get(m[1], "nobody"), route.path)
            absent = re.sub(r"{\w+}", "absent", route.path)
            bodies = [orjson.dumps(body) for body in BODIES] if route.receives else [b""]
            for body in [*bodies, BROKEN] if route.receives else bodies:
                yield route.method, f"/v1{known}", body
            yield route.method, f"/v1{absent}?nonsense=1", bodies[0]
