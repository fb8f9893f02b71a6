"""The short form of the attacks; ``make attack`` has all of them."""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()  # before anything imports an oslo library

import pathlib  # noqa: E402
import tempfile  # noqa: E402

from tests.attack import __main__ as program  # noqa: E402
from tests.attack import story  # noqa: E402

WISHES = story.Wishes(seed=14, short=True, nodes=20, rate=4)


def test_no_attack_loses_or_corrupts_anything() -> None:
    with tempfile.TemporaryDirectory(prefix="at-") as name:
        outcome = story.run(WISHES, pathlib.Path(name))
    said = "\n".join(program.lines(outcome, WISHES, 0))
    print(said)
    assert not outcome.violations, said
    assert outcome.runs, said
