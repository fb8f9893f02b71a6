"""Answers that fail, come late or come twice: the window says so, and goes on by itself."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import (
    ERASE,
    dialog_of,
    edit,
    endless_cleaning,
    failed_node,
    paused_batch,
    press,
    refused,
    row,
    to,
)
from tests.window.conftest import Faults, OpenPage, expect

AWAY: dict[str, Any] = {
    "status": 503,
    "json": {"error_message": {"faultstring": "The database is away."}},
}
OF_UUIDS = re.compile(r"/v1/nodes\?.*uuid=")
"""Requests for nodes that events have named."""
LEAST_PAUSES = 0.25 + 0.5 + 1
"""Seconds between the first four tries of a feed."""


def held_back(page: sync_api.Page, pattern: str | re.Pattern[str]) -> list[sync_api.Route]:
    """Hold requests back; return those that have come, as they come."""
    found: list[sync_api.Route] = []

    def hold(route: sync_api.Route) -> None:
        found.append(route)

    page.route(pattern, hold)
    return found


@contextlib.contextmanager
def lost(page: sync_api.Page, pattern: str, **answer: Any) -> Iterator[None]:
    """Answer requests with an error, or with nothing at all, while the block runs."""
    page.route(pattern, lambda route: route.fulfill(**answer) if answer else route.abort())
    yield
    page.unroute(pattern)


def until(page: sync_api.Page, ask: Callable[[], bool], about: str) -> None:
    """Wait until ``ask`` returns true, and let the page go on meanwhile."""

    def look() -> bool:
        page.wait_for_timeout(50)
        return ask()

    service.until(look, about)


def settled(live: service.Service, name: str, state: str) -> None:
    """Wait until a node is in a state."""
    path = f"/v1/nodes/{name}"
    service.until(lambda: live.get(path)["provision_state"] == state, f"{name} {state}")


@contextlib.contextmanager
def stopped(live: service.Service) -> Iterator[None]:
    """Let the processes of the service hang: they keep their sockets and answer nothing."""
    processes = [one for program in live.running() for one in service.family(program.pid)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


SILENCE_MS = 21_000


@pytest.mark.own_context
def test_service_that_hangs_is_told_once_and_ages_stop_until_it_answers(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("hung-1")
    page.clock.install()
    dialog = dialog_of(page, live, "hung-1", "Hold…")
    dialog.get_by_label("Reason").fill("a fan")
    send = dialog.get_by_role("button", name="Hold hung-1")
    expect(send).to_be_enabled()
    expect(page.locator(".connection")).to_contain_text("live")
    told = page.locator(".bar").get_by_role("alert")
    text = re.compile(r"^No answer since \d\d:\d\d, last data \d\d:\d\d:\d\d(?!\.)")
    with stopped(live):
        page.clock.fast_forward(SILENCE_MS)
        expect(dialog).to_contain_text("Nothing can be sent.")
        expect(send).to_be_disabled()
        dialog.get_by_role("button", name="Cancel").click()
        expect(told).to_contain_text(text)
        expect(page.locator(".connection")).to_have_text("○ offline")
        expect(page.locator(".fault")).to_have_count(0)
        manage = refused(page, "Manage…")
        expect(manage).to_have_attribute("title", text)
        manage.press("Enter")
        expect(page.locator(".live")).to_contain_text("No answer since")
        expect(page.get_by_role("dialog")).to_have_count(0)
        age = page.locator(".node-head time").first
        known = age.inner_text()
        page.clock.fast_forward(600_000)
        assert age.inner_text() == known
        with page.expect_request("**/v1"):
            told.get_by_role("button", name="Try now").click()
    expect(told).to_have_count(0)
    expect(age).not_to_have_text(known)
    press(page, "Manage…")
    page.get_by_role("dialog", name="Manage hung-1").wait_for()
    faults.allow("net::ERR_")


@pytest.mark.own_context
def test_hung_service_is_noticed_by_a_page_without_a_feed(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    page.clock.install()
    page.goto(to(live, "/v1/stats/steps"))
    page.get_by_role("heading", name="Steps").wait_for()
    told = page.locator(".bar").get_by_role("alert")
    with stopped(live):
        with page.expect_request("**/v1/doctor*"):
            page.get_by_role("link", name="Doctor", exact=True).click()
        page.clock.fast_forward(SILENCE_MS)
        expect(told).to_contain_text("No answer since")
        expect(page.get_by_role("alert")).to_have_count(1)
    expect(told).to_have_count(0)
    page.get_by_role("heading", name="Doctor").wait_for()
    page.locator(".checks li").first.wait_for()
    faults.allow("net::ERR_")


def test_lost_request_is_no_lost_service(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("one-lost-1")
    dialog = dialog_of(page, live, "one-lost-1", "Hold…")
    dialog.get_by_label("Reason").fill("a fan")
    with lost(page, "**/v1/nodes/*/holds"):
        with page.expect_response("**/v1"):
            dialog.get_by_role("button", name="Hold one-lost-1").click()
        expect(page.locator(".connection")).not_to_contain_text("offline")
        expect(page.locator(".bar").get_by_role("alert")).to_have_count(0)
    page.locator(".held-mark").wait_for()
    faults.allow("net::ERR_")


def test_fleet_that_was_opened_while_the_service_is_away_appears_by_itself(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("early-1")
    for pattern in ("**/v1/events?since=now", "**/v1/nodes?limit=*"):
        with lost(page, pattern):
            page.goto("about:blank")
            page.goto(to(live, "/v1/nodes?~q=early-"))
            expect(page.locator(".fault")).to_contain_text("Is the service up?")
        row(page, "early-1").wait_for()
        expect(page.locator(".fault")).to_have_count(0)
    faults.allow("net::ERR_")


def test_events_that_were_opened_while_the_service_is_away_appear_by_themselves(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("early-2")
    with lost(page, "**/v1/events?*limit=200", **AWAY):
        page.goto(to(live, "/v1/events"))
        fault = page.locator(".fault")
        expect(fault).to_contain_text("The database is away.")
    expect(page.locator(".activity")).to_contain_text("early-2")
    expect(fault).to_have_count(0)
    faults.allow("503")


def test_palette_of_a_cold_page_begins_no_second_feed(
    page: sync_api.Page, live: service.Service
) -> None:
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    waiting = held_back(page, "**/v1/events?since=now")
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("button", name="Find…").click()
    page.get_by_role("dialog").wait_for()
    with page.expect_request("**/v1/stats/nodes*"):
        for route in waiting:
            route.continue_()
    assert sum(url.endswith("/v1/events?since=now") for url in asked) == 1


def test_page_of_a_node_keeps_what_it_shows_while_the_service_is_away(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("kept-2")
    with lost(page, "**/v1/nodes/kept-2/why", **AWAY):
        page.goto(to(live, "/v1/nodes/kept-2"))
        fault = page.locator(".fault")
        expect(fault).to_contain_text("The database is away.")
    page.get_by_role("heading", name="kept-2").wait_for()
    expect(fault).to_have_count(0)
    with lost(page, "**/v1/nodes/kept-2/why", **AWAY):
        live.ask("PATCH", "/v1/nodes/kept-2", [{"op": "add", "path": "/extra/a", "value": 1}])
        live.provision("kept-2", "manage", "manageable")
        fault.wait_for()
        page.get_by_role("heading", name="kept-2").wait_for()
    page.locator(".node-head .state").get_by_text("manageable").wait_for()
    expect(fault).to_have_count(0)
    faults.allow("503")


def test_node_that_is_renamed_keeps_its_page(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("before-1")
    page.goto(to(live, "/v1/nodes/before-1"))
    page.get_by_role("heading", name="before-1").wait_for()
    # The page has read the node by its first name, and hears of changes from then on.
    with (
        page.expect_request("**/v1/events?*follow=true*"),
        page.expect_response("**/v1/nodes/before-1"),
        page.expect_response("**/v1/nodes/before-1/why"),
    ):
        page.reload()
    patch = [{"op": "replace", "path": "/name", "value": "after-1"}]
    assert live.ask("PATCH", "/v1/nodes/before-1", patch).status_code == 200
    live.provision("after-1", "manage", "manageable")
    page.get_by_role("heading", name="after-1").wait_for()
    assert page.url.endswith("/after-1")
    faults.allow("404")


def test_late_answer_does_not_bring_a_deleted_node_back(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("ghost-1")
    page.goto(to(live, "/v1/nodes?~q=ghost-"))
    row(page, "ghost-1").wait_for()
    asked = held_back(page, OF_UUIDS)
    with page.expect_request(OF_UUIDS):
        live.provision("ghost-1", "manage", "manageable")
    expect(row(page, "ghost-1")).to_contain_text("manageable")
    late = asked[0].fetch()
    with page.expect_request(OF_UUIDS):
        assert live.ask("DELETE", "/v1/nodes/ghost-1").status_code == 204
    expect(row(page, "ghost-1")).to_have_count(0)
    asked[0].fulfill(response=late)
    row(page, "ghost-1").wait_for()
    for route in asked[1:]:
        route.continue_()
    expect(row(page, "ghost-1")).to_have_count(0)


def test_filter_that_the_api_refuses_shows_the_error_and_no_rows(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("refused-1")
    page.goto(to(live, "/v1/nodes?~q=refused-"))
    row(page, "refused-1").wait_for()
    page.evaluate("location.hash = '#/v1/nodes?colour=red'")
    expect(page.locator(".fault")).to_contain_text("colour")
    expect(page.get_by_role("grid", name="Nodes").locator(".body .row")).to_have_count(0)
    expect(page.get_by_role("main")).not_to_contain_text("No node matches")
    faults.allow("400")


def test_rows_of_a_filter_of_the_api_are_shown_when_they_are_known(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("slow-1")
    page.goto(to(live, "/v1/nodes?~q=slow-"))
    row(page, "slow-1").wait_for()
    waiting = held_back(page, "**/v1/nodes?held=true*")
    with page.expect_request("**/v1/nodes?held=true*"):
        page.evaluate("location.hash = '#/v1/nodes?held=true'")
    expect(page.get_by_role("grid", name="Nodes").locator(".body .row")).to_have_count(0)
    for route in waiting:
        route.continue_()


def test_rows_of_a_filter_of_the_api_stay_while_the_service_is_away(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("stays-1")
    hold = {"kind": "hardware", "reason": "a fan"}
    assert live.ask("POST", "/v1/nodes/stays-1/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes?held=true&~q=stays-"))
    row(page, "stays-1").wait_for()
    with lost(page, "**/v1/nodes?held=true*", **AWAY):
        fault = page.locator(".fault")
        expect(fault).to_contain_text("The database is away.")
        expect(row(page, "stays-1")).to_have_count(1)
    expect(fault).to_have_count(0)
    faults.allow("503")


def test_log_goes_on_after_its_stream_was_cut_and_says_why_it_is_missing(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    with endless_cleaning(live, "lost-log-1"):
        with lost(page, "**/log?follow=true", **AWAY):
            page.goto(to(live, "/v1/nodes/lost-log-1?~tab=log"))
            expect(page.locator(".fault")).to_contain_text("The database is away.")
            log = page.get_by_role("log")
            expect(log).not_to_contain_text("No line yet")
        empty: dict[str, Any] = {"status": 200, "body": "", "content_type": "text/plain"}
        with lost(page, "**/log?follow=true", **empty):
            expect(page.locator(".fault")).to_have_count(0)
        log.get_by_text("erase_devices_metadata begins").wait_for()
        expect(page.locator(".fault")).to_have_count(0)
    faults.allow("503")


def test_date_to_wait_for_is_no_reason_to_ask_without_a_pause(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    asked: list[float] = []
    away = {**AWAY, "headers": {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}}

    def refuse(route: sync_api.Route) -> None:
        asked.append(time.monotonic())
        route.fulfill(**away)

    page.route("**/v1/events?*follow=true*", refuse)
    page.goto(to(live, "/v1/nodes"))
    expect(page.locator(".connection")).to_contain_text("offline")
    until(page, lambda: len(asked) > 3, "four tries")
    assert asked[3] - asked[0] > LEAST_PAUSES
    faults.allow("503")


def test_refusal_of_a_proxy_is_shown_and_loses_no_form(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("lost-hold-1")
    page.goto(to(live, "/v1/nodes/lost-hold-1"))
    press(page, "Hold…")
    large: dict[str, Any] = {"status": 413, "body": "<p>Too large", "content_type": "text/html"}
    page.route("**/v1/nodes/*/holds", lambda route: route.fulfill(**large))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("a fan")
    dialog.get_by_role("button", name="Hold lost-hold-1").click()
    expect(dialog.locator(".fault")).to_contain_text("HTTP 413")
    expect(dialog.get_by_label("Reason")).to_have_value("a fan")
    faults.allow("413")


def test_estimate_that_is_over_says_how_late_the_run_is(
    page: sync_api.Page, live: service.Service
) -> None:
    with endless_cleaning(live, "over-1"):
        (run,) = live.get("/v1/nodes/over-1/runs?limit=1")["runs"]
        document = live.get(f"/v1/runs/{run['uuid']}")
        past = "2026-01-01T00:00:00+00:00"
        document["eta"] = {"ends_at": past, "late_at": "2999-01-01T00:00:00+00:00"}
        page.route(f"**/v1/runs/{run['uuid']}", lambda route: route.fulfill(json=document))
        page.goto(to(live, f"/v1/runs/{run['uuid']}"))
        head = page.locator(".run-head")
        expect(head).to_contain_text("at the latest")
        expect(head).not_to_contain_text("~")
        document["eta"]["late_at"] = past
        expect(head).to_contain_text(re.compile(r"late by \d+ d"))


def test_age_in_a_sentence_does_not_stand_beside_the_age_that_goes_on(
    page: sync_api.Page, live: service.Service
) -> None:
    with endless_cleaning(live, "aged-1"):
        aged = re.compile(r"waits for the machine for \d+ second")
        service.until(lambda: aged.search(live.get("/v1/nodes/aged-1/why")["says"]), "its age")
        page.goto(to(live, "/v1/nodes/aged-1"))
        says = page.locator("p.says")
        expect(says).to_contain_text("Cleaning waits for the machine, at step 1 of 2")


def test_aborted_erase_says_that_the_disks_may_be_partly_erased(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("lost-half-1")
    live.provision("lost-half-1", "manage", "manageable")
    edit(live, "lost-half-1", {"fake_async_steps": [ERASE], "fake_step_seconds": 3600})
    steps = [{"interface": "deploy", "step": "erase_devices"}]
    path = "/v1/nodes/lost-half-1/states/provision"
    for body, state in (
        ({"target": "clean", "clean_steps": steps}, "clean wait"),
        ({"target": "abort"}, "clean failed"),
    ):
        assert live.ask("PUT", path, body).status_code == 202
        settled(live, "lost-half-1", state)
    page.goto(to(live, "/v1/nodes/lost-half-1"))
    expect(page.locator("p.says")).to_contain_text("The disks may be partly erased.")


def test_node_in_an_open_batch_is_refused_by_names(
    page: sync_api.Page, live: service.Service
) -> None:
    uuids = [live.create(name) for name in ("taken-1", "taken-2")]
    batch = paused_batch(live, "night shift", ["taken-1", "taken-2"])
    page.goto(to(live, "/v1/nodes?~q=taken-2"))
    page.get_by_role("checkbox", name="Select taken-2").check()
    page.get_by_role("button", name="Power…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("power on")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    fault = dialog.locator("ul > li")
    expect(fault).to_contain_text("node taken-2 does not allow this")
    expect(fault).to_contain_text("in the open batch night shift;")
    for uuid in (*uuids, batch):
        expect(fault).not_to_contain_text(uuid)
    live.ask("PUT", f"/v1/batches/{batch}/state", {"target": "abort"})


def test_all_pages_of_holds_are_read(page: sync_api.Page, live: service.Service) -> None:
    uuids = [live.create(f"paged-{at}") for at in range(2)]
    for uuid in uuids:
        hold = {"kind": "hardware", "reason": "a fan"}
        assert live.ask("POST", f"/v1/nodes/{uuid}/holds", hold).status_code == 201
    all_holds = live.get("/v1/holds?limit=1000")["holds"]

    def answer(route: sync_api.Route) -> None:
        if "marker=" in route.request.url:
            route.fulfill(json={"holds": all_holds[1:]})
        else:
            more = f"{live.url}/v1/holds?limit=1000&marker=x"
            route.fulfill(json={"holds": all_holds[:1], "next": more})

    page.route(re.compile(r"/v1/holds(\?|$)"), answer)
    page.goto(to(live, "/v1/nodes?~q=paged-"))
    for at in range(2):
        expect(row(page, f"paged-{at}")).to_contain_text("HELD")
    for uuid in uuids:
        for hold in live.get(f"/v1/nodes/{uuid}/holds")["holds"]:
            live.ask("DELETE", f"/v1/nodes/{uuid}/holds/{hold['uuid']}?reason=done")


def test_unknown_fragment_shows_the_fleet(page: sync_api.Page, live: service.Service) -> None:
    page.goto(f"{live.url}/ui/#/v2/runs")
    page.get_by_role("grid", name="Nodes").wait_for()


@pytest.mark.own_context
def test_settings_of_one_tab_do_not_undo_those_of_another(
    page: sync_api.Page, live: service.Service
) -> None:
    other = page.context.new_page()
    for tab in (page, other):
        tab.goto(to(live, "/v1/whoami"))
        tab.get_by_role("heading", name="Settings").wait_for()
    page.evaluate("""() => {
      const old = JSON.parse(localStorage.getItem("ironic-lite"));
      const views = { mine: "#/v1/nodes" };
      localStorage.setItem("ironic-lite", JSON.stringify({ ...old, views }));
    }""")
    other.get_by_role("link", name="mine").wait_for()
    other.get_by_label("Show times in UTC").check()
    stored = json.loads(other.evaluate('localStorage.getItem("ironic-lite")'))
    assert (stored["utc"], stored["views"]) == (True, {"mine": "#/v1/nodes"})


@pytest.mark.own_context
def test_part_that_comes_while_a_page_is_drawn_is_shown(
    page: sync_api.Page, live: service.Service
) -> None:
    held = held_back(page, "**/lists.js")
    page.clock.install()
    with page.expect_request("**/lists.js") as asked:
        page.goto(to(live, "/v1/nodes"))
    # Effects of what is drawn wait for a frame, and frames for the clock.
    page.clock.pause_at(datetime.datetime.now() + datetime.timedelta(hours=1))
    page.get_by_role("link", name="Doctor", exact=True).click()
    page.get_by_role("img", name="Loading").first.wait_for()
    held[0].continue_()
    page.evaluate("async one => { await import(one); }", asked.value.url)
    page.clock.resume()
    page.get_by_role("heading", name="Doctor").wait_for()


def test_hold_ends_at_the_time_of_the_zone_that_is_shown(
    open_page: OpenPage, live: service.Service
) -> None:
    live.create("until-1")
    page = open_page(live, timezone_id="Asia/Tokyo")
    for utc, hours in ((False, "18"), (True, "03")):
        page.goto(to(live, "/v1/whoami"))
        page.get_by_label("Show times in UTC").set_checked(utc)
        dialog = dialog_of(page, live, "until-1", "Hold…")
        dialog.get_by_label("Until").fill("2099-01-02T03:00")
        copied = dialog.get_by_role("button", name="Copy as curl")
        expect(copied).to_have_attribute("title", re.compile(rf"-0[12]T{hours}:00:00.000Z"))
        page.keyboard.press("Escape")


def test_other_driver_gets_nothing_that_was_typed_for_the_first(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("button", name="Enroll…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Driver").select_option("ipmi")
    dialog.get_by_label("ipmi_address", exact=True).fill("192.0.2.7")
    copied = dialog.get_by_role("button", name="Copy as curl")
    expect(copied).to_have_attribute("title", re.compile("192.0.2.7"))
    dialog.get_by_label("Driver").select_option("fake-hardware")
    expect(copied).not_to_have_attribute("title", re.compile("192.0.2.7"))


def test_patch_of_a_secret_is_copied_with_a_variable(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("patch-1")
    page.goto(to(live, "/v1/nodes/patch-1?~tab=fields"))
    page.get_by_text("Change fields").click()
    path = "/driver_info/ipmi_password"
    patch = [{"op": "add", "path": path, "value": "s3cret-1"}]
    page.get_by_label("JSON Patch").fill(json.dumps(patch))
    text = page.locator("section details button.curl").get_attribute("title") or ""
    assert "s3cret-1" not in text
    assert '"$IPMI_PASSWORD"' in text


def test_escape_in_the_filter_keeps_the_selection(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("picked-1")
    page.goto(to(live, "/v1/nodes?~q=picked-"))
    page.get_by_role("checkbox", name="Select picked-1").check()
    page.get_by_role("searchbox").press("Escape")
    expect(page.get_by_role("searchbox")).to_have_value("")
    expect(page.locator(".bulk")).to_contain_text("1 selected")
    page.locator(".grid").press("Escape")
    expect(page.locator(".bulk")).not_to_contain_text("1 selected")


def test_page_of_the_fleet_has_no_scroll_bar_beside_that_of_its_rows(
    open_page: OpenPage, live: service.Service
) -> None:
    for at in range(6):
        failed_node(live, f"bars-{at}")
    page = open_page(live, viewport={"width": 1280, "height": 600})
    page.goto(to(live, "/v1/nodes"))
    expect(page.locator(".attention")).to_contain_text("disk # does not answer")
    tall = "document.documentElement.scrollHeight - innerHeight"
    until(page, lambda: page.evaluate(tall) <= 0, "the height")


def test_header_of_a_narrow_page_stays_at_the_top(
    open_page: OpenPage, live: service.Service
) -> None:
    for at in range(4):
        failed_node(live, f"sticky-{at}")
    page = open_page(live, viewport={"width": 320, "height": 500})
    page.goto(to(live, "/v1/nodes"))
    page.locator(".attention li").first.wait_for()
    page.locator(".grid .row").nth(3).wait_for()
    select_all, name = page.get_by_role("columnheader").all()[:2]
    ends, begins = select_all.bounding_box(), name.bounding_box()
    assert ends is not None
    assert begins is not None
    assert ends["x"] + ends["width"] <= begins["x"]
    page.evaluate("scrollTo(0, 1000)")
    assert page.evaluate("scrollY") > 100
    box = page.locator("header.bar").bounding_box()
    assert box is not None
    assert box["y"] == 0


def test_dark_page_is_printed_with_dark_letters(page: sync_api.Page, live: service.Service) -> None:
    page.goto(to(live, "/v1/whoami"))
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    page.get_by_role("button", name="Theme: dark").wait_for()
    scheme = "getComputedStyle(document.documentElement).colorScheme"
    assert page.evaluate(scheme) == "dark"
    page.emulate_media(media="print")
    assert page.evaluate(scheme) == "light"


def test_error_names_the_nodes_that_the_page_knows(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    uuid = live.create("known-1")
    page.goto(to(live, "/v1/nodes?~q=known-"))
    page.get_by_role("checkbox", name="Select known-1").check()
    page.get_by_role("button", name="Power…").click()
    refusal = {"error_message": {"faultstring": f"Node {uuid} is locked."}}
    answer: dict[str, Any] = {"status": 409, "json": refusal}
    page.route("**/v1/batches?plan=true", lambda route: route.fulfill(**answer))
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("power on")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog.locator(".fault")).to_contain_text("Node known-1 is locked.")
    faults.allow("409")


SLOW_MS = 3000
"""Longer than a page of a batch waits between two readings."""


def test_answers_that_are_slower_than_the_period_of_readings_arrive(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("slower-1")
    live.create("slower-2")
    batch = paused_batch(live, "slow", ["slower-1", "slower-2"])
    kept: list[tuple[sync_api.Route, float]] = []
    page.route(f"**/v1/batches/{batch}", lambda route: kept.append((route, time.monotonic())))
    page.goto(to(live, f"/v1/batches/{batch}"))

    def shown() -> bool:
        while kept and time.monotonic() - kept[0][1] > SLOW_MS / 1000:
            route, _ = kept.pop(0)
            with contextlib.suppress(sync_api.Error):  # The page no longer waits for it.
                route.continue_()
        return page.get_by_role("heading", name="slow").is_visible()

    until(page, shown, "the batch, by slow answers")


def test_attention_that_fails_is_shown_as_old(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    page.goto(to(live, "/v1/nodes"))
    home = page.get_by_role("region", name="Needs attention")
    expect(home).to_be_visible()
    faults.allow("503")
    with lost(page, "**/v1/attention", **AWAY):
        live.create("old-1")
        expect(home.get_by_role("alert")).to_contain_text("The database is away.")
        expect(home.get_by_role("alert")).to_contain_text(
            re.compile(r"Old: what is shown was read at \d\d:\d\d:\d\d")
        )
    live.create("old-2")
    expect(home.get_by_role("alert")).to_have_count(0)


def test_attention_that_was_never_read_does_not_look_like_nothing_to_do(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("503")
    page.route("**/v1/attention", lambda route: route.fulfill(**AWAY))
    page.goto(to(live, "/v1/nodes"))
    expect(page.get_by_role("alert")).to_contain_text("The database is away.")


def test_page_doctor_says_when_the_service_has_looked(
    page: sync_api.Page, live: service.Service
) -> None:
    answer = live.get("/v1/doctor")
    old = {**answer, "at": "2020-01-02T03:04:05+00:00"}
    page.route("**/v1/doctor", lambda route: route.fulfill(json=old))
    page.goto(to(live, "/v1/doctor"))
    tools = page.locator("main .tools").first
    expect(tools).to_contain_text(re.compile(r"Read \d\d:04:05, \d+ d"))
    page.unroute("**/v1/doctor")
    tools.get_by_role("button", name="Read again").click()
    expect(tools).not_to_contain_text(re.compile(r"\d d"))


def test_inventory_is_read_again_after_an_inspection(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("404")
    live.create("stale-1")
    live.provision("stale-1", "manage", "manageable")
    page.goto(to(live, "/v1/nodes/stale-1/inventory"))
    expect(page.get_by_text("Not inspected yet.")).to_be_visible()
    expect(page.get_by_role("term").filter(has_text="Inspected")).to_have_count(0)
    live.provision("stale-1", "inspect", "manageable")
    expect(page.get_by_text("Not inspected yet.")).to_have_count(0)
