"""A short life among faults, in real processes; `make chaos` leads longer ones."""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()  # before anything imports an oslo library

import pathlib  # noqa: E402
import tempfile  # noqa: E402

from tests.chaos import report, story  # noqa: E402

WISHES = story.Wishes(
    seconds=9,
    seed=2198,
    faults=("kill", "stop", "messages", "contention"),
    apis=1,
    rate=10,
)


def test_nothing_is_lost_while_processes_die() -> None:
    with tempfile.TemporaryDirectory(prefix="ch-") as name:
        outcome = story.run(WISHES, pathlib.Path(name))
    said = "\n".join(report.lines(outcome))
    print(said)
    assert not outcome.violations, said
    assert outcome.history.faults
    assert any(run.state == "done" for run in outcome.history.runs), said
