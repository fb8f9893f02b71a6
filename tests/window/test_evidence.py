"""Erasure records and the checks of doctor in the window."""

from __future__ import annotations

import re
import subprocess
import zipfile

import pytest
from playwright import sync_api

from tests.support import service
from tests.window.acts import cold, row, to, write
from tests.window.conftest import Faults, OpenPage, expect
from tests.window.sights import Sights
from tests.window.test_pages import lost, violations

CHECKED = "✓ signature checked in this browser"


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
    expect(page.locator("details .tree").first).to_be_hidden()
    expect(page.get_by_text(CHECKED)).to_be_visible()
    with page.expect_download() as kept:
        page.get_by_role("button", name="Download").click()
    assert kept.value.suggested_filename == f"erasure-{shown['uuid'][:8]}.zip"
    kept.value.save_as(live.folder / "proof.zip")
    with zipfile.ZipFile(live.folder / "proof.zip") as packed:
        assert packed.testzip() is None
        assert [name.rpartition(".")[2] for name in packed.namelist()] == [
            *("json", "sig", "pem", "txt")
        ]
        packed.extractall(live.folder)
        verify = packed.read("check.txt").decode()
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
    expect(page.get_by_text("cannot be detected")).to_be_visible()
    expect(page.get_by_text(CHECKED)).to_have_count(0)
    cold(page, live, "/v1/erasures?node=no-such-node")
    expect(page.get_by_role("status").first).to_contain_text("There is no such node")
    faults.allow("404")


def erased(live: service.Service, name: str) -> str:
    """Create a node, clean it, and return the UUID of the record."""
    disk: dict[str, object] = {
        "name": "/dev/sda",
        "serial": name,
        "result": "erased",
        "level": "purge",
        "method": "nvme format",
        "tools": [
            {"name": "nvme", "version": "2.3", "command": ["nvme", "format", "-s1"], "exit": 0}
        ],
    }
    live.create(name, driver_info={"fake_erasures": [disk]})
    live.provision(name, "manage", "manageable")
    live.provision(name, "provide", "available")
    (shown,) = live.get(f"/v1/nodes/{name}/erasures")["erasures"]
    return str(shown["uuid"])


@pytest.mark.parametrize("what", ["record", "form", "signature", "answer"])
def test_record_that_was_changed_is_refused(
    page: sync_api.Page, live: service.Service, faults: Faults, what: str
) -> None:
    uuid = erased(live, f"changed-{what}")
    if what == "record":
        change = "UPDATE erasures SET statement = replace(statement, ?, ?) WHERE uuid = ?"
        write(live, change, '"purge"', '"clear"', uuid)
    elif what == "form":
        change = "UPDATE erasures SET statement = replace(statement, ?, ?) WHERE uuid = ?"
        write(live, change, '"disks":[', '"node":7,"disks":{},"more":[', uuid)
    elif what == "signature":
        write(live, "UPDATE erasures SET signature = ? WHERE uuid = ?", "00" * 64, uuid)
    else:
        other = erased(live, "changed-for-another")
        page.route(
            f"**/v1/erasures/{uuid}",
            lambda route: route.continue_(url=route.request.url.replace(uuid, other)),
        )
    cold(page, live, f"/v1/erasures/{uuid}")
    expect(page.get_by_role("alert")).to_contain_text("REFUSED. This is no evidence.")
    expect(page.get_by_text(CHECKED)).to_have_count(0)
    expect(page.locator("main")).not_to_contain_text("1 disk of")
    expect(page.get_by_role("status").filter(has_text="signature")).to_have_count(0)


def test_record_whose_key_is_gone_is_refused(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    uuid = erased(live, "key-1")
    page.route("**/v1/erasures/keys/*", lambda route: route.fulfill(status=404, body="{}"))
    faults.allow("404")
    cold(page, live, f"/v1/erasures/{uuid}")
    expect(page.get_by_role("alert")).to_contain_text("REFUSED")


@pytest.mark.own_context
def test_page_without_webcrypto_says_why_it_does_not_check(
    page: sync_api.Page, live: service.Service
) -> None:
    uuid = erased(live, "plain-http-1")
    page.add_init_script("Object.defineProperty(crypto, 'subtle', { value: undefined })")
    cold(page, live, f"/v1/erasures/{uuid}")
    told = page.get_by_role("status").filter(has_text="signature not checked here")
    expect(told).to_contain_text("HTTPS and from this machine alone")
    expect(page.locator("main pre")).to_contain_text("openssl pkeyutl -verify")


def test_record_has_who_asked_its_batch_its_tools_and_its_neighbours(
    open_page: OpenPage, live: service.Service
) -> None:
    erased(live, "story-77")
    live.provision("story-77", "manage", "manageable")
    body = {"name": "decommission", "nodes": ["story-77"], "request": {"target": "provide"}}
    batch = live.ask("POST", "/v1/batches", body).json()["uuid"]
    service.until(lambda: live.get(f"/v1/batches/{batch}")["state"] == "done", "the batch")
    newest, oldest = live.get("/v1/nodes/story-77/erasures")["erasures"]
    page = open_page(live)
    cold(page, live, f"/v1/erasures/{newest['uuid']}")
    expect(page.get_by_text(CHECKED)).to_be_visible()
    facts = page.locator(".facts").first
    expect(facts.get_by_role("link", name="decommission")).to_have_attribute(
        "href", f"#/v1/batches/{batch}"
    )
    expect(facts.get_by_role("link", name="Provide")).to_be_visible()
    expect(facts).to_contain_text(newest["sha256"])
    expect(facts).to_contain_text("Fingerprint of the key")
    disks = page.get_by_role("region", name="Disks")
    expect(disks).to_contain_text("nvme 2.3: nvme format -s1")
    assert [*violations(page), *lost(page)] == []
    page.emulate_media(media="print")
    expect(page.get_by_role("button", name="Download")).to_be_hidden()
    expect(page.locator("main pre")).to_be_visible()
    page.emulate_media(media="screen")
    page.locator(".facts").last.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(f"/v1/erasures/{oldest['uuid']}$"), timeout=60_000)
    expect(page.locator(".facts").last).to_contain_text("none, this is the first of the node")
    page.locator(".facts").last.get_by_role("link").first.click()
    expect(page.locator(".facts").last).to_contain_text("none, this is the newest of the node")


FORBIDDEN = """
navigator.clipboard.writeText = () => Promise.reject(new Error("forbidden"));
document.execCommand = () => false;
"""


def test_copy_that_the_browser_forbids_shows_its_text(
    page: sync_api.Page, live: service.Service
) -> None:
    page.add_init_script(FORBIDDEN)
    page.goto(to(live, "/v1/erasures"))
    page.locator("summary", has_text="curl").click()
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
