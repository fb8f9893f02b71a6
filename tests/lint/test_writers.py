"""What one place alone may write is written there alone."""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator, Sequence

import pytest

from tests.support import source_trees

ROOT = pathlib.Path(__file__).parents[2] / "ironic_lite"
WRITERS = {
    # A new node has a state that it has not moved to.
    "provision_state": {"conductor/engine/task.py", "api/controllers/nodes.py"},
    "target_provision_state": {"conductor/engine/task.py"},
    # An agent is shown it with less in it than there is.
    "driver_internal_info": {
        "conductor/engine/notes.py",
        "drivers/agent/client.py",
        "api/controllers/agent.py",
        # A PATCH of the deploy interface forgets which one has chosen it.
        "api/controllers/nodes.py",
    },
}
"""Columns of a node, and the modules that may give them a value."""


def named(target: ast.expr) -> Iterator[str]:
    """Give the names that an assignment's target ends in, or leads through by subscripts."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from named(one)
    elif isinstance(target, ast.Attribute):
        yield target.attr
    elif isinstance(target, ast.Subscript):
        if isinstance(target.slice, ast.Constant):
            yield str(target.slice.value)
        yield from named(target.value)


def written(nodes: Sequence[ast.AST], *, literals: bool) -> set[str]:
    """Return the names to which a module assigns.

    :param literals: and those that are keys of its dictionaries.
    """
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Assign):
            found.update(name for target in node.targets for name in named(target))
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
            found.update(named(node.target))
        elif isinstance(node, ast.Dict) and literals:
            found.update(str(key.value) for key in node.keys if isinstance(key, ast.Constant))
    return found


@functools.cache
def modules() -> dict[str, set[str]]:
    """Return the names that each module writes; read once, and not by workers that run no test."""
    return {
        # In the API such dictionaries are filters of lists, and tables of fields.
        str(path.relative_to(ROOT)): written(source_trees.nodes(path), literals=folder != "api")
        for folder in ("conductor", "db", "drivers", "api")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "migrations" not in path.parts
    }


@pytest.mark.parametrize("column", WRITERS)
def test_a_column_is_written_where_it_may_be(column: str) -> None:
    assert {path for path, names in modules().items() if column in names} == WRITERS[column]
