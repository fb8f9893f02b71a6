"""Move in from real Ironic and back; ``--record`` writes the dumps for the tests."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sqlite3
import sys
import tempfile

from tests.move_in import ironics, journey, models, source
from tests.support.service import short_folder

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


def travel(version: str, minutes: float) -> bool:
    """Move a release here and back; return whether each step has ended as its page says."""
    with short_folder() as folder, contextlib.ExitStack() as stack:
        try:
            journey.Journey(version, folder, stack, minutes).run()
        except (journey.StepError, AssertionError, RuntimeError) as why:
            print(f"{version} FAILED: {why}", flush=True)
            return False
    return True


def main() -> int:
    """Do what the arguments name; return 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(prog="make move-in", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write tests/move_in/dumps")
    parser.add_argument("--models", action="store_true", help="compare the tables only")
    parser.add_argument("--minutes", type=float, default=5.0, help="of observing")
    parser.add_argument("--versions", help="of Ironic, such as 29.0.6,39.0.0")
    asked = parser.parse_args()
    versions = asked.versions.split(",") if asked.versions else ironics.VERSIONS
    if asked.record:
        for version in versions:
            print(f"Ironic {version}: {record(version)} bytes", flush=True)
        return 0
    found = [one for version in versions for one in models.faults(version)]
    print("\n".join(found) or f"The columns of {', '.join(versions)} are known.", flush=True)
    moved = () if asked.models else [one for one in versions if one in journey.KINDS]
    done = [travel(version, asked.minutes) for version in moved]
    return 0 if all(done) and not found else 1


if __name__ == "__main__":
    sys.exit(main())
