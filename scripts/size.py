"""Print the size of the package, of the programs beside it, and of the tests, by folder.

    .venv/bin/python scripts/size.py [CHECKOUT [BEFORE]]

With a second checkout of an earlier state, each figure has its growth since then. Columns:

* code lines: lines that hold a token which is neither a comment nor a docstring
* tokens: these tokens, without line ends and indentation
* files, and small files of at most 100 lines of text
* modules that exactly one other module of the package imports
* class names that two classes or more of the package have, and these classes
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import io
import pathlib
import sys
import tokenize

PACKAGE = "ironic_lite"
BESIDE = ("cli", "demo", "tools")
"""Folders with programs that are not part of the package."""
SMALL = 100
# Tokens that are no code.
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@dataclasses.dataclass
class Size:
    """Figures of a folder: code lines, tokens, files, small files, modules with one importer."""

    lines: int = 0
    tokens: int = 0
    files: int = 0
    small: int = 0
    single: int = 0

    def add(self, other: Size) -> None:
        """Add the figures of a file or folder to these."""
        for field in dataclasses.fields(self):
            name = field.name
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclasses.dataclass
class Module:
    """A Python file: its figures, the names of its classes, and the modules that it imports."""

    size: Size
    classes: list[str]
    imports: set[str]


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines of all docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def code(text: str, docstrings: set[int]) -> tuple[int, int]:
    """Return the number of code lines and of tokens of a source text."""
    lines: set[int] = set()
    tokens = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in LAYOUT or token.start[0] in docstrings:
            continue
        tokens += 1
        lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines), tokens


def imported(tree: ast.Module, package: str) -> set[str]:
    """Return what a module of ``package`` imports: full names of modules, and of names in them."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            found.update(f"{base}.{alias.name}" for alias in node.names)
            found.add(base)
    return found


def modules(folder: pathlib.Path) -> dict[str, Module]:
    """Return all modules below a folder by their full names."""
    found: dict[str, Module] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        package = name if is_package else name.rpartition(".")[0]
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines, tokens = code(text, docstring_lines(tree))
        found[name] = Module(
            Size(lines, tokens, 1, int(text.count("\n") <= SMALL)),
            [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)],
            imported(tree, package),
        )
    importers = collections.Counter(
        target
        for name, module in found.items()
        for target in module.imports
        if target in found and target != name
    )
    for name, module in found.items():
        module.size.single = int(importers[name] == 1)
    return found


def folder_of(name: str) -> str:
    """Return the folder or file below the top to which a module counts: ``ironic_lite.api``."""
    return ".".join(name.split(".")[:2])


def table(found: dict[str, Module]) -> dict[str, Size]:
    """Return the figures by folder, with the sum as ``all``."""
    sizes: dict[str, Size] = collections.defaultdict(Size)
    for name, module in found.items():
        sizes[folder_of(name)].add(module.size)
        sizes["all"].add(module.size)
    return dict(sorted(sizes.items()))


def shared(found: dict[str, Module]) -> tuple[int, int]:
    """Return the number of class names with two classes or more, and of these classes."""
    names = collections.Counter(name for module in found.values() for name in module.classes)
    several = [count for count in names.values() if count > 1]
    return len(several), sum(several)


def print_table(title: str, now: dict[str, Size], before: dict[str, Size]) -> None:
    """Print the figures of each folder, and their growth if an earlier state is given."""
    columns = [field.name for field in dataclasses.fields(Size)]
    print(f"{title:28}" + "".join(f"{column:>18}" for column in columns))
    for folder in sorted({*now, *before}, key=lambda name: (name == "all", name)):
        row = f"{folder:28}"
        for column in columns:
            figure = getattr(now.get(folder, Size()), column)
            growth = figure - getattr(before.get(folder, Size()), column)
            row += f"{f'{figure} ({growth:+})' if before else figure:>18}"
        print(row)


def main(checkouts: list[str]) -> int:
    """Print the tables of a checkout, the present folder by default."""
    roots = [pathlib.Path(name) for name in checkouts] or [pathlib.Path()]
    for part in (PACKAGE, *BESIDE, "tests"):
        states = [modules(root / part) if (root / part).is_dir() else {} for root in roots]
        print_table(part, table(states[0]), table(states[1]) if len(states) > 1 else {})
        for root, state in zip(roots, states, strict=True):
            print("shared class names of {}: {} of {} classes".format(root, *shared(state)))
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
