"""No option is decoration, and none is read that does not exist."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator, Sequence

from ironic_lite.core import options
from tests.support import source_trees

ROOT = pathlib.Path(__file__).parents[2]
DECLARED = ROOT / "ironic_lite/core/options"
ONLY_EXPANDED = {"my_ipv6", "default_hooks", "default_inspection_hooks"}
"""Options that files use as $name in others; oslo.config reads them."""


def trees() -> Iterator[tuple[str, Sequence[ast.AST]]]:
    """Yield the nodes of each module that declares no options, with its path."""
    for path in sorted((ROOT / "ironic_lite").rglob("*.py")):
        if DECLARED not in path.parents:
            yield str(path.relative_to(ROOT)), source_trees.nodes(path)


def written() -> tuple[set[str], list[re.Pattern[str]]]:
    """Return all attribute names and strings in the code, and the forms of names it puts together.

    A form is an f-string that begins and ends with words, as in ``f"enabled_{kind}_interfaces"``.
    """
    nodes = [node for _, found in trees() for node in found]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    forms = [
        re.compile("".join(map(form, node.values)))
        for node in nodes
        if isinstance(node, ast.JoinedStr)
        and all(isinstance(end, ast.Constant) for end in (node.values[0], node.values[-1]))
    ]
    return names, forms


def form(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else "[a-z_]+"


def test_every_option_is_read_somewhere() -> None:
    names, forms = written()
    idle = {
        f"[{group}]{opt.name}"
        for group, opts in options.GROUPS.items()
        for opt in opts
        if opt.dest not in names and not any(made.fullmatch(opt.dest) for made in forms)
    }
    assert {one for one in idle if one.partition("]")[2] not in ONLY_EXPANDED} == set()


def test_every_option_that_is_read_exists() -> None:
    known = {group: {opt.dest for opt in opts} for group, opts in options.GROUPS.items()}
    unknown = {
        f"{path}:{node.lineno} [{node.value.attr}]{node.attr}"
        for path, found in trees()
        for node in found
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr in known
        and is_options(node.value.value)
        and node.attr not in known[node.value.attr]
    }
    assert unknown == set()


def is_options(node: ast.expr) -> bool:
    """Say whether an expression is a set of options by its name: conf, CONF, self._conf."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.strip("_").lower() == "conf"
