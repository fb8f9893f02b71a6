"""Erasure records and the checks of doctor in the window."""

from __future__ import annotations

import subprocess

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import cold, row, to
from tests.window.conftest import expect
from tests.window.sights import Sights

pytestmark = pytest.mark.xdist_group("window")


def test_record_is_found_by_its_serial_number_and_its_lines_verify_it(
    page: sync_api.Page, live: service.Service
) -> None:
    disk = {"name": "/dev/sda", "serial": "S-4711", "result": "erased", "level": "purge"}
    live.create("proof-1", driver_info={"fake_erasures": [disk]})
    live.provision("proof-1", "manage", "manageable")
    live.provision("proof-1", "provide", "available")
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("link", name="Evidence").click()
    page.get_by_label("Serial number").fill("S-4711")
    page.keyboard.press("Enter")
    table = page.get_by_role("region", name="Erasure records")
    expect(table.get_by_role("row")).to_have_count(2)
    node = table.get_by_role("link", name="proof-1", exact=True)
    expect(node).to_have_attribute("href", "#/v1/nodes/proof-1")
    (shown,) = live.get("/v1/erasures?serial=S-4711")["erasures"]
    table.get_by_role("link", name="show").click()
    expect(page.locator(".tree").first).to_contain_text("S-4711")
    expect(page.locator(".tree").first).to_contain_text("purge")
    lines = page.locator("main pre").inner_text()
    assert shown["uuid"] in lines
    done = subprocess.run(
        ["sh", "-ec", f"cd {live.folder}\n{lines}"], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert b"Verified Successfully" in done.stdout
    cold(page, live, "/v1/nodes/proof-1")
    expect(page.locator(".node-head")).to_contain_text("data: clean")


def test_worklist_has_the_retired_nodes_with_data(
    page: sync_api.Page, live: service.Service
) -> None:
    for name, retired, state in (
        ("list-1", True, "dirty"),
        ("list-2", True, "clean"),
        ("list-3", False, "dirty"),
    ):
        live.create(name, retired=retired)
        body = {"data_state": state, "reason": "as the test wants it"}
        assert live.ask("PUT", f"/v1/nodes/{name}/data_state", body).status_code == 204
    page.goto(to(live, "/v1/erasures"))
    page.get_by_role("link", name="retired and dirty nodes").click()
    row(page, "list-1").wait_for()
    expect(row(page, "list-2")).to_have_count(0)
    expect(row(page, "list-3")).to_have_count(0)


def test_doctor_says_what_to_do(page: sync_api.Page, live: service.Service, sights: Sights) -> None:
    del sights
    page.goto(to(live, "/v1/doctor?node=look-1"))
    found = live.get("/v1/doctor?node=look-1")["checks"]
    checks = page.locator(".checks > li")
    expect(checks).to_have_count(len(found))
    found.sort(key=lambda one: ("error", "warning", "ok").index(one["status"]))
    for place, one in enumerate(found):
        expect(checks.nth(place)).to_contain_text(one["name"])
        if one["do"]:
            expect(checks.nth(place).locator(".do")).to_have_count(1)
    assert {one["status"] for one in found} > {"ok"}
