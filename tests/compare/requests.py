"""The requests that are compared, made from the table of routes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from ironic_lite.api.http.expose import Route
from ironic_lite.api.resources import queries
from ironic_lite.domain import versions
from tests.compare import contents
from tests.compare.services import Answer, Compared
from tests.support import whole_api

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
OWN = (
    *(
        "/attention",
        "/openapi",
        "/batches",
        "/doctor",
        "/erasures",
        "/holds",
        "/imports",
        "/runs",
        "/search",
        "/stats",
    ),
    *("/webhooks", "/whoami", "/nodes/{ident}/cleaning", "/data_state", "/plan", "/why"),
    *("counters", "{indicator}"),
)
"""Parts of routes that Ironic has not."""
LEGACY: tuple[tuple[str, str], ...] = (
    ("GET", "/nodes/states/{ident}"),
    ("GET", "/nodes/states?node_ident={ident}"),
    ("GET", "/nodes/states/console/{ident}"),
    ("GET", "/nodes/states/console?node_ident={ident}"),
    ("GET", "/nodes/management/boot_device/{ident}"),
    ("GET", "/nodes/management/boot_device?node_ident={ident}"),
    ("PUT", "/nodes/maintenance/{ident}"),
    ("PUT", "/nodes/maintenance?node_ident={ident}"),
    ("DELETE", "/nodes/maintenance/{ident}"),
    ("GET", "/nodes/validate?node={ident}"),
    ("GET", "/nodes/validate?node_uuid={ident}"),
    ("PUT", "/nodes/{ident}/states/target_raid_config"),
    ("POST", "/heartbeat"),
)
ROLES = (None, "norole", "reader", "owner-reader", "owner-member", "member")
"""The callers beside ``admin``, who sends most requests."""
_COMPLETE = {
    # routes that always lack an argument, with it
    "/heartbeat": "/heartbeat/{ident}",
    "/nodes/validate": "/nodes/validate?node={ident}",
    "/nodes/{ident}/vendor_passthru": "/nodes/{ident}/vendor_passthru?method=first_method",
    "/drivers/{name}/vendor_passthru": "/drivers/{name}/vendor_passthru?method=first_method",
    **{
        path: f"{path}?node_ident={{ident}}"
        for path in (
            *("/nodes/maintenance", "/nodes/management/boot_device"),
            *("/nodes/states", "/nodes/states/console"),
        )
    },
}
_LISTS: dict[str, queries.Resource] = {
    "/nodes": queries.NODES,
    "/nodes/detail": queries.NODES,
    "/ports": queries.PORTS,
    "/portgroups": queries.PORTGROUPS,
    "/volume/connectors": queries.VOLUME_CONNECTORS,
    "/volume/targets": queries.VOLUME_TARGETS,
    "/chassis": queries.CHASSIS,
    "/deploy_templates": queries.DEPLOY_TEMPLATES,
    "/allocations": queries.ALLOCATIONS,
    "/runbooks": queries.RUNBOOKS,
    "/inspection_rules": queries.INSPECTION_RULES,
    "/conductors": queries.CONDUCTORS,
    "/nodes/{ident}/history": queries.HISTORY,
}
_PAGING = (
    *("limit=1", "limit=-1", "limit=x", f"marker={contents.ABSENT}", "marker=malformed:uuid"),
    *("sort_key=uuid", "sort_key=extra", "sort_key=nothing", "sort_dir=desc", "sort_dir=x"),
    *("fields=uuid", "fields=nothing", "detail=true", "detail=x", "detail=true&fields=uuid"),
    *("unknown=1", "limit=1&sort_key=created_at"),
)
_VALUES = (contents.ABSENT, "true", "x", "a%20b", "")
_BROKEN = (b"{", b'"text"', b"[5]", b"null", b"{}", b'{"unknown": 1}', b"")


@dataclasses.dataclass(frozen=True)
class Case:
    """One request, and the place of it in the report."""

    method: str
    route: str
    path: str
    version: int
    body: bytes | None
    role: str | None

    def __str__(self) -> str:
        body = "" if self.body is None else f" {self.body.decode()[:60]}"
        return f"1.{self.version} {self.role} {self.method} {self.path}{body}"


def cases() -> list[Case]:
    """Return all requests, each once, in the order of routes."""
    return list(dict.fromkeys(_all()))


def put(case: Case, service: Compared) -> Answer:
    """Send a request, and restore the service if the request may have changed it."""
    version = f"1.{case.version}"
    answer = service.ask(case.method, case.path, case.body, version=version, token=case.role)
    refused = HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
    if case.method != "GET" and not refused:
        service.set_back()
    return answer


def with_good_parts(case: Case) -> Iterator[Case]:
    """Return the request with one to three good parts in place of its own, the fewest first."""
    route = _COMPLETE.get(case.route, case.route)
    own, good = (_parts(path) for path in (case.path, next(_places(route))))
    own |= {"role": case.role, "version": case.version, "body": case.body}
    good |= {"role": "admin", "version": versions.LAST}
    name = own["query"].partition("=")[0]
    queries = (good["query"], *(f"{name}={value}" for value in ("true", "1", "uuid", "asc", "OK")))
    bodies = (next(_bodies(case.method, route, known=True)), None)
    for good["body"], good["query"] in itertools.product(bodies, queries if name else queries[:1]):
        for count in (1, 2, 3):
            for names in itertools.combinations(good, count):
                parts = own | {name: good[name] for name in names}
                path = parts.pop("place") + parts.pop("query")
                yield dataclasses.replace(case, path=path, **parts)


def _parts(path: str) -> dict[str, Any]:
    place, mark, query = path.partition("?")
    return {"place": place, "query": mark + query}


def some(found: list[Case], most: int, seed: int) -> list[Case]:
    """Return at most so many of the requests, in their order; the seed chooses them."""
    if len(found) <= most:
        return found
    chosen = set(random.Random(seed).sample(range(len(found)), most))
    return [case for number, case in enumerate(found) if number in chosen]


def _all() -> Iterator[Case]:
    routes = [route for each in whole_api.CONTROLLERS for route, _ in each.exposed()]
    routes = [route for route in routes if not any(part in route.path for part in OWN)]
    floors: dict[str, set[int]] = {}
    for route in routes:
        floors.setdefault(route.path, set()).add(route.since)
    for path, since in sorted(one for one in floors.items() if len(one[0]) > 1):
        around = sorted(_around(since))
        for method in METHODS:
            mine = [route for route in routes if (route.path, route.method) == (path, method)]
            yield from _of_route(method, path, mine, around)
    for method, path in LEGACY:
        yield from _of_route(method, path, [], [1, 4, 5, 22, versions.LAST])


def _around(floors: set[int]) -> set[int]:
    near = {1, 4, 5, *floors, *(floor - 1 for floor in floors), versions.LAST}
    return {version for version in near if versions.FIRST <= version <= versions.LAST}


def _of_route(method: str, path: str, mine: list[Route], around: list[int]) -> Iterator[Case]:
    places = list(_places(path))
    bodies = list(_bodies(method, path, known=bool(mine)))
    for place, version in itertools.product(places, around):
        for body in bodies if version == around[-1] else bodies[:3]:
            yield Case(method, path, place, version, body, "admin")
    newest = around[-1]
    for place, role in itertools.product(places, ROLES):
        for body in bodies[:4]:
            yield Case(method, path, place, newest, body, role)
    if method == "GET":
        for query, version, role in itertools.product(
            _queries(path), around, ("admin", "owner-reader")
        ):
            yield Case(method, path, f"{places[0]}?{query}", version, None, role)


def _places(path: str) -> Iterator[str]:
    """Give the path with words in place of ``{...}``."""
    parts = path.split("/")[1:]
    first = "/".join(parts[:2]) if parts[0] == "volume" else parts[0]
    idents = (*contents.IDENTS.get(first, ()), *contents.NOT_THERE, *contents.MALFORMED)
    names = [part for part in parts if part.startswith("{")]
    names = names or (["{ident}"] if "{ident}" in path else [])
    choices = [contents.WORDS.get(name.strip("{}"), idents) for name in names]
    if not names:
        yield f"/v1{path}"
        return
    heads, *tails = choices
    for head in heads:
        yield "/v1" + _put(path, names, [head, *(tail[0] for tail in tails)])
    for number, tail in enumerate(tails, 1):
        for word in tail[1:]:
            words = [heads[0], *(one[0] for one in tails)]
            words[number] = word
            yield "/v1" + _put(path, names, words)


def _put(path: str, names: list[str], words: list[str]) -> str:
    for name, word in zip(names, words, strict=True):
        path = path.replace(name, word)
    return path


def _bodies(method: str, path: str, *, known: bool) -> Iterator[bytes | None]:
    if method in {"GET", "DELETE"}:
        yield None
        return
    good: tuple[Any, ...] = contents.BODIES.get(f"{method} {path}", ())
    if method == "PATCH" and known:
        good = contents.PATCHES
    if not good:
        yield b"{}"
    for number, body in enumerate(good):
        yield json.dumps(body).encode()
        if number == 0:
            yield None
            yield b"[]"
    yield from _BROKEN
    if good and isinstance(good[0], dict):
        for key in good[0]:
            rest = {name: value for name, value in good[0].items() if name != key}
            yield json.dumps(rest).encode()
            for wrong in (5, [5], {"a": 5}, None, "", "x" * 300):
                yield json.dumps({**good[0], key: wrong}).encode()
        yield json.dumps({**good[0], "unknown": 1}).encode()


def _queries(path: str) -> Iterator[str]:
    yield "unknown=1"
    yield "fields=uuid"
    yield "fields=nothing"
    resource = _LISTS.get(path)
    if resource is None:
        return
    yield from _PAGING
    for each in resource.filters:
        for value in _VALUES:
            yield f"{each.name}={value}"
