"""What needs attention in the window: by whom, why, and what to do next."""

from __future__ import annotations

from playwright import sync_api

from tests.support import service
from tests.window.acts import failed_node, to, write
from tests.window.conftest import expect

ADVICE = "Read the log of the run, and fix the cause. Then use retry."


def group(page: sync_api.Page, title: str, name: str) -> sync_api.Locator:
    """Return the item of a node in a group of the list."""
    return page.get_by_role("list", name=title).get_by_role("listitem").filter(has_text=name)


def test_failed_node_needs_a_person_who_is_told_what_to_do(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "advised-1")
    page.goto(to(live, "/v1/nodes"))
    item = group(page, "Needs a person", "advised-1")
    expect(item).to_contain_text("disk 3 does not answer")
    expect(item.get_by_role("strong")).to_have_text(ADVICE)
    expect(item.get_by_role("button", name="Retry…")).to_be_visible()
    item.get_by_role("link", name="Why").click()
    expect(page.locator("p.says").get_by_role("strong")).to_have_text(ADVICE)


def test_failed_node_that_the_service_retries_goes_on_by_itself(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "itself-1")
    uuid = live.get("/v1/nodes/itself-1")["uuid"]
    write(live, "UPDATE nodes SET wake_at = ? WHERE uuid = ?", "2099-01-01 00:00:00.000000", uuid)
    page.goto(to(live, "/v1/nodes"))
    item = group(page, "Goes on by itself", "itself-1")
    expect(item).to_contain_text("There is nothing to do: the service retries it by itself.")
    expect(group(page, "Needs a person", "itself-1")).to_have_count(0)


def test_held_node_is_in_a_group_of_its_own(page: sync_api.Page, live: service.Service) -> None:
    live.create("aside-1")
    hold = {"kind": "hardware", "reason": "waits for a fan"}
    assert live.ask("POST", "/v1/nodes/aside-1/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes"))
    item = group(page, "Held", "aside-1")
    expect(item).to_contain_text("hardware: waits for a fan")
    item.get_by_role("button", name="Lift hold…").click()
    page.get_by_role("dialog", name="Lift a hold of aside-1").wait_for()
