"""A site in which each fault of machines happens: every node comes to its expected end."""

from __future__ import annotations

from tests.acceptance.test_site import run_site


def test_each_faulty_machine_comes_to_its_end() -> None:
    run_site("faults", 20)
