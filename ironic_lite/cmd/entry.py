"""The frame of console scripts: configuration, one-line errors, exit status."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ironic_lite import errors, features
from ironic_lite.core import config, log_lines, notify

EXIT_CONFIG = 2
EXIT_FAULT = 1
EXIT_INTERRUPTED = 130
"""Exit status that a shell reports for a program ended by Ctrl-C."""


def run(
    prog: str,
    description: str,
    body: Callable[[Any], int],
    argv: Sequence[str] | None,
    cli_opts: Sequence[Any] = (),
    *,
    create: bool = True,
) -> int:
    """Load the configuration and run ``body(conf)``.

    :param argv: without the program's name; None uses the process's own.
    :param create: make the state path and a log file, if missing.
    :returns: the exit status: the body's; 2 for an unusable configuration; 1 for an error of the
        service. Both errors print one line and no traceback.
    """
    notify.begin()
    try:
        conf = config.load(
            prog,
            sys.argv[1:] if argv is None else argv,
            description=description,
            cli_opts=cli_opts,
            create=create,
        )
        features.enabled(conf)
        return body(conf)
    except errors.Error as why:
        return refuse(prog, why)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def refuse(prog: str, why: errors.Error) -> int:
    """Print an error as one line and return its exit status."""
    priority = "<3>" if log_lines.is_journal() else ""  # of an error
    print(f"{priority}{prog}: {' '.join(why.message.split())}", file=sys.stderr)
    return EXIT_CONFIG if isinstance(why, config.ConfigError) else EXIT_FAULT


def load(module: str) -> Any:
    """Return a module that is too large to import before it is needed.

    :raises errors.Error: one of its libraries is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as why:
        raise errors.Error(
            f"The library {why.name} is missing: install ironic_lite with all its dependencies."
        ) from None
