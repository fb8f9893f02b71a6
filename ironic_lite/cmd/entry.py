"""What every console script does first and last: configuration in, one line out, exit status."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ironic_lite import config, errors

EXIT_CONFIG = 2
EXIT_FAULT = 1
EXIT_INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C has ended."""


def run(
    prog: str,
    description: str,
    body: Callable[[Any], int],
    argv: Sequence[str] | None,
    cli_opts: Sequence[Any] = (),
) -> int:
    """Load the configuration and run ``body(conf)``.

    :param argv: without the program's name; None takes the process's own.
    :returns: the exit status: the body's; 2 for a configuration that cannot be used; 1 for an error
        of ours. Both print one line and no traceback.
    """
    try:
        conf = config.load(
            prog,
            sys.argv[1:] if argv is None else argv,
            description=description,
            cli_opts=cli_opts,
        )
        return body(conf)
    except errors.Error as why:
        return refuse(prog, why)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def refuse(prog: str, why: errors.Error) -> int:
    """Print an error as one line and return the exit status it ends the program with."""
    print(f"{prog}: {' '.join(why.message.split())}", file=sys.stderr)
    return EXIT_CONFIG if isinstance(why, config.ConfigError) else EXIT_FAULT


def load(module: str) -> Any:
    """Return a module that is too big to be imported before it is known to be needed.

    :raises errors.Error: a library it needs is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as why:
        raise errors.Error(
            f"The library {why.name} is missing: install ironic_lite with all it depends on."
        ) from None
