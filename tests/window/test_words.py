"""What an operator reads in the window: filters that say so, outcomes, and times."""

from __future__ import annotations

import re

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import (
    confirm,
    dialog_of,
    edit,
    endless_cleaning,
    failed_node,
    paused_batch,
    press,
    row,
    shown,
    to,
)
from tests.window.conftest import Faults, OpenPage, expect


def test_filter_of_held_nodes_is_cleared_by_one_chip(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("word-1")
    live.create("word-2")
    hold = {"kind": "freeze", "reason": "smoke in row 2"}
    assert live.ask("POST", "/v1/nodes/word-1/holds", hold).status_code == 201
    page.goto(to(live, "/v1/nodes?held=true"))
    row(page, "word-1").wait_for()
    expect(row(page, "word-2")).to_have_count(0)
    page.get_by_role("searchbox").fill("no such name")
    page.get_by_text("No node matches").wait_for()
    page.locator(".chips").get_by_role("button", name=re.compile(r"^all \d")).click()
    expect(page.get_by_role("searchbox")).to_have_value("")
    assert "held" not in page.url
    page.get_by_role("searchbox").fill("word-")  # A long table draws the rows on the screen alone.
    row(page, "word-2").wait_for()
    assert live.ask("DELETE", f"/v1/nodes/word-1/holds/{held(live)}").status_code == 204


def held(live: service.Service) -> str:
    """Return the UUID of the hold in force of the first node."""
    (one,) = live.get("/v1/nodes/word-1/holds")["holds"]
    return str(one["uuid"])


def test_retry_that_fails_again_is_told(page: sync_api.Page, live: service.Service) -> None:
    failed_node(live, "twice-1")
    page.goto(to(live, "/v1/nodes/twice-1"))
    press(page, "Retry…")
    confirm(page, "Retry twice-1", typed="twice-1")
    told = page.locator(".live p", has_text="Retry of twice-1: failed")
    # The page shows it: the message is for screen readers.
    expect(told).to_have_class("unseen")
    expect(page.locator(".run")).to_contain_text("The retry failed again, with the same cause.")
    page.locator(".tabs").get_by_role("link", name="Activity").click()
    expect(page.locator(".activity")).to_contain_text("Provide, retry")


def test_end_of_an_act_stays_in_the_tray_on_other_pages(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "follow-1")
    dialog = dialog_of(page, live, "follow-1", "Retry…")
    dialog.get_by_label("Type the name of the node").fill("follow-1")
    with page.expect_response("**/states/provision"):
        dialog.get_by_role("button", name="Retry follow-1").click()
    page.get_by_role("link", name="Doctor", exact=True).click()
    told = page.locator(".live p")
    expect(told).to_contain_text("Retry of follow-1: failed")
    expect(told).to_have_class("unseen")
    expect(page.locator(".tray summary")).to_have_text("1 failed")
    page.get_by_role("link", name="Activity", exact=True).click()
    expect(page.locator(".tray summary")).to_have_text("1 failed")
    page.evaluate("location.hash = '#/v1/nodes/follow-1'")
    page.get_by_role("heading", name="follow-1").wait_for()
    press(page, "Hold…")
    page.get_by_role("dialog").get_by_label("Reason").fill("a fan")
    page.get_by_role("button", name="Hold follow-1").click()
    expect(told).to_contain_text("follow-1 is held. Undo")


def test_entry_of_a_batch_is_paused_until_the_batch_goes_on(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("goes-on-1", "goes-on-2"):
        live.create(name)
    page.goto(to(live, "/v1/nodes?~q=goes-on-"))
    for name in ("goes-on-1", "goes-on-2"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("button", name="Batch…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Request").select_option("manage")
    dialog.get_by_label("Waves").select_option("all at once")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    with page.expect_response(lambda one: one.url.endswith("/v1/batches")) as begun:
        dialog.get_by_role("button", name="Manage 2 nodes").click()
    batch = begun.value.json()["uuid"]
    state = {"state": "paused", "error": None, "ended_at": None}
    own = f"**/v1/batches/{batch}"
    page.route(own, lambda route: route.fulfill(json=live.get(f"/v1/batches/{batch}") | state))
    page.get_by_role("link", name="Doctor", exact=True).click()
    page.locator(".tray summary").click()
    entry = page.locator(".tray li")
    expect(entry).to_contain_text("Manage of 2 nodes")
    expect(entry).to_contain_text("paused")
    expect(entry).to_have_class("running")
    state["state"] = "running"
    expect(entry).not_to_contain_text("paused")
    page.unroute(own)
    expect(entry).to_have_class("done")


def test_times_are_local_with_their_zone_and_utc_in_the_title(
    open_page: OpenPage, live: service.Service
) -> None:
    failed_node(live, "zone-1")
    page = open_page(live, timezone_id="Asia/Tokyo")
    page.goto(to(live, "/v1/nodes/zone-1/runs"))
    shown(page)
    expect(page.locator(".activity h2")).to_have_text(re.compile(r"\d{4}, (GMT\+9|JST)$"))
    begun = page.locator(".activity li > time").first
    expect(begun).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(begun).to_have_attribute("title", re.compile(r"\d\.\d{3} UTC$"))
    page.get_by_role("link", name="Log", exact=True).click()
    line = page.get_by_role("log").locator("time").first
    expect(line).to_have_attribute("title", re.compile(r"\d\.\d{3} UTC$"))
    hours, minutes = line.inner_text().split(":")[:2]
    there = (line.get_attribute("title") or "").split(":")[0][-2:]
    assert int(hours) == (int(there) + 9) % 24
    assert f":{minutes}:" in (line.get_attribute("title") or "")


def test_times_are_shown_in_utc_by_a_switch(open_page: OpenPage, live: service.Service) -> None:
    failed_node(live, "zone-2")
    page = open_page(live, timezone_id="Asia/Tokyo")
    page.goto(to(live, "/v1/whoami"))
    page.get_by_label("Show times in UTC").check()
    page.goto(to(live, "/v1/nodes/zone-2/runs"))
    expect(page.locator(".activity h2").first).to_have_text(re.compile("UTC$"))
    expect(page.locator(".node-head time")).to_have_attribute("title", re.compile("UTC$"))


# A log of few lines, which can be scrolled nevertheless; it is at its end.
LOW = """async one => {
  one.style.height = "50px";
  one.scrollTop = one.scrollHeight;
  await new Promise(requestAnimationFrame);
}"""


# The page scrolls after it has drawn.
SCROLLED = """async one => {
  for (let left = 1000; left && !one.scrollTop; left -= 1) await new Promise(requestAnimationFrame);
  return one.scrollTop > 0;
}"""


def test_log_is_not_followed_while_its_user_reads_above_its_end(
    page: sync_api.Page, live: service.Service
) -> None:
    log = page.get_by_role("log")
    with endless_cleaning(live, "read-1"):
        page.goto(to(live, "/v1/nodes/read-1?~tab=log"))
        log.get_by_text("erase_devices_metadata begins").wait_for()
        log.evaluate(LOW)
        log.evaluate("one => { one.scrollTop = 0; }")
    # Its end adds lines.
    new = page.get_by_role("button", name=re.compile(r"^\d+ new lines?$"))
    new.wait_for()
    assert log.evaluate("one => one.scrollTop") == 0
    new.click()
    expect(new).to_have_count(0)
    assert log.evaluate(SCROLLED)


FADES = """window.faded = [];
const animate = Element.prototype.animate;
Element.prototype.animate = function (...all) {
  window.faded.push(this.textContent);
  return animate.apply(this, all);
};"""


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_changed_cell_fades_in_unless_motion_is_reduced(
    open_page: OpenPage, live: service.Service, motion: str
) -> None:
    name = f"fades-{motion}"
    live.create(name)
    live.provision(name, "manage", "manageable")
    page = open_page(live, reduced_motion=motion)
    page.add_init_script(FADES)
    page.goto(to(live, f"/v1/nodes?~q={name}"))
    row(page, name).wait_for()
    page.evaluate("window.faded = []")
    # An age that goes on is no change.
    since = row(page, name).locator(".provision_updated_at")
    expect(since).not_to_have_text(since.inner_text())
    patch = [{"op": "add", "path": "/resource_class", "value": "blue"}]
    assert live.ask("PATCH", f"/v1/nodes/{name}", patch).status_code == 200
    row(page, name).get_by_text("blue").wait_for()
    assert page.evaluate("window.faded") == (["blue"] if motion == "no-preference" else [])


RULE = "Overdue: past its deadline, or longer than 15 minutes"


def test_rule_of_overdue_steps_stands_where_the_word_does(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "overdue-rule-1")
    (run,) = live.get("/v1/nodes/overdue-rule-1/runs?limit=1")["runs"]
    document = live.get(f"/v1/runs/{run['uuid']}")
    document["steps"][0]["overdue"] = {"since": document["started_at"], "usual_p90": 1}
    page.route(f"**/v1/runs/{run['uuid']}", lambda route: route.fulfill(json=document))
    page.goto(to(live, f"/v1/runs/{run['uuid']}"))
    steps = page.get_by_role("list", name="Steps").get_by_role("listitem")
    expect(steps.first).to_contain_text("◷ overdue")
    expect(steps.first).to_contain_text(RULE)
    expect(steps.last).not_to_contain_text(RULE)
    page.goto(to(live, "/v1/runs"))
    main = page.get_by_role("main")
    expect(main).not_to_contain_text(RULE)
    page.get_by_label("Overdue").select_option("true")
    expect(main).to_contain_text(RULE)


def test_step_that_never_ended_well_has_no_usual_time(
    page: sync_api.Page, live: service.Service
) -> None:
    named = {"interface": "deploy", "step": "melt", "kind": "clean", "driver": "fake-hardware"}
    times = {"p50": None, "p90": None, "longest": None}
    row = {**named, **times, "resource_class": None, "count": 0, "failed": 1, "codes": {"Hot": 1}}
    page.route("**/v1/stats/steps", lambda route: route.fulfill(json={"steps": [row]}))
    page.goto(to(live, "/v1/stats/steps"))
    cells = page.get_by_role("region", name="Steps").get_by_role("cell")
    texts = ["deploy.melt", "clean", "fake-hardware", "", "0", "1", "", "", "", "Hot 1"]
    expect(cells).to_have_text(texts)


def test_runs_are_chosen_by_the_time_of_their_begin(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "range-1")
    page.goto(to(live, "/v1/runs?node=range-1"))
    rows = page.get_by_role("region", name="Runs").locator("tbody tr:not(.day)")
    expect(rows).to_have_count(2)
    for label, value in (("Begun before", "PT1H"), ("Begun since", "2099-01-01")):
        page.get_by_label(label).fill(value)
        page.keyboard.press("Enter")
        page.get_by_text("No run matches.").wait_for()
        page.get_by_label(label).fill("")
        page.keyboard.press("Enter")
        expect(rows).to_have_count(2)


def test_all_events_that_are_kept_are_shown_once(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("kept-1")
    live.provision("kept-1", "manage", "manageable")
    entries = page.locator(".activity li")
    with page.expect_request(lambda one: "follow=true" in one.url):
        page.goto(to(live, "/v1/events?node=kept-1&since=0"))
    live.provision("kept-1", "provide", "available")
    found = live.get("/v1/events?node=kept-1&since=0&limit=1000")["events"]
    assert found[0]["kind"] == "node_created"
    expect(entries.first).to_contain_text(re.compile("Provide.*done"))
    expect(entries).to_have_count(len({one["run"] or one["cursor"] for one in found}))
    expect(entries.last).to_contain_text("Enrolled")
    copied = page.locator(".tools .curl[title*=follow], .tools .curl[title*=since]").first
    expect(copied).to_have_attribute("title", re.compile(r"/v1/events\?node=kept-1&since=0'"))


@pytest.mark.own_context
def test_end_of_a_long_run_is_shown_by_the_tray_on_another_page(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("told-1")
    live.provision("told-1", "manage", "manageable")
    edit(live, "told-1", {"fake_async_steps": ["*"], "fake_step_seconds": 12})
    page.clock.install()
    page.goto(to(live, "/v1/nodes/told-1"))
    press(page, "Provide…")
    confirm(page, "Provide told-1", typed="told-1")
    told = page.locator(".live")
    expect(told).to_contain_text("Provide of told-1 is accepted.")
    page.get_by_role("link", name="Doctor", exact=True).click()
    # A sentence without an act is of its page.
    expect(told).to_be_empty()
    tray = page.locator(".tray")
    expect(tray.locator("summary")).to_have_text("1 running")
    # The end is told to screen readers; on the screen the entry moves.
    expect(told).to_contain_text("Provide of told-1: done.")
    expect(told).to_have_class(re.compile("unseen"))
    expect(tray.locator("summary")).to_have_text("1 done")
    tray.locator("summary").click()
    tray.get_by_role("link", name="Provide of told-1").click()
    page.get_by_role("heading", name="told-1").wait_for()
    (run,) = live.get("/v1/nodes/told-1/runs?limit=1")["runs"]
    assert page.url.endswith(run["uuid"])


def test_lines_of_a_log_have_addresses_and_are_searched(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "line-1")
    page.goto(to(live, "/v1/nodes/line-1"))
    page.get_by_role("link", name="log at this line").click()
    log = page.get_by_role("log")
    chosen = log.locator("[aria-current]")
    expect(chosen).to_contain_text("deploy.erase_devices failed: disk 3 does not answer")
    first = log.locator("div").first
    first.get_by_role("link").click()
    expect(chosen).to_have_count(1)
    expect(first).to_have_attribute("aria-current", "true")
    page.reload()
    expect(first).to_have_attribute("aria-current", "true")
    page.keyboard.press("/")
    page.keyboard.type("ERASE_devices")
    expect(log.locator(".hit")).not_to_have_count(0)
    hits = log.locator(".hit").count()
    page.get_by_text(f"{hits} lines", exact=True).wait_for()
    page.keyboard.press("Enter")
    expect(chosen).to_have_class("hit")
    expect(chosen).to_contain_text("deploy.erase_devices")
    log.focus()
    seen = []
    for key in ("n", "N"):
        seen.append(chosen.inner_text())
        page.keyboard.press(key)
        expect(chosen).not_to_have_text(seen[-1])
    assert chosen.inner_text() == seen[0]


def test_inventory_that_was_never_read_is_told_in_words(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create("bare-words")
    page.goto(to(live, "/v1/nodes/bare-words/inventory"))
    page.get_by_text("Not inspected yet.").wait_for()
    expect(page.locator(".fault")).to_have_count(0)
    faults.allow("404")


def test_paused_batch_needs_attention(page: sync_api.Page, live: service.Service) -> None:
    live.create("rest-1")
    live.create("rest-2")
    batch = paused_batch(live, "resting", ["rest-1", "rest-2"])
    page.goto(to(live, "/v1/nodes"))
    item = page.locator(".attention li", has_text="resting")
    expect(item).to_contain_text("■ paused")
    item.get_by_role("link", name="resting").click()
    press(page, "Resume…")
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    service.until(lambda: live.get(f"/v1/batches/{batch}")["state"] == "done", "the end")
    page.goto(to(live, "/v1/nodes/rest-2"))
    page.locator("p.says").get_by_role("link", name="resting").wait_for()
