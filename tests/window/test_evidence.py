"""Erasure records and the checks of doctor in the window."""

from __future__ import annotations

import subprocess

from playwright import sync_api

from tests.support import service
from tests.window.acts import cold, row, to, write
from tests.window.conftest import Faults, expect
from tests.window.sights import Sights


def test_record_is_found_by_its_serial_number_and_its_lines_verify_it(
    page: sync_api.Page, live: service.Service
) -> None:
    disk = {"name": "/dev/sda", "serial": "S-4711", "result": "erased", "level": "purge"}
    live.create("proof-1", driver_info={"fake_erasures": [disk]})
    live.provision("proof-1", "manage", "manageable")
    live.provision("proof-1", "provide", "available")
    page.goto(to(live, "/v1/nodes"))
    page.get_by_role("link", name="Erasures").click()
    search = page.get_by_label("Part of a name or serial number")
    search.fill("no such disk")
    expect(page.get_by_role("status").first).to_contain_text("No record")
    page.get_by_role("button", name="Clear the search").click()
    search.fill("s-471")
    table = page.get_by_role("region", name="Erasures")
    expect(table.locator("tbody tr:not(.day)")).to_have_count(1)
    expect(table).to_contain_text("signed; not checked here")
    node = table.get_by_role("link", name="proof-1", exact=True)
    expect(node).to_have_attribute("href", "#/v1/nodes/proof-1")
    (shown,) = live.get("/v1/erasures?serial=S-4711")["erasures"]
    table.get_by_role("link", name="show").click()
    expect(page.locator("p.says")).to_contain_text("1 disk of proof-1 erased, at the level purge.")
    expect(page.get_by_role("region", name="Disks")).to_contain_text("S-4711")
    expect(page.locator(".tree").first).to_be_hidden()
    files = []
    for button in page.get_by_role("button", name="Download").all():
        with page.expect_download() as kept:
            button.click()
        files.append(live.folder / kept.value.suggested_filename)
        kept.value.save_as(files[-1])
    assert [one.suffix for one in files] == [".json", ".sig", ".pem"]
    verify = page.locator("main pre").inner_text().splitlines()[-1]
    checked = subprocess.run(verify.split(), cwd=live.folder, check=False, timeout=60)
    assert checked.returncode == 0
    lines = page.locator("main pre").inner_text()
    assert shown["uuid"] in lines
    done = subprocess.run(
        ["sh", "-ec", f"cd {live.folder}\n{lines}"], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert b"Verified Successfully" in done.stdout
    cold(page, live, "/v1/nodes/proof-1")
    expect(page.locator(".identity")).to_contain_text("Data clean")


def test_record_without_a_signature_and_a_node_that_is_gone_are_told_in_words(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    live.create(
        "proof-2", driver_info={"fake_fail_steps": {"deploy.erase_devices": "it is frozen"}}
    )
    live.provision("proof-2", "manage", "manageable")
    live.ask("PUT", "/v1/nodes/proof-2/states/provision", {"target": "provide"})
    service.until(lambda: live.get("/v1/nodes/proof-2/erasures")["erasures"], "the record")
    (shown,) = live.get("/v1/nodes/proof-2/erasures")["erasures"]
    change = (
        "UPDATE erasures SET key = NULL, signature = NULL, statement = replace(statement, ?, ?)"
    )
    key = f'"{shown["key"]}"'
    write(live, f"{change} WHERE uuid = ?", key, "null", shown["uuid"])
    page.goto(to(live, "/v1/erasures?~q=proof-2"))
    table = page.get_by_role("region", name="Erasures")
    expect(table.locator(".result.failed")).to_have_text(["▲ failed", "✗ NOT signed"])
    table.get_by_role("link", name="show").click()
    expect(page.locator("p.says")).to_contain_text("The erasure of proof-2 FAILED")
    expect(page.get_by_text("nobody can prove")).to_be_visible()
    expect(page.get_by_role("button", name="Download")).to_have_count(1)
    cold(page, live, "/v1/erasures?node=no-such-node")
    expect(page.get_by_role("status").first).to_contain_text("There is no such node")
    faults.allow("404")


FORBIDDEN = """
navigator.clipboard.writeText = () => Promise.reject(new Error("forbidden"));
document.execCommand = () => false;
"""


def test_copy_that_the_browser_forbids_shows_its_text(
    page: sync_api.Page, live: service.Service
) -> None:
    page.add_init_script(FORBIDDEN)
    page.goto(to(live, "/v1/erasures"))
    page.get_by_role("button", name="Copy as curl: GET /v1/erasures", exact=True).click()
    shown = page.locator(".live")
    expect(shown).to_contain_text("Copy it yourself: api=")
    expect(shown).to_contain_text("/v1/erasures")
    shown.get_by_role("button", name="Close this message").click()
    expect(shown).to_be_empty()


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
    found.sort(key=lambda one: ("failed", "warning", "unknown", "ok").index(one["status"]))
    alike: dict[tuple[str, ...], list[str]] = {}  # checks that say the same are one row
    for one in found:
        alike.setdefault((one["status"], one["text"], one["do"]), []).append(one["name"])
    checks = page.locator(".checks > li")
    expect(checks).to_have_count(len(alike))
    for place, ((_, _, do), names) in enumerate(alike.items()):
        for name in names:
            expect(checks.nth(place)).to_contain_text(name)
        if do:
            expect(checks.nth(place).locator("p.do")).to_have_count(1)
    assert {one["status"] for one in found} > {"ok"}


def test_checks_that_failed_come_first(page: sync_api.Page, live: service.Service) -> None:
    words = ("unknown", "ok", "failed", "warning")
    checks = [
        {"name": one, "status": one, "text": "a check", "where": None, "do": ""} for one in words
    ]
    answer = {"status": "failed", "checks": checks}
    page.route("**/v1/doctor", lambda route: route.fulfill(json=answer))
    page.goto(to(live, "/v1/doctor"))
    names = page.locator(".checks strong")
    expect(names).to_have_text(["failed", "warning", "unknown", "ok"])
