"""Benchmarks with small sizes still work; those that need little CPU stand for all."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from benchmarks.__main__ import ALL
from tests.support import service

CHEAP = {
    "in_process": "statements lists batches growth rpc_round_trip power_sync",
    "programs": "callers heartbeats",
}
"""Benchmarks that need little CPU, by what they run; `make bench-smoke` runs all."""
PROGRAMS = {"__main__", "agents", "bmc", "counting_api"}
"""Modules that other modules start."""
LIMIT = 900.0
"""Seconds; an idle machine needs ten."""


@pytest.mark.parametrize(
    "subjects",
    [
        pytest.param(CHEAP["in_process"], id="in_process", marks=pytest.mark.feature("batches")),
        pytest.param(CHEAP["programs"], id="programs"),
    ],
)
def test_cheap_benchmarks_run_with_small_sizes(subjects: str) -> None:
    process = subprocess.run(
        (sys.executable, "-W", "ignore", "-m", "benchmarks", *subjects.split()),
        cwd=service.ROOT,
        env=service.environment(IRONIC_LITE_BENCH_SMOKE="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert process.returncode == 0, process.stdout


def test_every_benchmark_is_a_subject() -> None:
    modules = pathlib.Path(service.ROOT / "benchmarks").glob("*.py")
    benchmarks = {one.stem for one in modules if 'if __name__ == "__main__":' in one.read_text()}
    assert benchmarks - PROGRAMS == set(ALL)
