"""The files of the window: addresses, headers, size, facts, licences."""

from __future__ import annotations

import gzip
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
FIRST_PAGE = 60 * 1024
"""Bytes of all that the first page needs, compressed."""
OTHER_PAGE = 15 * 1024
"""Bytes that another page or a dialog needs beside those of the first page, compressed."""
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
    first = api.modules(dict(api.contents()), "main.js")
    assert named == {folder + name for name in (*first, "style.css", "icon.svg")}
    for path in named:
        answer = send(f"/ui/{path}")
        assert (answer.status, bool(answer.body)) == (200, True), path


def test_imports_of_built_scripts_name_files_that_are_served(send: Any) -> None:
    built = {name: data for name, data in api.contents() if name.endswith(".js")}
    named = {
        other
        for data in built.values()
        for other in re.findall(r'(?:from|import|import\()"\./([^"]+)"', data.decode())
    }
    assert {"main.js", *named} == set(built)
    for name in named:
        assert send(f"/ui/a/{api.load().hash}/{name}").status == 200, name


def test_compressed_forms_have_no_addresses_of_their_own() -> None:
    assert not any(path.endswith((".br", "sources")) for path in api.load().answers)


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate, br", "br"),
        ("br;q=1, GZIP; q=0.5", "br"),
        ("gzip, br;q=0", "gzip"),
        ("gzip", "gzip"),
        ("*", "gzip"),
        ("br", "br"),
        ("", None),
        ("gzip;q=0", None),
    ],
)
def test_smallest_form_that_is_accepted_is_sent(
    send: Any, accepted: str, coding: str | None
) -> None:
    path = f"/ui/a/{api.load().hash}/main.js"
    answer = send(path, accept_encoding=accepted)
    assert answer.headers.get("content-encoding") == coding
    files = dict(api.contents())
    raw = files["main.js"]
    body = gzip.decompress(answer.body) if coding == "gzip" else answer.body
    assert body == (files["main.js.br"] if coding == "br" else raw)
    assert answer.headers["vary"] == "Accept-Encoding"
    assert int(answer.headers["content-length"]) == len(answer.body)


def test_document_has_one_tag_and_no_brotli_form(send: Any) -> None:
    plain, packed = send("/ui/"), send("/ui/", accept_encoding="br, gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["etag"] == plain.headers["etag"]
    assert plain.headers["etag"].startswith("W/")
    assert packed.headers["vary"] == "Accept-Encoding"


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


def test_first_page_and_each_other_part_fit_their_budgets() -> None:
    files = dict(api.contents())

    def size(names: Iterable[str]) -> int:
        return sum(len(files[f"{name}.br"]) for name in names)

    first = api.modules(files, "main.js")
    beside = sum(len(files[name]) for name in ("index.html", "icon.svg"))
    assert size([*first, "style.css"]) + beside <= FIRST_PAGE
    scripts = [data.decode() for name, data in files.items() if name.endswith(".js")]
    late = re.findall(r'import\("\./([^"]+)"\)', "".join(scripts))
    assert {"node.js", "hardware.js", "batches.js", "evidence.js", "lists.js", "plan.js"} <= set(
        late
    )
    sizes = {name: size(set(api.modules(files, name)) - set(first)) for name in set(late)}
    assert max(sizes.values()) <= OTHER_PAGE, sizes


def test_texts_have_one_of_four_sizes() -> None:
    sizes = re.findall(r"font(?:-size)?:\s*(\d+)px", (MODULES / "style.css").read_text())
    assert set(sizes) == {"12", "14", "16", "20"}


def test_own_scripts_are_short_and_use_no_unsafe_sink() -> None:
    own = [
        path
        for kind in ("*.ts", "*.tsx")
        for path in MODULES.rglob(kind)
        if "node_modules" not in path.parts and path != window.DOCUMENTS
    ]
    assert own
    for path in own:
        text = path.read_text()
        assert len(text.splitlines()) <= SCRIPT_LINES, path
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|srcdoc|\beval\(|@ts-(?:ignore|nocheck)", text
        )
        assert found == [], path


def test_licences_of_all_bundled_packages_are_served(send: Any) -> None:
    lock = json.loads(window.LOCK.read_text())
    bundled = {
        path.removeprefix("node_modules/"): facts
        for path, facts in lock["packages"].items()
        if path and not facts.get("dev") and not facts.get("optional")
    }
    assert {"preact", "@preact/signals"} <= set(bundled)
    licences = send(f"/ui/a/{api.load().hash}/LICENSES").body.decode()
    for name, facts in bundled.items():
        assert f"{name} {facts['version']}, {facts['license']}" in licences
    assert licences.count("Permission is hereby granted") == licences.count("The MIT License")


def test_lock_file_pins_every_package_and_names_no_registry() -> None:
    packages = json.loads(window.LOCK.read_text())["packages"]
    for path, facts in packages.items():
        assert "resolved" not in facts, path
        assert not path or facts["integrity"].startswith("sha512-"), path


def test_built_files_are_those_of_the_page() -> None:
    """`make static` builds them again where npm is installed."""
    assert window.SOURCES.read_text().strip() == window.sources_hash(), "run `make window`"


def test_generated_modules_are_those_of_the_api() -> None:
    assert window.FACTS.read_text() == window.facts_module(), "run `make window`"
    assert window.DOCUMENTS.read_text() == window.documents_module(), "run `make window`"


def table_of_facts() -> dict[str, Any]:
    text = window.facts_module()
    rows = re.findall(r"^export const (\w+): .*? = (.*);$", text, re.MULTILINE)
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
