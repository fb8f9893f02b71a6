"""The comparison with Ironic excuses an order of checks only if a request has several faults."""

from __future__ import annotations

import json

import pytest

from tests.compare import judge
from tests.compare.requests import Case
from tests.compare.services import Answer

CASE = Case("PATCH", "/chassis/{ident}", "/v1/chassis/absent", 115, b"{}", "reader")


def refusal(status: int) -> Answer:
    inner = json.dumps({"faultcode": "Client", "faultstring": "", "debuginfo": None})
    return Answer(status, {}, json.dumps({"error_message": inner}).encode())


@pytest.mark.parametrize(("with_good_body", "excused"), [(403, True), (400, False)])
def test_order_is_excused_if_ironic_refuses_the_same_once_another_part_is_good(
    with_good_body: int, excused: bool
) -> None:
    def ironic(case: Case) -> Answer:
        return refusal(400 if case.body == CASE.body else with_good_body)

    found = judge.compare(CASE, refusal(400), refusal(403))
    assert found is not None
    assert (judge.reason_of(found, refusal(403), ironic) is not None) is excused
