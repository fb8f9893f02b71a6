"""The files of the window: addresses, headers, size, facts, vendored modules."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import middleware
from ironic_lite.api.window import facts, files, scripts
from ironic_lite.api.wire import request
from ironic_lite.core import config
from ironic_lite.domain import states, verbs, versions
from ironic_lite.domain.states import State
from tests.support import wsgi_client

PAGE = pathlib.Path(files.__file__).parent / "page"
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
    app = middleware.RequestMiddleware(NoRoutes(), conf, request.anonymous, files.table(conf))

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
    folder = f"a/{files.window().hash}/"
    vendored = {f"vendor/{path.name}" for path in PAGE.glob("vendor/*.js")}
    assert named == {folder + name for name in ("main.js", "style.css", "icon.svg", *vendored)}
    for path in named:
        answer = send(f"/ui/{path}")
        assert (answer.status, bool(answer.body)) == (200, True), path


def test_relative_imports_of_modules_name_files_that_exist(send: Any) -> None:
    for path in PAGE.rglob("*.js"):
        for name in re.findall(r'(?:from|import)\s*"([^"]+)"', path.read_text()):
            assert name.startswith("."), (path, name)
            target = (path.parent / name).resolve()
            assert target.is_file() or target == PAGE / "facts.js", (path, name)


def test_document_is_revalidated_and_files_are_kept(send: Any) -> None:
    answer = send("/ui/")
    assert answer.headers["cache-control"] == "no-cache"
    again = send("/ui/", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert "content-length" not in again.headers
    assert send("/ui/", if_none_match='"other"').status == 200
    kept = send(f"/ui/a/{files.window().hash}/main.js")
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
    path = f"/ui/a/{files.window().hash}/vendor/preact.js"
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
    for path in files.window().answers:
        headers = send(path).headers
        for name, value in files.HEADERS:
            assert headers[name.lower()] == value, path
    policy = dict(files.HEADERS)["Content-Security-Policy"]
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
    assert not any(answer.guarded for answer in files.table(conf).values())


def test_window_can_be_turned_off(conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_window", False, "api")
    assert files.table(conf) == {}


def test_all_files_fit_the_budget() -> None:
    sizes = {
        name: len(files.packed(data))
        for name, data in files.contents()
        if not name.endswith("LICENSES")  # no page loads it
    }
    assert sum(sizes.values()) <= BUDGET, sizes


def test_own_scripts_are_short_and_use_no_unsafe_sink() -> None:
    own = [path for path in PAGE.rglob("*.js") if path.parent.name != "vendor"]
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


def test_modules_are_joined_in_the_order_of_their_imports() -> None:
    page = {
        "main.js": 'import { twice } from "./parts/sum.js";\ntwice(2);\n',
        "parts/sum.js": 'import { h } from "../vendor/preact.js";\n\nexport const twice = h;\n',
    }
    assert scripts.joined(page) == (
        'import { h } from "./vendor/preact.js";\n\nconst twice = h;\n\ntwice(2);\n'
    )


def test_numbers_with_a_name_stand_where_they_are_used() -> None:
    page = {
        "a.js": 'export const HOURS_MS = 8 * 3_600 * 1000;\nconst NAME = "HOURS";\n',
        "b.js": 'import { HOURS_MS } from "./a.js";\n\nwait(HOURS_MS, NO_HOURS_MS);\n',
    }
    assert scripts.joined(page) == 'const NAME = "HOURS";\n\n\nwait(28800000, NO_HOURS_MS);\n'


@pytest.mark.parametrize(
    "page",
    [
        {"a.js": 'import { b } from "./b.js";\n', "b.js": 'import { a } from "./a.js";\n'},
        {"a.js": "const one = 1;\n", "b.js": "function one() {}\n"},
        {"a.js": 'import * as all from "./b.js";\n', "b.js": "const one = 1;\n"},
        {"a.js": "export default 1;\n"},
        {"a.js": 'import { one as two } from "./b.js";\n', "b.js": "export const one = 1;\n"},
        {"a.js": 'import { two } from "./b.js";\n', "b.js": "export const one = 1;\n"},
    ],
    ids=["cycle", "same name", "namespace", "default", "renamed", "not exported"],
)
def test_modules_that_break_a_rule_of_joining_are_refused(page: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        scripts.joined(page)


@pytest.mark.parametrize(
    ("text", "squeezed"),
    [
        ("const a = { b: 1, c };\nif (a) go(1, 2);\n", "let a={b:1,c};if(a)go(1,2);"),
        ("let a = b\nc(d)\n", "let a=b\nc(d)\n"),
        ("f({\na: [\n1,\n],\n},\n);\n", "f({a:[1]});"),
        ('html`<a\nb=${c}\nd-e="f,\n]">`', 'html`<a b=${c} d-e="f,\n]">`'),
        ("f(() => {\ng();\n});\n", "f(()=>{g()});"),
        ("const a = ' b  { c';\n", "let a=' b  { c';"),
        ('const a = "it\'s \\" = ";\n', 'let a="it\'s \\" = ";'),
        ("const a = `b = ${ c + ` { ${d} ` } = \n e`;\n", "let a=`b = ${c+` { ${d} `} = \n e`;"),
        ("html`\n<a\nb>c\nd ${e}\n</a>\n`", "html`<a\nb>c\nd ${e}</>`"),
        ("html`<a b=${c}\n/>\n${d}\n${e}`", "html`<a b=${c}/>${d}${e}`"),
        ('html`<a b="c" d="#/e/" f="g h" i="">j`', 'html`<a b=c d="#/e/" f="g h" i="">j`'),
        ("if (a) {\nb();\n}\nc();\n", "if(a){b()}c();"),
        ("let a = b;\nlet { c } = d;\nlet e;\nf();\nlet g;\n", "let a=b,{c}=d,e;f();let g;"),
        ("let a = b\nc();\nlet d;\n", "let a=b\nc();let d;"),
        ("let a = () => {\nb();\n};\nlet c;\n", "let a=()=>{b()},c;"),
        ("function a() {\nlet b;\n}\nlet c;\n", "function a(){let b}let c;"),
        ("let a = f((null), (b.c).d);\n", "let a=f(null,b.c.d);"),
        ("a(b)(c)(d, (e) => (f), (5).g);\n", "a(b)(c)(d,e=>(f),(5).g);"),
        ("if (a) return undefined;\nreturn;\n", "if(a)return;return;"),
        ("let a =\nb =>\nc\n.d('</a>')", "let a=b=>c.d('</a>')"),
        ("a.replace(/ [/ ] '/g, b)", "a.replace(/ [/ ] '/g,b)"),
        ("const a = b / c / d;", "let a=b/c/d;"),
        ("const a = (b) / 2 - c / 'd / e'", "let a=b/2-c/'d / e'"),
        ("return typeof a in b", "return typeof a in b"),
        ("f((a) => async (b) => (c));\n", "f(a=>async(b)=>(c));"),
        ("const a = b\n? c\n: d;\n", "let a=b?c:d;"),
    ],
)
def test_spaces_that_a_script_does_not_need_are_removed(text: str, squeezed: str) -> None:
    assert scripts.squeezed(text) == squeezed
    assert scripts.squeezed(squeezed) == squeezed


@pytest.mark.parametrize("text", ["a + +b", "a - -b", "const a = `b", "const a = 'b\n'"])
def test_script_that_cannot_be_squeezed_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        scripts.squeezed(text)


def table_of_facts() -> dict[str, Any]:
    text = facts.module().decode()
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


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_every_process_serves_the_same_bytes(seed: str) -> None:
    """Sets have another order in each process; a window of two processes must fit together."""
    program = "from ironic_lite.api.window import files; print(files.window().hash)"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert told.strip() == files.window().hash
