"""Filters that the browser applies by itself give what the API gives."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

from playwright import sync_api

from tests.support import service
from tests.window.acts import failed_node, row, to, write
from tests.window.conftest import Faults, expect

FIELDS: tuple[dict[str, Any], ...] = (
    {"resource_class": "gpu", "owner": "ann", "shard": "east"},
    {"resource_class": "GPU", "lessee": "bob", "shard": "west"},
    {"resource_class": "it's $big", "retired": True},
    {"instance_uuid": "6d5f2b4e-7a0c-4f57-9a70-5a3a8a3f0c21", "owner": "bob"},
    {},
)
FILTERS = (
    *(("resource_class", value) for value in ("gpu", "GPU", "it's $big", "none")),
    *(("owner", value) for value in ("ann", "bob", "Ann")),
    ("lessee", "bob"),
    *(("shard", value) for value in ("east", "east,west", "west,none")),
    *(("conductor_group", value) for value in ("Rack-A", "rack-a", "")),
    *(
        (flag, value)
        for flag in ("maintenance", "retired", "associated")
        for value in ("true", "False", "1", "0")
    ),
    ("instance_uuid", "6d5f2b4e-7a0c-4f57-9a70-5a3a8a3f0c21"),
    *(
        ("provision_state", value)
        for value in ("enroll", "manageable", "enroll,manageable", "active")
    ),
    *(("data_state", value) for value in ("dirty", "unknown", "clean")),
    ("driver", "fake-hardware"),
    ("driver", "redfish"),
    ("conductor", "tester"),
    ("fault", "power failure"),
)


def test_each_filter_of_the_browser_gives_the_nodes_of_the_api(
    page: sync_api.Page, live: service.Service
) -> None:
    for number, fields in enumerate(FIELDS):
        live.create(f"filt-{number}", **fields)
    live.provision("filt-4", "manage", "manageable")
    write(live, "UPDATE nodes SET conductor_group = ? WHERE name = ?", "rack-a", "filt-2")
    assert live.ask("PUT", "/v1/nodes/filt-0/maintenance", {"reason": "a test"}).status_code == 202
    state = {"data_state": "dirty", "reason": "a test"}
    assert live.ask("PUT", "/v1/nodes/filt-1/data_state", state).status_code == 204
    page.goto(to(live, "/v1/nodes?~q=filt-"))
    names = page.get_by_role("grid", name="Nodes").locator(".cell.name")
    expect(names).to_have_count(len(FIELDS))
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if "/v1/nodes?" in one.url else None)
    wrong = []
    for name, value in FILTERS:
        query = urllib.parse.urlencode({name: value})
        found = live.get(f"/v1/nodes?{query}&fields=name&limit=1000")["nodes"]
        wanted = sorted(str(one["name"]) for one in found if str(one["name"]).startswith("filt-"))
        page.evaluate("at => { location.hash = at; }", f"#/v1/nodes?{query}&~q=filt-")
        page.get_by_role("button", name=f"{name}: {value}").wait_for()
        seen = names.all_inner_texts()
        if sorted(seen) != wanted:
            wrong.append(f"{query}: {seen}, but the API gives {wanted}")
    assert wrong == [], "\n".join(wrong)
    assert not [url for url in asked if "fields=uuid&" in url], asked


def test_keys_lead_from_the_field_of_the_filter_to_the_rows(
    page: sync_api.Page, live: service.Service
) -> None:
    for name in ("lead-1", "lead-2"):
        live.create(name)
    page.goto(to(live, "/v1/nodes?~q=lead-"))
    grid = page.get_by_role("grid", name="Nodes")
    field = page.get_by_role("searchbox")
    row(page, "lead-2").click()
    expect(grid.locator(".row.active")).to_contain_text("lead-2")
    for key in ("Enter", "ArrowDown"):
        field.fill(f"lead- {'' if key == 'Enter' else 'lead'}")
        field.press(key)
        expect(grid).to_be_focused()
        expect(grid.locator(".row.active")).to_contain_text("lead-1")
    field.fill("")
    field.press("Escape")
    expect(field).not_to_be_focused()


def test_filter_of_failed_states_has_a_short_name(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "short-1")
    failed_node(live, "short-2")
    body = {"target": "active"}
    live.create("short-3", driver_info={"fake_fail_steps": {"deploy.write_image": "no disk"}})
    live.provision("short-3", "manage", "manageable")
    live.provision("short-3", "provide", "available")
    assert live.ask("PUT", "/v1/nodes/short-3/states/provision", body).status_code == 202
    page.goto(to(live, "/v1/nodes"))
    page.locator(".chips").get_by_role("button", name=re.compile("▲ failed")).click()
    expect(page.locator(".filters .pressed")).to_have_text(re.compile(r"^\s*failed .\s*$"))
    expect(row(page, "short-1").locator(".under")).to_have_text(
        "disk 3 does not answer; maintenance: clean failure"
    )


def test_selection_of_a_row_leaves_the_attention_as_it_is(
    page: sync_api.Page, live: service.Service
) -> None:
    failed_node(live, "calm-1")
    page.goto(to(live, "/v1/nodes"))
    attention = page.get_by_role("list", name="Now")
    attention.wait_for()
    row(page, "calm-1").get_by_role("checkbox").check()
    page.get_by_role("region", name="Selected nodes").wait_for()
    expect(attention).to_be_visible()


def test_refused_filter_of_events_shows_the_error_and_no_rows(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow(r"(400|404).* http\S+/v1/events")
    live.create("heard-1")
    live.provision("heard-1", "manage", "manageable")
    page.goto(to(live, "/v1/events?node=heard-1"))
    entries = page.locator(".activity")
    expect(entries).to_contain_text("heard-1")
    for refused, status in (("node=heard", "404"), ("kind=hold", "400"), ("since=soon", "400")):
        page.goto(to(live, f"/v1/events?{refused}"))
        expect(page.get_by_role("alert")).to_contain_text(f"HTTP {status}")
        expect(entries).to_have_count(0)
        page.goto(to(live, "/v1/events?node=heard-1"))
        expect(entries).to_contain_text("heard-1")
        expect(page.get_by_role("alert")).to_have_count(0)
