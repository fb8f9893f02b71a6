"""Move in from real Ironic and back; ``--record`` writes the dumps for the tests."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sqlite3
import sys
import tempfile

from tests.move_in import ironics, source

DUMPS = pathlib.Path(__file__).parent / "dumps"


def record(version: str) -> int:
    """Fill an Ironic of a release, write its database as SQL; return the size of the text."""
    with tempfile.TemporaryDirectory(prefix="move-in-") as folder:
        ironic = ironics.Ironic(version, pathlib.Path(folder))
        ironic.create_schema()
        source.fill(ironic)
        with contextlib.closing(sqlite3.connect(ironic.file)) as database:
            text = "\n".join(database.iterdump()) + "\n"
    (DUMPS / f"ironic-{version}.sql").write_text(text, encoding="utf-8")
    return len(text)


def main() -> int:
    """Do what the arguments name."""
    parser = argparse.ArgumentParser(prog="make move-in", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write tests/move_in/dumps")
    parser.add_argument("--versions", default=",".join(ironics.VERSIONS), help="of Ironic")
    asked = parser.parse_args()
    for version in asked.versions.split(","):
        if asked.record:
            print(f"Ironic {version}: {record(version)} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
