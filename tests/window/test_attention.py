"""What needs attention in the window: by whom, why, and what to do next."""

from __future__ import annotations

from typing import Any

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import endless_cleaning, failed_node, row, to, write
from tests.window.conftest import Faults, OpenPage, expect

RULE = "longer than 15 minutes and than 3 times what 9 of 10 such steps took."
ADVICE = "Read the log of the run, and fix the cause. Then use retry."
WHY_AGAIN_MS = 30_000
TOUCHES = """row => {
  const { left, right, top, bottom } = row.getBoundingClientRect();
  return [...row.querySelectorAll("*")].filter((one) => {
    const own = one.getBoundingClientRect();
    const beyond = own.left < left || own.right > right;
    return own.width && (beyond || own.top <= top || own.bottom >= bottom);
  }).map((one) => one.outerHTML);
}"""
"""The elements of a row that reach its upper or lower border, or go beyond its sides."""


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


def test_button_of_a_failure_repeats_what_failed(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("repeat-1", driver_info={"fake_fail_verbs": {"inspect": "no call-back"}})
    live.provision("repeat-1", "manage", "manageable")
    body = {"target": "inspect"}
    assert live.ask("PUT", "/v1/nodes/repeat-1/states/provision", body).status_code == 202
    page.goto(to(live, "/v1/nodes"))
    item = group(page, "Needs a person", "repeat-1")
    expect(item.get_by_role("strong")).to_contain_text("Then use inspect.")
    item.get_by_role("button", name="Inspect…").click()
    page.get_by_role("dialog", name="Inspect repeat-1").wait_for()


def test_overdue_wait_is_aborted_because_a_stop_waits_for_the_step(
    page: sync_api.Page, live: service.Service
) -> None:
    with endless_cleaning(live, "hung-1"):
        uuid = live.get("/v1/nodes/hung-1")["uuid"]
        rows = {"runs": [{"node_uuid": uuid}]}
        page.route("**/v1/runs?*overdue=true", lambda route: route.fulfill(json=rows))
        page.goto(to(live, "/v1/nodes"))
        item = group(page, "Needs a person", "hung-1")
        expect(page.locator(".attention")).to_contain_text(RULE)
        item.get_by_role("button", name="Abort…").click()
        page.get_by_role("dialog", name="Abort hung-1").wait_for()
        page.keyboard.press("Escape")  # Else it asks for the plan of a node that is aborted.
        expect(page.get_by_role("dialog")).to_have_count(0)


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
    # A hold ends the retries, and changes no state.
    write(live, "UPDATE nodes SET wake_at = NULL WHERE uuid = ?", uuid)
    hold = {"kind": "hardware", "reason": "waits for a disk"}
    assert live.ask("POST", "/v1/nodes/itself-1/holds", hold).status_code == 201
    group(page, "Needs a person", "itself-1").wait_for()
    expect(item).to_have_count(0)


@pytest.mark.own_context
def test_retry_that_the_service_gives_up_without_an_event_needs_a_person(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "given-up-1")
    uuid = live.get("/v1/nodes/given-up-1")["uuid"]
    write(live, "UPDATE nodes SET wake_at = ? WHERE uuid = ?", "2099-01-01 00:00:00.000000", uuid)
    page.clock.install()
    page.goto(to(live, "/v1/nodes"))
    group(page, "Goes on by itself", "given-up-1").wait_for()
    write(live, "UPDATE nodes SET wake_at = NULL WHERE uuid = ?", uuid)
    with page.expect_response(f"**/v1/nodes/{uuid}/why"):
        page.clock.fast_forward(WHY_AGAIN_MS)
    group(page, "Needs a person", "given-up-1").wait_for()
    expect(group(page, "Goes on by itself", "given-up-1")).to_have_count(0)


def test_held_node_is_in_a_group_of_its_own(page: sync_api.Page, live: service.Service) -> None:
    live.create("aside-1")
    hold = {"kind": "hardware", "reason": "waits for a fan"}
    assert live.ask("POST", "/v1/nodes/aside-1/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes"))
    item = group(page, "Held", "aside-1")
    expect(item).to_contain_text("hardware: waits for a fan")
    item.get_by_role("button", name="Lift hold…").click()
    page.get_by_role("dialog", name="Lift a hold of aside-1").wait_for()


def test_node_that_was_held_last_is_shown_first(page: sync_api.Page, live: service.Service) -> None:
    names = [f"held-last-{number}" for number in (6, 5, 4, 3, 2, 1)]
    hold = {"kind": "hardware", "reason": "a fan"}
    holds = []
    for name in names:
        live.create(name)
    for name in names:
        holds.append(live.ask("POST", f"/v1/nodes/{name}/holds", hold).json()["uuid"])
    page.goto(to(live, "/v1/nodes"))
    held = page.get_by_role("list", name="Held").get_by_role("listitem")
    for place, name in enumerate(reversed(names[1:])):
        expect(held.nth(place)).to_contain_text(name)
    for name, uuid in zip(names, holds, strict=True):  # Other tests look for their own holds.
        assert live.ask("DELETE", f"/v1/nodes/{name}/holds/{uuid}?reason=done").status_code == 204


def test_rows_of_a_held_node_keep_clear_of_their_borders_at_320_pixels(
    open_page: OpenPage, live: service.Service
) -> None:
    failed_node(live, "narrow-1")
    hold = {"kind": "freeze", "reason": f"waits for a fan {'w' * 60}"}
    assert live.ask("POST", "/v1/nodes/narrow-1/holds", hold).status_code == 201
    page = open_page(live, viewport={"width": 320, "height": 568})
    page.goto(to(live, "/v1/nodes?~q=narrow-1"))
    page.get_by_role("button", name="show all").click()
    item = group(page, "Held", "narrow-1")
    item.wait_for()
    line = row(page, "narrow-1")
    expect(line).to_contain_text("HELD")
    for one in (item, line):
        assert one.evaluate(TOUCHES) == []


def test_older_failure_that_needs_a_person_is_not_hidden_by_retries(
    page: sync_api.Page, live: service.Service
) -> None:
    change = (
        "UPDATE nodes SET provision_state = 'clean failed', provision_updated_at = ?,"
        " wake_at = ? WHERE uuid = ?"
    )
    for number in range(7):
        uuid = live.create(f"queue-{number}")
        wake_at = "2099-01-01 00:00:00.000000" if number else None
        write(live, change, f"2098-01-01 00:00:0{number}.000000", wake_at, uuid)
    page.goto(to(live, "/v1/nodes"))
    expect(group(page, "Needs a person", "queue-0")).to_be_visible()
    expect(
        page.get_by_role("list", name="Goes on by itself").get_by_role("listitem")
    ).to_have_count(5)
    for number in range(7):  # Other tests look for the newest failures.
        write(live, "UPDATE nodes SET provision_state = 'enroll' WHERE name = ?", f"queue-{number}")
        assert live.ask("DELETE", f"/v1/nodes/queue-{number}").status_code == 204


@pytest.mark.own_context
def test_list_of_conductors_that_are_down_outlasts_a_fault(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("503")
    found: list[dict[str, Any]] = [{"hostname": "dead-1", "alive": False}]
    asked: list[str] = []

    def answer(route: sync_api.Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(json={"conductors": found})
        else:
            route.fulfill(status=503, json={})

    page.route("**/v1/conductors", answer)
    page.clock.install()
    page.goto(to(live, "/v1/nodes"))
    item = group(page, "Needs a person", "dead-1")
    item.wait_for()
    with page.expect_response(lambda one: one.status == 503):
        page.clock.fast_forward(30_000)
    # The next one is answered after the page has drawn what it made of this one.
    with page.expect_response(lambda one: one.status == 503):
        page.clock.fast_forward(30_000)
    expect(item).to_be_visible()
    assert len(asked) == 3


def test_reason_that_could_not_be_read_is_read_again(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("503")
    failed_node(live, "reread-1")
    uuid = live.get("/v1/nodes/reread-1")["uuid"]
    page.route(f"**/v1/nodes/{uuid}/why", lambda route: route.fulfill(status=503, json={}), times=1)
    page.goto(to(live, "/v1/nodes"))
    expect(group(page, "Needs a person", "reread-1").get_by_role("strong")).to_have_text(ADVICE)


def test_overdue_node_shows_the_reason_of_its_present_wait(
    page: sync_api.Page, live: service.Service
) -> None:
    """Also if the answer about the earlier wait comes later."""
    uuid = live.create("rewait-1")
    early: list[sync_api.Route] = []
    overdue: list[dict[str, str]] = [{"node_uuid": uuid}]
    lists = "**/v1/runs?*overdue=true"
    page.route(lists, lambda route: route.fulfill(json={"runs": overdue}))
    page.route(
        f"**/v1/nodes/{uuid}/why",
        lambda route: early.append(route) if not early else route.fulfill(json={"says": "Second."}),
    )
    with page.expect_request(f"**/v1/nodes/{uuid}/why"):
        page.goto(to(live, "/v1/nodes"))
    item = group(page, "Needs a person", "rewait-1")
    item.wait_for()
    overdue.clear()
    live.create("rewait-2")
    live.provision("rewait-2", "manage", "manageable")  # The page reads its lists again.
    expect(item).to_have_count(0)
    overdue.append({"node_uuid": uuid})
    live.provision("rewait-2", "provide", "available")
    expect(item).to_contain_text("Second.")
    with page.expect_response(lambda one: one.url.endswith(f"{uuid}/why")):
        early[0].fulfill(json={"says": "First."})
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(item).to_contain_text("Second.")
    expect(item).not_to_contain_text("First.")
