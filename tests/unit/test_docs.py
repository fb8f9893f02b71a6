"""The documentation and the examples are whole, and taken by the programs that they are for."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from keystonemiddleware import opts as auth_token_options
from oslo_config import cfg

from ironic_lite.api import health
from ironic_lite.core import config, metrics, options
from ironic_lite.core.options import ironic
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from ironic_lite.domain import states, verbs
from tests.support import troubleshooting, whole_api

# The documentation is whole: links lead somewhere, options exist, generated parts are fresh.

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
    known = {("DEFAULT", str(opt.dest)) for opt in options.LIBRARY} | set(ironic.OPTIONS)
    known |= {("nova", "auth_type")}  # of a group that is judged as a whole
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


def test_the_page_on_operating_lists_every_metric(sqlite_database: Database) -> None:
    page = (DOCS / "operating.rst").read_text()
    of_features = [one.gauges for one in whole_api.EXTENSIONS if one.gauges is not None]
    added = [gauge.name for read in of_features for gauge in sqlite_database.read(read)]
    names = {*metrics.FAMILIES, *metrics.GAUGES, *health.FLEET_METRICS, *added}
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


# The examples in etc/ are taken by the programs that they are for.

UNITS = sorted((ROOT / "etc/systemd").glob("*.service")) + sorted(
    (ROOT / "etc/systemd").glob("*.socket")
)
EXAMPLES = [ROOT / "etc/ironic-lite/examples" / name for name in ("api.conf", "conductor.conf")]


def load(path: pathlib.Path) -> cfg.ConfigOpts:
    """Return a configuration as a program of ours reads it."""
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], project=config.PROJECT, default_config_files=[str(path)], default_config_dirs=[])
    return conf


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_a_configuration_is_taken(
    path: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, copy = tmp_path / "here.conf", tmp_path / path.name
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"^(?:ssl_\w+|http_basic_auth_user)_file = (.*)$", text, re.MULTILINE):
        text = text.replace(name, str(tmp_path / pathlib.Path(name).name))
        (tmp_path / pathlib.Path(name).name).touch()
    copy.write_text(text, encoding="utf-8")
    here.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n", encoding="utf-8")
    argv = ["--config-file", str(copy), "--config-file", str(here)]
    config.load("ironic-lite-conductor", argv, conf=cfg.ConfigOpts())
    assert "does not know" not in caplog.text


def test_api_and_conductors_agree_where_they_must() -> None:
    first, second = (load(path) for path in EXAMPLES)
    for name in ("heartbeat_interval", "heartbeat_timeout", "hash_ring_reset_interval"):
        assert first.conductor[name] == second.conductor[name]
    assert first.database.connection == second.database.connection
    texts = [path.read_text(encoding="utf-8") for path in EXAMPLES]
    for option in ("transport_url", "ca_file", "rpc_response_timeout"):
        one, other = (re.findall(f"^{option} = .*$", text, re.MULTILINE) for text in texts)
        assert one == other != []


def seconds(name: str) -> int:
    """Return TimeoutStopSec of a unit or a drop-in."""
    text = (ROOT / "etc/systemd" / name).read_text(encoding="utf-8")
    return int(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0])


def test_units_give_programs_the_time_that_they_give_themselves() -> None:
    conf = load(EXAMPLES[0]).conductor
    around = conf.hash_ring_reset_interval + 30  # until nobody calls; calls, locks, the end
    for name in ("ironic-lite", "ironic-lite-conductor", "ironic-lite-conductor@"):
        assert seconds(f"{name}.service") > conf.graceful_shutdown_timeout + around
    assert seconds("ironic-lite-drain.conf") > conf.drain_shutdown_timeout + around
    assert seconds("ironic-lite-api.service") > 30


def test_systemd_takes_all_units(tmp_path: pathlib.Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT TESTED: there is no systemd-analyze here")
    copies = []
    for unit in UNITS:
        text = re.sub(r"/opt/ironic-lite/bin/[a-z-]+", "/bin/true", unit.read_text("utf-8"))
        copies.append(tmp_path / unit.name.replace("@.", "@one."))
        copies[-1].write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", *map(str, copies)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_installing_creates_what_the_unit_of_one_machine_names(tmp_path: pathlib.Path) -> None:
    page = (ROOT / "docs/installing.rst").read_text(encoding="utf-8")
    unit = (ROOT / "etc/systemd/ironic-lite.service").read_text(encoding="utf-8")
    (start,) = re.findall(
        r"^ExecStart=(\S+)/bin/ironic-lite --config-file (\S+)$", unit, re.MULTILINE
    )
    venv, file = start
    assert f"    python3 -m venv {venv}\n" in page
    assert f"Write ``{file}``" in page
    state = re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE)
    assert f"state_path = /var/lib/{state[0]}\n" in page
    settings = re.findall(r"code-block:: ini\n\n((?:   .*\n|\n)+)", page)
    text = "".join(settings).replace("   ", "").replace("/var/lib/ironic-lite", str(tmp_path))
    (tmp_path / "whole.conf").write_text(text, encoding="utf-8")
    conf = load(tmp_path / "whole.conf")
    assert (conf.api.auth_strategy, conf.enabled_hardware_types) == (
        "http_basic",
        ["redfish", "ipmi"],
    )


def test_user_and_folder_of_installing_are_created(tmp_path: pathlib.Path) -> None:
    programs = ("systemd-sysusers", "systemd-tmpfiles")
    if os.geteuid() != 0 or not all(map(shutil.which, programs)):
        pytest.skip("NOT TESTED: this needs root, systemd-sysusers and systemd-tmpfiles")
    page = (ROOT / "docs/installing.rst").read_text(encoding="utf-8")
    commands = re.findall(
        r"^    ((?:cp etc/systemd/sys|cp etc/systemd/tmp|systemd-).*)$", page, re.MULTILINE
    )
    assert len(commands) == 5
    for folder in ("etc", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        (tmp_path / folder).mkdir(parents=True)
    for number, command in enumerate(commands):
        name, *words = command.split()
        if name == "cp":
            shutil.copy(ROOT / words[0], tmp_path / words[1].removeprefix("/"))
            continue
        if number == len(commands) - 1:
            (tmp_path / "etc/ironic-lite/ironic-lite.conf").touch(mode=0o644)
        subprocess.run([name, f"--root={tmp_path}", *words], check=True, capture_output=True)
    user = (tmp_path / "etc/passwd").read_text(encoding="utf-8").split(":")
    found = (tmp_path / "etc/ironic-lite/ironic-lite.conf").stat()
    assert user[0] == "ironic-lite"
    assert (found.st_mode & 0o777, found.st_uid) == (0o640, 0)
    assert (tmp_path / "etc/ironic-lite").stat().st_mode & 0o777 == 0o750


OPEN = re.compile(
    r"^ *(allow_unauthenticated_bind *= *true|.*guest:guest@"
    r"|.*sslmode=(require|prefer|allow|disable)"
    r"|.*(verify_ca|verify)\"?[ =:]+(false|none)\b|.*curl.* (-k|--insecure) )",
    re.IGNORECASE | re.MULTILINE,
)
"""Lines that no example has: an open API, a known password, an unverified certificate."""


def test_no_example_is_less_safe_than_production() -> None:
    paths = [*(ROOT / "etc").rglob("*.conf"), *(ROOT / "etc").rglob("*.cfg")]
    paths += [*(ROOT / "docs").glob("*.rst"), ROOT / "README.rst"]
    found = {
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path in paths
        for match in OPEN.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()


# Each answer on docs/troubleshooting.rst has a test that produces it.


def test_each_answer_of_the_page_is_produced() -> None:
    assert set(troubleshooting.answers()) == set(troubleshooting.ALL)
    assert len(set(troubleshooting.ALL)) == len(troubleshooting.ALL)
