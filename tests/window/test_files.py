"""The files of the window: addresses, headers, size, facts, vendored modules."""

from __future__ import annotations

import gzip
import hashlib
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import middleware
from ironic_lite.api.http import request
from ironic_lite.core import config
from ironic_lite.domain import states, verbs, versions
from ironic_lite.domain.states import State
from ironic_lite.features.window import api
from scripts import window
from tests.support import wsgi_client

PAGE = pathlib.Path(api.__file__).parent / "page"
MODULES = window.MODULES
BUDGET = 60 * 1024
"""Bytes of all files, gzipped."""
SCRIPT_LINES = 400


class NoRoutes:
    """Stands for the API behind the window, which must not be asked."""

    def admit(self, environ: request.Environ) -> int:
        raise AssertionError(environ["PATH_INFO"])

    def __call__(
        self, environ: request.Environ, start_response: request.StartResponse
    ) -> Iterable[bytes]:
        raise AssertionError(environ["PATH_INFO"])


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    own = cfg.ConfigOpts()
    config.register(own)
    own([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    yield own
    own.clear()


@pytest.fixture
def send(conf: cfg.ConfigOpts) -> Callable[..., wsgi_client.Response]:
    """Send one request to an API that has nothing but the window."""
    app = middleware.RequestMiddleware(NoRoutes(), conf, request.anonymous, api.table(conf))

    def sent(path: str, method: str = "GET", **headers: str) -> wsgi_client.Response:
        environ = wsgi_client.environment(method, path, b"")
        environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        seen: dict[str, Any] = {}

        def start(status: str, pairs: list[tuple[str, str]], _info: Any = None) -> None:
            shown = {name.lower(): value for name, value in pairs}
            assert len(shown) == len(pairs)
            seen.update(status=int(status[:3]), headers=shown)

        body = b"".join(app(environ, start))
        return wsgi_client.Response(seen["status"], seen["headers"], body)

    return sent


def linked(document: str) -> set[str]:
    return set(re.findall(r'(?:href|src)="(a/[^"]+)"', document))


def test_ui_leads_to_the_document_by_a_relative_address(send: Any) -> None:
    answer = send("/ui")
    assert (answer.status, answer.headers["location"]) == (308, "ui/")


def test_document_names_every_script_and_style_and_all_are_served(send: Any) -> None:
    document = send("/ui/").body.decode()
    named = linked(document)
    folder = f"a/{api.load().hash}/"
    vendored = {f"vendor/{path.name}" for path in PAGE.glob("vendor/*.js")}
    assert named == {folder + name for name in ("main.js", "style.css", "icon.svg", *vendored)}
    for path in named:
        answer = send(f"/ui/{path}")
        assert (answer.status, bool(answer.body)) == (200, True), path


def test_relative_imports_of_modules_name_files_that_exist(send: Any) -> None:
    folders = (MODULES, PAGE)
    known = {path.relative_to(folder) for folder in folders for path in folder.rglob("*.js")}
    assert {pathlib.Path("main.js"), pathlib.Path("vendor/preact.js")} <= known
    for folder in folders:
        for path in folder.rglob("*.js"):
            for name in re.findall(r'(?:from|import)\s*"([^"]+)"', path.read_text()):
                assert name.startswith("."), (path, name)
                target = (path.parent / name).resolve().relative_to(folder)
                assert target in {*known, pathlib.Path("facts.js")}, (path, name)


def test_document_is_revalidated_and_files_are_kept(send: Any) -> None:
    answer = send("/ui/")
    assert answer.headers["cache-control"] == "no-cache"
    again = send("/ui/", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert "content-length" not in again.headers
    assert send("/ui/", if_none_match='"other"').status == 200
    kept = send(f"/ui/a/{api.load().hash}/main.js")
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip, br", True),
        ("br;q=1, GZIP; q=0.5", True),
        ("*", True),
        ("", False),
        ("gzip;q=0", False),
        ("br", False),
    ],
)
def test_gzip_is_sent_where_it_is_accepted(send: Any, accepted: str, packed: bool) -> None:
    path = f"/ui/a/{api.load().hash}/vendor/preact.js"
    raw, answer = send(path).body, send(path, accept_encoding=accepted)
    assert (answer.headers.get("content-encoding") == "gzip") is packed
    assert (gzip.decompress(answer.body) if packed else answer.body) == raw
    assert answer.headers["vary"] == "Accept-Encoding"
    assert int(answer.headers["content-length"]) == len(answer.body)


def test_head_is_get_without_the_body(send: Any) -> None:
    got, head = send("/ui/"), send("/ui/", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


def test_every_file_has_the_security_headers(send: Any) -> None:
    for path in api.load().answers:
        headers = send(path).headers
        for name, value in api.HEADERS:
            assert headers[name.lower()] == value, path
    policy = dict(api.HEADERS)["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self';")


def test_document_has_no_inline_script_style_or_foreign_address() -> None:
    document = (PAGE / "index.html").read_text()
    assert "<style" not in document
    assert not re.search(r"<script(?![^>]* src=)", document)
    assert not re.search(r'\s(?:on\w+|style)="', document)
    assert not re.search(r'(?:href|src)="(?:[a-z]+:|//|/)', document)


def test_window_needs_no_login(conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_window", True, "api")
    assert not any(answer.guarded for answer in api.table(conf).values())


def test_window_can_be_turned_off(conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_window", False, "api")
    assert api.table(conf) == {}


def test_all_files_fit_the_budget() -> None:
    sizes = {
        name: len(gzip.compress(data, 9, mtime=0))
        for name, data in api.contents()
        if not name.endswith("LICENSES")  # no page loads it
    }
    assert sum(sizes.values()) <= BUDGET, sizes


def test_own_scripts_are_short_and_use_no_unsafe_sink() -> None:
    own = list(MODULES.rglob("*.js"))
    assert own
    for path in own:
        text = path.read_text()
        assert len(text.splitlines()) <= SCRIPT_LINES, path
        found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|srcdoc|\beval\(|<\$\{", text)
        assert found == [], path


def test_vendored_files_are_those_that_vendor_json_pins() -> None:
    folder = PAGE / "vendor"
    pins = json.loads((folder / "vendor.json").read_text())
    assert {pin["file"] for pin in pins} == {path.name for path in folder.glob("*.js")}
    licences = (folder / "LICENSES").read_text()
    for pin in pins:
        digest = hashlib.sha512((folder / pin["file"]).read_bytes()).hexdigest()
        assert digest == pin["sha512"], pin["file"]
        assert f"{pin['file']}: {pin['package']} {pin['version']}, {pin['licence']}" in licences


def test_built_files_are_those_of_the_page() -> None:
    """`make static` builds them again where npm is installed."""
    assert window.SOURCES.read_text().strip() == window.sources_hash(), "run `make window`"


def table_of_facts() -> dict[str, Any]:
    text = window.facts_module()
    rows = re.findall(r"^export const (\w+) = (.*);$", text, re.MULTILINE)
    return {name: json.loads(value) for name, value in rows}


def test_facts_have_every_state_verb_and_the_newest_version() -> None:
    found = table_of_facts()
    assert found["VERSION"] == f"1.{versions.LAST}"
    kinds = found["STATES"]
    assert kinds == {str(state): states.kind(state).value for state in State}
    starts = {verb["target"]: set(verb["from"]) for verb in found["VERBS"]}
    assert set(starts) == set(verbs.BY_TARGET)
    assert starts["provide"] >= {"manageable", "clean failed"}
    erasing = {verb["target"] for verb in found["VERBS"] if verb.get("erases")}
    assert erasing > {"clean", "provide", "active", "deleted", "retry"}
    assert not erasing & {"manage", "inspect", "abort", "rescue"}
