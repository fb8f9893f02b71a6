"""Squares of nodes: those of a batch by wave, with keys, pointer and words for screen readers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import ERASE, edit, paused_batch, press, to
from tests.window.conftest import Faults

pytestmark = pytest.mark.feature("batches")
expect = sync_api.expect


def ended_batch(live: service.Service, prefix: str) -> str:
    """Clean five nodes, of which two fail by one cause, and return the path of their batch."""
    names = [f"{prefix}-{number}" for number in range(5)]
    for number, name in enumerate(names):
        live.create(name)
        live.provision(name, "manage", "manageable")
        if number in {1, 3}:
            edit(live, name, {"fake_fail_steps": {ERASE: f"disk sdb: bad sector {number}"}})
    more = {"waves": [1, "100%"], "max_failures": 4}
    body = {"nodes": names, "request": {"target": "provide"}, **more}
    own = f"/v1/batches/{live.ask('POST', '/v1/batches', body).json()['uuid']}"
    service.until(lambda: live.get(own)["state"] == "done", "the batch")
    return own


def test_batch_shows_its_failures_by_cause_and_its_nodes_by_wave(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, ended_batch(live, "square")))
    state = page.locator(".node-head .result")
    expect(state).to_have_text("▲ done with 2 failed")
    expect(state).to_have_class(re.compile("warning"))
    counted = page.get_by_role("list", name="Nodes by wave, counted").get_by_role("listitem")
    expect(counted).to_have_text(["wave 1: 1 done", "wave 2: 2 failed, 2 done"])
    cause = page.get_by_role("list", name="Failures by cause").get_by_role("listitem")
    expect(cause).to_contain_text(re.compile(r"▲ 2 .*disk sdb: bad sector \d"))
    expect(page.get_by_text("slowest: square-")).to_be_visible()
    cause.get_by_role("button", name="Retry 2…").click()
    dialog = page.get_by_role("dialog", name="Batch of 2 nodes")
    expect(dialog.get_by_label("Request")).to_have_value("retry")
    dialog.get_by_role("button", name="Plan", exact=True).click()
    expect(dialog).to_contain_text("square-1, square-3")


def test_square_names_its_node_and_filters_the_table(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, ended_batch(live, "pick")))
    table = page.get_by_role("region", name="Nodes of the batch")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(5)
    squares = page.get_by_role("listbox", name="Nodes by wave")
    squares.focus()
    name = page.locator(".square-name")
    expect(name).to_contain_text("pick-0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    option = squares.get_by_role("option")
    expect(option).to_contain_text("wave 2")
    expect(option).to_have_attribute("aria-setsize", "5")
    told = squares.get_attribute("aria-activedescendant")
    assert told == option.get_attribute("id")
    expect(name).to_have_text(re.compile(r"pick-\d (done|failed) · .* s"))
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    shown = rows.locator("a").first.inner_text()
    expect(name).to_contain_text(shown)
    page.get_by_role("group", name="Results").get_by_role("button", name=shown).click()
    expect(rows).to_have_count(5)

    box = squares.bounding_box()
    assert box is not None
    # The first square stands below the title of its wave.
    page.mouse.move(box["x"] + 5, box["y"] + 29)
    expect(name).to_contain_text("pick-0")
    page.mouse.down()
    page.mouse.up()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("pick-0")
    page.get_by_role("group", name="Results").get_by_role("link", name="failed 2").click()
    expect(rows).to_have_count(2)


def test_pause_and_limit_of_failures_are_sentences(
    page: sync_api.Page, live: service.Service
) -> None:
    names = ["words-1", "words-2"]
    for name in names:
        live.create(name)
    own = f"/v1/batches/{paused_batch(live, 'words', names)}"
    page.goto(to(live, own))
    main = page.get_by_role("main")
    expect(main).to_contain_text("Paused at the end of a wave. Left to do: 1 node.")
    expect(main).to_contain_text("no failure allowed")
    found = live.get(own)
    half_hour = {"eta": "2099-01-01T20:41:00+00:00", "state": "running"}
    limits = {"max_failures": 2, "failures_left": 0, "paused_by": None}
    page.route(f"**{own}", lambda route: route.fulfill(json={**found, **half_hour, **limits}))
    expect(main).to_contain_text(re.compile(r"ends ~.*41 \(0 of 2 failures left\)"))
    page.unroute(f"**{own}")
    anonymous = {**found, "paused_by": "anonymous"}
    page.route(f"**{own}", lambda route: route.fulfill(json=anonymous))
    expect(main).to_contain_text("Paused. Left to do: 1 node.")
    expect(main).not_to_contain_text("anonymous")
    page.unroute(f"**{own}")
    press(page, "Abort…")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("checkbox")).to_have_count(0)
    with page.expect_request("**/state") as sent:
        dialog.get_by_role("button", name="Abort", exact=True).click()
    assert sent.value.post_data_json == {"target": "abort"}
    service.until(lambda: live.get(own)["state"] == "aborted", "the abort")


def test_squares_of_many_pages_are_all_read(page: sync_api.Page, live: service.Service) -> None:
    live.create("wave-1")
    body = {"nodes": ["wave-1"], "request": {"target": "provide"}}
    batch = live.ask("POST", "/v1/batches", body).json()["uuid"]
    own = f"/v1/batches/{batch}"
    service.until(lambda: live.get(own)["counts"]["refused"], "the refusal")
    (found,) = live.get(f"{own}/nodes")["nodes"]

    def answer(route: sync_api.Route) -> None:
        second = "marker" in route.request.url
        node = {**found, "uuid": found["uuid"][:-1] + ("1" if second else "0")}
        link = f"{live.url}{own}/nodes?limit=1000&marker=x"
        route.fulfill(json={"nodes": [node], **({} if second else {"next": link})})

    page.route(f"**{own}/nodes?limit=1000*", answer)
    page.goto(to(live, own))
    counted = page.get_by_role("list", name="Nodes by wave, counted").get_by_role("listitem")
    expect(counted).to_have_text("wave 1: 2 failed")


def pumped(page: sync_api.Page, ready: Callable[[], bool]) -> None:
    """Wait until something holds that requests of the page bring."""
    for _ in range(600):
        if ready():
            return
        page.wait_for_timeout(100)
    raise AssertionError("nothing has come in a minute")


def test_squares_are_read_though_counts_change_faster(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("busy-1")
    body = {"nodes": ["busy-1"], "request": {"target": "provide"}}
    batch = live.ask("POST", "/v1/batches", body).json()["uuid"]
    own = f"/v1/batches/{batch}"
    service.until(lambda: live.get(own)["counts"]["refused"], "the refusal")
    document, members = live.get(own), live.get(f"{own}/nodes")
    polls: list[int] = []
    kept: list[sync_api.Route] = []

    def poll(route: sync_api.Route) -> None:
        polls.append(1)
        counts = {**document["counts"], "done": len(polls)}
        route.fulfill(json={**document, "state": "running", "ended_at": None, "counts": counts})

    def keep(route: sync_api.Route) -> None:
        kept.append(route)

    page.route(f"**{own}", poll)
    page.route(f"**{own}/nodes?limit=1000*", keep)
    page.goto(to(live, own))
    pumped(page, lambda: len(polls) > 3)
    assert len(kept) == 1
    kept[0].fulfill(json=members)
    counted = page.get_by_role("list", name="Nodes by wave, counted").get_by_role("listitem")
    expect(counted).to_have_text("wave 1: 1 failed")
    pumped(page, lambda: len(kept) > 1)
    kept[1].fulfill(json=members)


def test_squares_come_back_after_a_fault(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("503")
    live.create("lost-square")
    body = {"nodes": ["lost-square"], "request": {"target": "provide"}}
    own = f"/v1/batches/{live.ask('POST', '/v1/batches', body).json()['uuid']}"
    service.until(lambda: live.get(own)["counts"]["refused"], "the refusal")
    answers: list[int] = []

    def answer(route: sync_api.Route) -> None:
        answers.append(1)
        route.fulfill(status=503, json={}) if len(answers) == 1 else route.continue_()

    page.route(f"**{own}/nodes?limit=1000*", answer)
    page.goto(to(live, own))
    counted = page.get_by_role("list", name="Nodes by wave, counted").get_by_role("listitem")
    expect(counted).to_have_text("wave 1: 1 failed")
