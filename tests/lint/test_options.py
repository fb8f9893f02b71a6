"""No option is decoration, and none is read that does not exist."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

from ironic_lite import options

ROOT = pathlib.Path(__file__).parents[2]
TABLE = ROOT / "ironic_lite/options.py"


def trees() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted((ROOT / "ironic_lite").rglob("*.py")):
        if path != TABLE:
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def written() -> set[str]:
    """Return all attribute names and pieces of strings in the code: where a name can be read."""
    nodes = [node for _, tree in trees() for node in ast.walk(tree)]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    return names | {value for value in constants if isinstance(value, str)}


def is_made(name: str, pieces: set[str]) -> bool:
    """Say whether code makes ``name`` of two pieces, as in ``f"enabled_{kind}_interfaces"``."""
    heads = [piece for piece in pieces if piece.endswith("_") and name.startswith(piece)]
    tails = [piece for piece in pieces if piece.startswith("_") and name.endswith(piece)]
    return any(len(head) + len(tail) < len(name) for head in heads for tail in tails)


def test_every_option_is_read_somewhere() -> None:
    pieces = written()
    idle = {
        f"[{group}]{opt.name}"
        for group, opts in options.GROUPS.items()
        for opt in opts
        if opt.dest not in pieces and not is_made(opt.dest, pieces)
    }
    assert idle == set()


def test_every_option_that_is_read_exists() -> None:
    known = {group: {opt.dest for opt in opts} for group, opts in options.GROUPS.items()}
    unknown = {
        f"{path}:{node.lineno} [{node.value.attr}]{node.attr}"
        for path, tree in trees()
        for node in ast.walk(tree)
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
