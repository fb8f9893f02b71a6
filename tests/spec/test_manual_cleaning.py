"""S1, manual cleaning: one test per requirement, by its number."""

from __future__ import annotations

from tests.spec.operator import Operator


def test_s1_03_a_good_clean_leads_back_to_manageable(operator: Operator) -> None:
    node = operator.enroll()
    shown = operator.clean(node, "deploy.erase_devices")
    assert (shown["provision_state"], shown["target_provision_state"]) == ("manageable", None)
    assert operator.rig.path(node)[-2:] == ["cleaning", "manageable"]
