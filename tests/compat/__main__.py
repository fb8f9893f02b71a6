"""Write the facts of all surfaces: ``python -m tests.compat write 1.0``.

Until release 1.0.0 the set of 1.0 is written anew with each change that a user may see. From then
on, only ``write 1.N`` adds a set, with each minor release.
"""

from __future__ import annotations

import pathlib
import sys

from ironic_lite.core import config, threads

threads.native()  # before anything imports an oslo library


def main(arguments: list[str]) -> int:
    """Write a set of facts, unless its release has been made."""
    from tests.compat import surfaces  # noqa: PLC0415

    match arguments:
        case ["write", release]:
            folder = pathlib.Path(__file__).parent / release
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    if folder.exists() and tuple(map(int, release.split("."))) <= released(config.version()):
        print(f"{release} is released, so its facts never change", file=sys.stderr)
        return 2
    folder.mkdir(exist_ok=True)
    for surface in surfaces.SURFACES:
        lines = sorted(surfaces.facts(surface))
        (folder / f"{surface}.txt").write_text("".join(f"{line}\n" for line in lines))
        print(f"{surface}: {len(lines)} facts")
    return 0


def released(version: str) -> tuple[int, int]:
    """Return the newest minor release at a version of the package, such as 1.1.0.dev0."""
    major, minor, *rest = version.split(".")
    return int(major), int(minor) - ("dev" in ".".join(rest))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
