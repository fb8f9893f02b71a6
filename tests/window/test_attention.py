"""The home of the fleet: what needs a person by cause, the work, the states and the trend."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import failed_node, paused_batch, row, to
from tests.window.conftest import Faults, OpenPage, expect

pytestmark = pytest.mark.feature("attention")

HOME = re.compile(r"/v1/attention$")
EVENT_MS, QUIET_MS = 5_000, 15_000
AT = "2026-11-28T20:10:11+00:00"
CAUSE: dict[str, Any] = {
    "cause": "c41f0be9a7d2",
    "kind": "failed",
    "verb": "clean",
    "step": "deploy.erase_devices",
    "code": "HardwareError",
    "text": "disk sd#: read-only",
    "example": "disk sdb: read-only",
    "nodes": 300,
    "retrying": 2,
    "silenced": 3,
    "first_at": AT,
    "last_at": AT,
    "sample": [{"uuid": "u1", "name": "r01-u01"}, {"uuid": "u2", "name": "r08-u40"}],
    "do": "Read the log of the run, and fix the cause. Then use retry.",
    "verbs": ["retry", "manage"],
    "usual_p90": None,
    "longest_seconds": None,
    "href": "/v1/nodes?cause=c41f0be9a7d2",
}
LATE = {**CAUSE, "cause": "0" * 12, "kind": "overdue", "nodes": 2, "usual_p90": 240, "verbs": []}
LATE |= {"retrying": 0, "silenced": 0, "text": "overdue", "href": "/v1/runs?overdue=true"}
BATCH: dict[str, Any] = {
    "uuid": "5f3b1c8e-0000-4000-8000-000000000001",
    "name": "erase r1",
    "state": "running",
    "nodes": 632,
    "done": 210,
    "failed": 2,
    "under_way": 16,
    "ends_at": "2099-11-28T20:41:00+00:00",
    "paused_by": None,
}
DOCUMENT: dict[str, Any] = {
    "at": AT,
    "status": "critical",
    "needs_human": 302,
    "of": 5000,
    "causes_left_out": 0,
    "silenced": {"maintenance": 4, "held": 12},
    "causes": [CAUSE, LATE],
    "fleet": {"available": 3120, "active": 1400, "clean failed": 300, "cleaning": 180},
    "runs": {"running": 180, "waiting": 21},
    "failures": {"from": AT, "seconds": 3600, "counts": [*range(24)]},
    "batches": [BATCH],
    "conductors": [],
    "findings": None,
    "certificates": None,
    "webhooks": [],
}


def now(page: sync_api.Page) -> sync_api.Locator:
    """Return the lines of what needs a person."""
    return page.get_by_role("list", name="Now").get_by_role("listitem")


def answer(page: sync_api.Page, **changes: Any) -> list[str]:
    """Answer the home with a document; return the list of its requests."""
    asked: list[str] = []

    def fulfil(route: sync_api.Route) -> None:
        asked.append(route.request.url)
        route.fulfill(json={**DOCUMENT, **changes})

    page.route(HOME, fulfil)
    return asked


def test_nodes_that_failed_alike_are_one_line_with_acts_on_all(
    page: sync_api.Page, live: service.Service
) -> None:
    for number, disk in enumerate("bc"):
        failed_node(live, f"alike-{number}", f"fan of sd{disk} turns {number} times")
    page.goto(to(live, "/v1/nodes"))
    show = page.locator(".attention").get_by_role("button", name=re.compile("^show all"))
    line = now(page).filter(has_text="fan of sd# turns # times")
    expect(show.or_(line).first).to_be_visible()
    if not line.count():
        show.click()
    expect(line).to_contain_text("▲ 2 provide failed at deploy.erase_devices")
    line.get_by_role("button", name="Retry 2…").click()
    dialog = page.get_by_role("dialog", name="Batch of 2 nodes")
    with page.expect_request("**/v1/batches?plan=true") as sent:
        dialog.get_by_role("button", name="Plan", exact=True).click()
    body = json.loads(sent.value.post_data or "")
    assert (body["expect"], body["nodes"]["held"], len(body["nodes"]["cause"])) == (2, False, 12)
    expect(dialog).to_contain_text("goes first, alone")
    page.keyboard.press("Escape")
    line.get_by_role("link", name="Open 2").click()
    expect(row(page, "alike-0")).to_be_visible()
    expect(row(page, "alike-1")).to_be_visible()
    expect(page.locator(".footer")).to_contain_text(re.compile(r"^\s*2 of "))
    for number in range(2):
        assert live.ask("DELETE", f"/v1/nodes/alike-{number}/maintenance").status_code == 202


def test_one_failed_node_has_the_dialog_of_its_verb(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "single-1", "the only one of its kind")
    uuid = live.get("/v1/nodes/single-1")["uuid"]
    alone = {**CAUSE, "nodes": 1, "sample": [{"uuid": uuid, "name": "single-1"}]}
    answer(page, causes=[alone])
    page.goto(to(live, "/v1/nodes"))
    row(page, "single-1").wait_for()
    now(page).get_by_role("button", name="Retry 1…").click()
    page.get_by_role("dialog", name="Retry single-1").wait_for()
    page.keyboard.press("Escape")
    now(page).get_by_role("link", name="single-1").click()
    expect(page.locator("p.says")).to_contain_text("the only one of its kind")


def test_home_draws_one_row_for_many_failures_from_one_document(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "home-1")
    asked = answer(page)
    whys: list[str] = []
    page.on("request", lambda one: whys.append(one.url) if one.url.endswith("/why") else None)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(to(live, "/v1/nodes"))
    expect(now(page)).to_have_count(2)
    expect(now(page).first).to_contain_text(
        "▲ 300 clean failed at deploy.erase_devices · disk sd#: read-only · "
        "2 retried by the service, 3 silenced"
    )
    expect(now(page).first).to_contain_text("r01-u01 r08-u40 …")
    expect(now(page).nth(1)).to_contain_text("◷ 2 overdue at deploy.erase_devices")
    expect(now(page).nth(1)).to_contain_text("usually 4 min")
    expect(now(page).nth(1).get_by_role("button")).to_have_count(0)
    work = page.get_by_role("list", name="Work").get_by_role("listitem")
    expect(work).to_contain_text(re.compile(r"erase r1 +212/632 ▲2 · ~"))
    bar = page.get_by_role("img", name=re.compile("^Nodes by state: available 3120, active 1400"))
    expect(bar).to_contain_text("available 3120")
    expect(page.locator(".attention")).to_contain_text("silenced: 4 maintenance, 12 held")
    expect(page.locator(".attention")).to_contain_text("276 failures in 24 h")
    trend = page.get_by_role("img", name=re.compile("^Failed runs of the last 24 hours.*: 0, 1, 2"))
    expect(trend.locator("rect")).to_have_count(24)
    box = page.locator(".attention").bounding_box()
    assert box is not None
    assert box["height"] <= 160
    assert (len(asked), whys) == (1, [])


@pytest.mark.own_context
def test_home_is_read_again_after_an_event_and_not_more_often_than_in_five_seconds(
    page: sync_api.Page, live: service.Service
) -> None:
    page.clock.install()
    asked = answer(page)
    page.goto(to(live, "/v1/nodes"))
    now(page).first.wait_for()
    page.clock.run_for(EVENT_MS)
    assert len(asked) == 1
    with page.expect_response(re.compile("/v1/nodes.*uuid=")):
        live.create("again-1")
        for _ in range(20):
            page.clock.run_for(500)
            page.wait_for_timeout(100)
            if page.get_by_role("row", name="again-1").count():
                break
    count = len(asked)
    assert count in (2, 3)
    page.clock.run_for(EVENT_MS - 1000)
    assert len(asked) <= count + 1
    page.clock.run_for(2 * EVENT_MS)
    count = len(asked)
    with page.expect_request(HOME):
        page.clock.run_for(QUIET_MS + 1000)
    assert len(asked) <= count + 2


def test_more_causes_are_shown_on_request(page: sync_api.Page, live: service.Service) -> None:
    many = [{**CAUSE, "cause": f"{number:012x}", "text": f"cause {number}"} for number in range(7)]
    answer(page, causes=many, conductors=[{"hostname": "dead-1", "seen_at": AT}])
    page.goto(to(live, "/v1/nodes"))
    expect(now(page)).to_have_count(3)
    page.get_by_role("button", name="show all 9 lines").click()
    expect(now(page)).to_have_count(8)
    dead = now(page).last
    expect(dead).to_contain_text("conductor dead-1 sends no heartbeat")
    dead.get_by_role("link", name="Doctor").click()
    page.get_by_role("heading", name="Doctor").wait_for()


def test_filtered_fleet_shows_numbers_alone(page: sync_api.Page, live: service.Service) -> None:
    answer(page)
    page.goto(to(live, "/v1/nodes?~q=nothing"))
    attention = page.locator(".attention")
    expect(attention).to_contain_text("▲ 302 nodes need a person · 2 causes · 1 batch")
    expect(now(page)).to_have_count(0)
    attention.get_by_role("button", name="show all").click()
    expect(now(page)).to_have_count(2)


def test_quiet_fleet_says_so_and_shows_its_work(page: sync_api.Page, live: service.Service) -> None:
    answer(page, causes=[], needs_human=0, status="ok")
    page.goto(to(live, "/v1/nodes"))
    expect(page.locator(".attention")).to_contain_text("Nothing needs attention.")
    expect(page.get_by_role("list", name="Work").get_by_role("listitem")).to_have_count(1)


def test_batch_is_paused_at_once(page: sync_api.Page, live: service.Service) -> None:
    answer(page)
    own = f"**/v1/batches/{BATCH['uuid']}"
    place = f"{own}/state"
    page.route(own, lambda route: route.fulfill(json={"state": "running"}))
    page.route(place, lambda route: route.fulfill(json={"state": "paused"}))
    page.goto(to(live, "/v1/nodes"))
    with page.expect_request(place) as sent:
        page.get_by_role("list", name="Work").get_by_role("button", name="Pause").click()
    assert (sent.value.method, sent.value.post_data) == ("PUT", '{"target":"pause"}')
    page.get_by_text("The batch is paused.").wait_for()


@pytest.mark.feature("batches")
def test_paused_batch_is_part_of_the_work(page: sync_api.Page, live: service.Service) -> None:
    for number in range(2):
        live.create(f"work-{number}")
    batch = paused_batch(live, "working", ["work-0", "work-1"])
    page.goto(to(live, "/v1/nodes"))
    item = page.get_by_role("list", name="Work").get_by_role("listitem", name=None)
    item = item.filter(has_text="working")
    expect(item).to_contain_text(re.compile(r"working +1/2 ■ paused"))
    expect(item.get_by_role("button")).to_have_count(0)
    body = {"target": "abort"}
    assert live.ask("PUT", f"/v1/batches/{batch}/state", body).status_code == 200


def test_home_outlasts_a_fault(page: sync_api.Page, live: service.Service, faults: Faults) -> None:
    faults.allow("503")
    count = []

    def fulfil(route: sync_api.Route) -> None:
        count.append(1)
        route.fulfill(json=DOCUMENT) if len(count) == 1 else route.fulfill(status=503, json={})

    page.route(HOME, fulfil)
    page.goto(to(live, "/v1/nodes"))
    expect(now(page)).to_have_count(2)
    with page.expect_response(lambda one: one.status == 503):
        live.create("outlast-1")
    expect(now(page)).to_have_count(2)


def test_hostile_texts_of_machines_are_shown_as_they_are(
    page: sync_api.Page, live: service.Service
) -> None:
    answer(page, causes=[{**CAUSE, "text": "<img src=x onerror=alert(1)> \u202eevil"}])
    page.goto(to(live, "/v1/nodes"))
    expect(now(page)).to_contain_text("<img src=x onerror=alert(1)> \u2039U+202E\u203aevil")


@pytest.mark.parametrize("width", [320, 390])
def test_home_fits_a_narrow_screen(open_page: OpenPage, live: service.Service, width: int) -> None:
    page = open_page(live, viewport={"width": width, "height": 844})
    answer(page, causes=[{**CAUSE, "text": f"disk {'w' * 90}"}])
    page.goto(to(live, "/v1/nodes"))
    expect(now(page).get_by_role("link", name="Open 300")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
