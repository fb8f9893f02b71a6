"""Symptoms of docs/troubleshooting.rst with ipmi_sim: ``why`` answers as the page shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.emulators.ipmi import Bmc
from tests.support import troubleshooting
from tests.support.operator import Operator


def enrolled(operator: Operator, bmc: Bmc, **changes: object) -> str:
    """Return a node whose manage has failed."""
    node = operator.enroll("enroll", driver="ipmi", driver_info=bmc.driver_info(**changes))
    operator.provision(node, "manage")
    return node


def wrong_password(operator: Operator, bmc: Bmc) -> str:
    return enrolled(operator, bmc, ipmi_password="of-another-bmc")


def wrong_suite(operator: Operator, bmc: Bmc) -> str:
    return enrolled(operator, bmc, ipmi_cipher_suite=17)


def dead(operator: Operator, bmc: Bmc) -> str:
    bmc.hang()
    return enrolled(operator, bmc)


def lost_later(operator: Operator, bmc: Bmc) -> str:
    node = operator.enroll(driver="ipmi", driver_info=bmc.driver_info())
    bmc.stop()
    for _ in range(6):
        operator.rig.sweep("power sync")
        assert operator.rig.service.power.settle(30)
    return node


SYMPTOMS: dict[str, Callable[[Operator, Bmc], str]] = {
    "Wrong user name or password": wrong_password,
    "Cipher suite that the BMC does not support": wrong_suite,
    "BMC without an answer": dead,
    "BMC lost later": lost_later,
}


@pytest.mark.parametrize("place", troubleshooting.IPMI, ids=str)
def test_page_shows_the_answer(
    serve: Callable[..., Operator], bmc: Bmc, place: troubleshooting.Place
) -> None:
    operator = serve()
    heading, _ = place
    node = SYMPTOMS[heading](operator, bmc)
    answer = operator.api.get(f"/v1/nodes/{node}/why")
    assert answer.status == 200
    troubleshooting.assert_shown(place, answer.json["says"])
