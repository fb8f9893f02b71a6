"""What a release has promised is still there: see `tests.compat.surfaces`."""

from __future__ import annotations

import configparser
import pathlib
import re
from typing import NamedTuple

import pytest

from ironic_lite.core import config
from ironic_lite.core.options import service
from ironic_lite.rpc import contract
from tests.compat import surfaces
from tests.compat.__main__ import released

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
RELEASES = sorted(path.name for path in HERE.iterdir() if re.fullmatch(r"\d+\.\d+", path.name))

pytestmark = pytest.mark.feature(*service.FEATURES)


class Removal(NamedTuple):
    """A line of ``removed.txt``: a fact that a major release has removed."""

    surface: str
    fact: str
    since: str
    instead: str


def removals() -> list[Removal]:
    lines = (HERE / "removed.txt").read_text(encoding="utf-8").splitlines()
    return [Removal(*line.split(" | ")) for line in lines if line and not line.startswith("#")]


def frozen(release: str, surface: str) -> set[str]:
    return set((HERE / release / f"{surface}.txt").read_text(encoding="utf-8").splitlines())


def lost(promised: set[str], present: set[str]) -> set[str]:
    """Return the facts that are gone; the text of an error may have become longer."""
    gone = promised - present
    return {
        fact
        for fact in gone
        if " text: " not in fact or not any(one.startswith(fact) for one in present)
    }


@pytest.mark.parametrize("surface", surfaces.SURFACES)
def test_all_that_a_release_has_promised_is_there(surface: str) -> None:
    present = surfaces.facts(surface)
    allowed = {one.fact for one in removals() if one.surface == surface}
    missing = {
        f"{release}/{surface}.txt: {fact}"
        for release in RELEASES
        for fact in lost(frozen(release, surface), present) - allowed
    }
    assert not missing, (
        "These facts are gone. Restore them; before the release of "
        f"{RELEASES[-1]}.0 alone, python -m tests.compat write {RELEASES[-1]} takes the new ones:\n"
        + "\n".join(sorted(missing))
    )


def test_a_changed_fact_is_lost_and_a_longer_text_of_an_error_is_not() -> None:
    promised = {"nodes.name: String(length=255)", "NodeLocked text: Node {node} is locked"}
    assert lost(promised, promised) == set()
    assert lost(promised, {"nodes.name: Text()", "NodeLocked text: Node {node} is locked by"}) == {
        "nodes.name: String(length=255)"
    }
    assert lost(promised, {"NodeLocked text: Locked"}) == promised


def test_every_release_has_a_file_of_each_surface() -> None:
    for release in RELEASES:
        assert {path.stem for path in (HERE / release).iterdir()} == set(surfaces.SURFACES)


def test_a_removed_fact_was_promised_and_is_gone() -> None:
    for one in removals():
        assert any(one.fact in frozen(release, one.surface) for release in RELEASES)
        assert one.fact not in surfaces.facts(one.surface)
        assert re.fullmatch(r"\d+\.\d+", one.since)
        assert one.instead


def test_facts_of_a_released_version_are_not_written_again() -> None:
    assert released("1.0.0") == (1, 0)
    assert released("1.1.0.dev0") == (1, 0)
    assert released("0.9.0") < (1, 0)


# -- the version -----------------------------------------------------------------------------


def version(file: str) -> str:
    setup = configparser.ConfigParser()
    setup.read(ROOT / file)
    return setup["metadata"]["version"]


def test_both_packages_have_one_version_whose_release_can_be_pinned() -> None:
    assert version("cli/setup.cfg") == version("setup.cfg") == config.version()
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0)?", config.version())
    assert contract.release_of(config.version()) in contract.RELEASES


def test_the_changelog_begins_with_the_version() -> None:
    text = (ROOT / "CHANGELOG.rst").read_text(encoding="utf-8")
    found = re.search(r"^(\d\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", text, re.MULTILINE)
    assert found is not None
    assert found[1] == config.version().removesuffix(".dev0")
