"""The operator's day with each recorded machine, one operation a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.recorded import day as days
from tests.recorded import facts, recordings
from tests.recorded.strict_bmc import StrictBmc
from tests.support.operator import Operator


def cases() -> Iterator[Any]:
    """Yield each machine with each operation; a known failure must fail until it is fixed."""
    for name in recordings.names():
        for operation in days.OPERATIONS:
            marks = [pytest.mark.xdist_group(name)]
            if recordings.verdict(name, operation) == days.FAILS:
                marks.append(pytest.mark.xfail(strict=True, reason="a known failure"))
            yield pytest.param(name, operation, marks=marks, id=f"{name}-{operation}")


@pytest.mark.parametrize(("name", "operation"), list(cases()))
def test_operation(
    operator: Operator,
    name: str,
    operation: str,
    record_property: Callable[[str, object], None],
    request: pytest.FixtureRequest,
) -> None:
    record_property("machine", name)
    record_property("operation", operation)
    recording = recordings.load(name)
    system = facts.systems(recording.documents)[0]
    with StrictBmc(recording.documents, system) as bmc:
        day = days.Day(operator, bmc)
        day.enroll()
        day.goes("manage")
        verdict = days.OPERATIONS[operation](day)
    record_property("verdict", verdict)
    documented = recordings.verdict(name, operation)
    if documented and not request.config.getoption("--write-results", default=None):
        assert verdict == documented, "the results differ: see tests/recorded/README.rst"
