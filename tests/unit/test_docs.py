"""The documentation is whole: links lead somewhere, options exist, generated parts are fresh."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from keystonemiddleware import opts as auth_token_options

from ironic_lite.api.health import exposition
from ironic_lite.core import metrics, options
from ironic_lite.db.tables import models
from ironic_lite.domain import states, verbs

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
SAMPLE = ROOT / "etc/ironic-lite/ironic-lite.conf.sample"
PAGES = sorted(DOCS.glob("*.rst"))
OTHERS = (
    *("README", "CONTRIBUTING", "CHANGELOG"),
    *("benchmarks/README", "tests/README", "tests/recorded/README"),
)
EVERY_PAGE = [*PAGES, *(ROOT / f"{name}.rst" for name in OTHERS)]

_LINK = re.compile(r"`[^`<]+\s+<(?P<to>[^`>]+)>`__?", re.DOTALL)
_ROLE = re.compile(r":(?P<role>[a-z]+):`[^`]*`")
_OPTION = re.compile(r"\[(?P<group>[a-zA-Z_]+)\](?P<name>[a-z][a-z0-9_]*)")
_DEVELOPERS = ("architecture", "flow", "glossary")
_MODULE = re.compile(
    r"``(?P<path>(?:api|conductor|core|db|domain|drivers|endpoints|errors|flows|images|membership"
    r"|rpc|steps|tests|watch|work)/[a-z_/]+(?:\.py)?)``"
)
_TITLE = re.compile(r"^(?P<title>\S.*)\n(?P<line>([=\-~^])\3+)$", re.MULTILINE)


def known_options() -> set[tuple[str, str]]:
    """Return (group, name) of all options: ours, old names, the sample's, keystonemiddleware's."""
    known = {("DEFAULT", str(opt.dest)) for opt in options.LIBRARY} | set(options.REFUSED)
    for login, opts in auth_token_options.list_auth_token_opts():
        known |= {(login, str(opt.dest)) for opt in opts}
    for group, opts in options.GROUPS.items():
        for opt in opts:
            known |= {(group, name) for name in (opt.dest, *old_names(opt))}
            known |= {
                (str(old.group or group), old.name or opt.dest) for old in opt.deprecated_opts
            }
    for section in re.split(r"^\[", SAMPLE.read_text(), flags=re.MULTILINE)[1:]:
        group, _, text = section.partition("]")
        known |= {(group, name) for name in re.findall(r"^#?([a-z]\w*) =", text, re.MULTILINE)}
    return known


def old_names(opt: Any) -> list[str]:
    return [old.name for old in opt.deprecated_opts if old.name]


def titles(page: pathlib.Path) -> list[tuple[str, str]]:
    return [(found["title"], found["line"]) for found in _TITLE.finditer(page.read_text())]


def anchors(page: pathlib.Path) -> set[str]:
    """Return the fragments of a page's sections, as docutils and GitHub make them."""
    return {re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") for title, _ in titles(page)}


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page: pathlib.Path) -> None:
    for found in _LINK.finditer(page.read_text()):
        path, _, anchor = re.sub(r"\s", "", found["to"]).partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), found["to"]
        assert ROOT in target.parents, found["to"]
        assert not anchor or anchor in anchors(target), found["to"]


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_pages_are_plain_rst_that_any_viewer_shows(page: pathlib.Path) -> None:
    assert [found[0] for found in _ROLE.finditer(page.read_text())] == []


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_every_option_that_is_named_exists(page: pathlib.Path) -> None:
    named = {(found["group"], found["name"]) for found in _OPTION.finditer(page.read_text())}
    # Groups of packaging, as in "ironic_lite[postgresql]", stand before no option.
    assert named - known_options() == set()


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_a_title_is_underlined_in_its_full_length(page: pathlib.Path) -> None:
    assert [title for title, line in titles(page) if len(line) < len(title)] == []


def test_the_index_leads_to_every_page() -> None:
    index = DOCS / "index.rst"
    linked = {found["to"] for found in _LINK.finditer(index.read_text())}
    assert {page.name for page in PAGES} - {index.name} <= linked


def test_generated_parts_are_those_of_the_tables() -> None:
    command = [sys.executable, str(DOCS / "generate.py"), "--check"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_page_on_operating_lists_every_metric() -> None:
    page = (DOCS / "operating.rst").read_text()
    names = {*metrics.FAMILIES, *metrics.GAUGES, *exposition.FLEET}
    assert [name for name in sorted(names) if f"``{name}``" not in page] == []


def test_the_page_on_the_database_lists_every_table() -> None:
    page = (DOCS / "database.rst").read_text()
    assert [name for name in models.metadata.tables if f"``{name}``" not in page] == []


def test_the_page_on_configuration_lists_every_group() -> None:
    page = (DOCS / "configuration.rst").read_text()
    assert [name for name in options.GROUPS if f"``[{name}]``" not in page] == []


def test_contributing_draws_the_layers_of_the_import_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [re.findall(r"\w+", layer) for layer in contract["contracts"][0]["layers"]]
    page = (ROOT / "CONTRIBUTING.rst").read_text()
    drawing = re.search(r"::\n\n((?:    .*\n)+)", page)
    assert drawing
    assert [line[4:33].split() for line in drawing[1].splitlines()] == layers


def test_the_page_of_the_state_machine_has_every_state_and_every_verb() -> None:
    page = (DOCS / "states.rst").read_text()
    words = [*map(str, states.State), *(verb.target for verb in verbs.TABLE)]
    assert [word for word in words if f"``{word}``" not in page] == []


def test_the_diagram_has_every_transition() -> None:
    drawn = {
        (source, after, event)
        for source, after, events in re.findall(
            r'"([^"]+)" -> "([^"]+)" \[label="([^"]+)"', (DOCS / "states.dot").read_text()
        )
        for event in events.split(", ")
    }
    table = {
        (str(source), str(row.to), row.event) for row in states.TABLE for source in row.sources
    }
    assert drawn == table


@pytest.mark.parametrize(
    "page",
    [ROOT / "CONTRIBUTING.rst", *(DOCS / f"{name}.rst" for name in _DEVELOPERS)],
    ids=lambda page: page.name,
)
def test_pages_for_developers_name_modules_that_exist(page: pathlib.Path) -> None:
    named = {found["path"] for found in _MODULE.finditer(page.read_text())}
    package = ROOT / "ironic_lite"
    places = (ROOT, package, package / "conductor", package / "domain")
    assert named
    assert {name for name in named if not any(is_module(place / name) for place in places)} == set()


def is_module(path: pathlib.Path) -> bool:
    return path.exists() or path.with_suffix(".py").exists()
