"""Commands and options of a program: ``python -m tests.compat.commands ironic-lite-status``.

Each program registers its options with the one object of oslo.config, so each is read in a process
of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points

_OPTION_LINE = re.compile(r" {2,8}-")
_FLAG = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def of_program(
    name: str, main: Callable[[Sequence[str]], None], words: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a command, its options and its sub-commands with theirs, as its help has them."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    yield from of_help(" ".join((name, *words)), shown.getvalue())
    usage = shown.getvalue().partition("\n\n")[0]
    for below in re.findall(r"\{([\w,-]+)\}\s+\.\.\.", usage):
        for word in below.split(","):
            yield from of_program(name, main, [*words, word])


def of_help(name: str, text: str) -> Iterator[str]:
    """Yield a command, its arguments by position, and its options, from a help of argparse."""
    yield name
    for line in text.splitlines():
        if _OPTION_LINE.match(line):
            # An option's names end before its text, which two blanks separate from them.
            names = line.strip().partition("  ")[0]
            yield from (f"{name} {flag}" for flag in _FLAG.findall(names))


def main(arguments: Sequence[str]) -> None:
    """Print the facts of one program."""
    (name,) = arguments
    (point,) = entry_points(group="console_scripts", name=name)
    print("\n".join(of_program(name, importlib.import_module(point.module).main)))


if __name__ == "__main__":
    main(sys.argv[1:])
