"""What the code imports is what setup.cfg declares: an installed wheel misses nothing."""

from __future__ import annotations

import ast
import configparser
import importlib.metadata
import pathlib
import re
import sys

from tests.support import source_trees

ROOT = pathlib.Path(__file__).parents[2]


def plain(name: str) -> str:
    """Return a distribution's name in the one form the packaging rules compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str, by: str = "setup.cfg") -> set[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / by)
    lines = setup["options"]["install_requires"].split("\n")
    for extra in extras:
        lines += setup["options.extras_require"][extra].split("\n")
    return {plain(re.split(r"[\s<>=!~\[;]", line, maxsplit=1)[0]) for line in lines if line}


EXTRAS = {
    "keystone": {
        "ironic_lite/api/policy/enforcement.py",
        "ironic_lite/api/auth/keystone.py",
    },
}
"""Modules that are loaded only where the extra is."""
LOADED_LATE = {"oci": {"zstandard"}}
"""Libraries of extras that a module of the service loads when it needs them."""


def imported(*, by: str | None, folder: str = "ironic_lite") -> dict[str, str]:
    """Return the top-level names our modules import, each with one module that does.

    :param by: an extra whose modules are meant; None means those of no extra.
    """
    found = {}
    for path in (ROOT / folder).rglob("*.py"):
        place = str(path.relative_to(ROOT))
        if next((extra for extra, places in EXTRAS.items() if place in places), None) != by:
            continue
        for node in source_trees.nodes(path):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            found.update({name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names})
    return found


def undeclared(imports: dict[str, str], known: set[str]) -> dict[str, str]:
    """Return those whose distribution is not known, each with a module that imports it."""
    ours = {"ironic_lite", "ironic_lite_cli", *sys.stdlib_module_names}
    owners = importlib.metadata.packages_distributions()
    return {
        name: module
        for name, module in imports.items()
        if name not in ours and not {plain(owner) for owner in owners.get(name, ())} & known
    }


def test_every_imported_library_is_declared() -> None:
    missing = undeclared(imported(by=None), declared())
    assert set(missing) == set().union(*LOADED_LATE.values())
    for extra, libraries in LOADED_LATE.items():
        assert libraries <= declared(extra)


def test_every_library_of_the_client_commands_is_declared() -> None:
    imports = imported(by=None, folder="cli/ironic_lite_cli")
    assert "ironicclient" in imports
    assert undeclared(imports, declared(by="cli/setup.cfg")) == {}


def test_imports_of_keystone_come_with_their_extra() -> None:
    imports = imported(by="keystone")
    assert {"keystonemiddleware", "oslo_policy"} <= set(imports)
    assert undeclared(imports, declared("keystone")) == {}
