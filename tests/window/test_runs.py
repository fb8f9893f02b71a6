"""The page of a run: its steps against their usual times, and other runs beside it."""

from __future__ import annotations

import datetime
import re
from typing import Any

from playwright import sync_api

from tests.support import service
from tests.window.acts import endless_cleaning, failed_node, shown, to
from tests.window.conftest import expect

START = datetime.datetime(2026, 11, 28, 20, 3, 51, 559000, tzinfo=datetime.UTC)


def moment(seconds: float) -> str:
    return (START + datetime.timedelta(seconds=seconds)).isoformat()


def put_steps(page: sync_api.Page, run: dict[str, Any], *steps: dict[str, Any]) -> None:
    """Let a page read other steps of a run, whose documents are as those of its own steps."""
    document = run | {
        "started_at": moment(0),
        "ended_at": moment(2232),
        "steps": [
            run["steps"][-1] | {"error": None, "ordinal": at} | step
            for at, step in enumerate(steps)
        ],
    }
    page.route(f"**/v1/runs/{run['uuid']}", lambda route: route.fulfill(json=document))


def test_run_that_has_ended_is_shown_against_usual_times(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "gantt-1")
    (run,) = live.get("/v1/nodes/gantt-1/runs?limit=1")["runs"]
    usual = {"p50": 180, "p90": 300, "samples": 9}
    put_steps(
        page,
        live.get(f"/v1/runs/{run['uuid']}"),
        {"state": "done", "started_at": moment(0), "ended_at": moment(0.5), "usual_seconds": usual},
        {
            "state": "done",
            "started_at": moment(1),
            "ended_at": moment(2221),
            "usual_seconds": usual,
        },
        {
            "state": "pending",
            "started_at": None,
            "ended_at": None,
            "usual_seconds": usual | {"p90": 0.1},
        },
    )
    page.goto(to(live, f"/v1/runs/{run['uuid']}"))
    rows = page.get_by_role("list", name="Steps").get_by_role("listitem")
    expect(rows.nth(0)).to_contain_text("<1 s")
    expect(rows.nth(0)).to_contain_text("usual 3 min \u2013 5 min")
    expect(rows.nth(1)).to_contain_text("37 min")
    expect(rows.nth(1)).to_contain_text("7x")
    expect(rows.nth(2)).to_contain_text("not reached")
    expect(rows.nth(2)).not_to_contain_text("usual")
    expect(page.locator(".usual-mark")).to_have_count(2)
    bar = rows.nth(1).locator(".bar-of-time").bounding_box()
    mark = rows.nth(1).locator(".usual-mark line").first.bounding_box()
    assert bar is not None
    assert mark is not None
    # The usual end is at 3 to 5 minutes of 37.
    assert 0.05 < (mark["x"] - bar["x"]) / bar["width"] < 0.11
    rows.nth(1).get_by_role("link", name=re.compile("^log of ")).press("Enter")
    expect(page.get_by_role("log").locator("[aria-current]")).to_have_count(1)


def test_lone_step_under_way_does_not_fill_its_axis(
    page: sync_api.Page, live: service.Service
) -> None:
    with endless_cleaning(live, "gantt-2"):
        page.goto(to(live, "/v1/nodes/gantt-2"))
        bar = page.locator(".steps .running .bar-of-time, .steps .waiting .bar-of-time")
        expect(bar).to_have_count(1)
        chart = page.locator(".steps .gantt").first.bounding_box()
        drawn = bar.bounding_box()
        assert chart is not None
        assert drawn is not None
        assert drawn["width"] < 0.85 * chart["width"]
        expect(page.locator(".gantt.axis")).to_contain_text("now")
        # One clock: the state and the run say the same.
        since = page.locator(".node-head time").first
        assert since.get_attribute("datetime") == page.locator(".run-head time").get_attribute(
            "datetime"
        )
        # The activity has the time that goes on, without being read again.
        page.goto(to(live, "/v1/nodes/gantt-2/runs"))
        took = page.locator(".activity summary time").first
        before = took.inner_text()
        expect(took).not_to_have_text(before)


def test_run_is_compared_with_earlier_ones_of_its_node_and_its_class(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "gantt-3")
    retry = {"target": "retry"}
    assert live.ask("PUT", "/v1/nodes/gantt-3/states/provision", retry).status_code == 202
    service.until(lambda: len(live.get("/v1/nodes/gantt-3/runs")["runs"]) == 3, "the retry")
    service.until(
        lambda: live.get("/v1/nodes/gantt-3/why")["provision_state"] == "clean failed", "its end"
    )
    page.goto(to(live, "/v1/nodes/gantt-3"))
    shown(page)
    compare = page.get_by_role("group", name="Compare")
    compare.get_by_role("button", name="on this node").press("Enter")
    table = page.get_by_role("region", name="Durations in earlier runs")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("this run")
    expect(table.locator("thead")).to_contain_text("deploy.erase_devices")
    expect(rows.last).to_contain_text("<1 s")
    assert (
        rows.last.locator("td").last.evaluate("one => getComputedStyle(one).textAlign") == "right"
    )
    compare.get_by_role("button", name="of this class").click()
    page.get_by_text("The node has no resource class.").wait_for()
    patch = [{"op": "add", "path": "/resource_class", "value": "gantt"}]
    assert live.ask("PATCH", "/v1/nodes/gantt-3", patch).status_code == 200
    compare.get_by_role("button", name="of this class").click()
    compare.get_by_role("button", name="of this class").click()
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("gantt-3")
    rows.last.get_by_role("link").click()
    page.get_by_text("Provide", exact=True).first.wait_for()
    expect(page.get_by_role("list", name="Steps")).to_contain_text("deploy.erase_devices_metadata")
