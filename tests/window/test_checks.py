"""Checks of a node before it is managed: they follow its fields, and what repeats is one row."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import edit, to
from tests.window.conftest import expect


def test_checks_are_made_again_when_the_node_changes_and_on_request(
    page: sync_api.Page, live: service.Service
) -> None:
    login = {"redfish_username": "root", "redfish_password": "hunter2"}
    # Nothing listens on these ports.
    first, second = "https://127.0.0.1:1", "https://127.0.0.1:9"
    info = {"redfish_address": first, **login}
    live.create("checked-1", driver="redfish", driver_info=info)
    page.goto(to(live, "/v1/nodes/checked-1"))
    checks = page.get_by_role("region", name="Checks before Manage")
    expect(checks).to_contain_text(first)
    edit(live, "checked-1", {"redfish_address": second, **login})
    expect(checks).to_contain_text(second)
    expect(checks).not_to_contain_text(first)
    at = checks.locator("time").inner_text()
    checks.get_by_role("button", name="Check again").click()
    expect(checks).to_contain_text("Checked")
    expect(checks.locator("time")).not_to_have_text(at)
    expect(checks).to_contain_text(second)


def test_checks_that_wait_for_one_fault_are_one_row(
    page: sync_api.Page, live: service.Service
) -> None:
    info = {"redfish_address": "https://127.0.0.1:1"}
    live.create("checked-2", driver="redfish", driver_info=info)
    found = live.get("/v1/doctor?node=checked-2")["checks"]
    blocked = [check["name"] for check in found if check["do"] == "Correct bmc_port first."]
    assert len(blocked) > 2
    page.goto(to(live, "/v1/nodes/checked-2"))
    checks = page.get_by_role("region", name="Checks before Manage")
    rows = checks.get_by_role("listitem").filter(has_text="Correct bmc_port first.")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"{len(blocked)} checks")
    expect(rows.get_by_text(", ".join(blocked))).to_be_hidden()
    rows.get_by_text("which", exact=True).click()
    expect(rows.get_by_text(", ".join(blocked))).to_be_visible()
