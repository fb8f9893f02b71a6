"""Activity: who did what, on one node and in the fleet."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Iterator

import bcrypt
import pytest
import requests
from playwright import sync_api

from tests.support import service
from tests.window.acts import ERASE, to, write
from tests.window.conftest import Faults, OpenPage, expect
from tests.window.test_pages import lost, violations

PASSWORD = "sésame-4711"
PEOPLE = ("alice", "bob")
BERLIN = "Europe/Berlin"


@pytest.fixture(scope="module")
def guarded() -> Iterator[service.Service]:
    """The service with two users."""
    with service.short_folder() as folder:
        users = folder / "htpasswd"
        secret = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        users.write_text("".join(f"{name}:{secret}\n" for name in PEOPLE), encoding="utf-8")
        more = (
            "batch_interval = 1\n[api]\nauth_strategy = http_basic\n"
            f"[DEFAULT]\nhttp_basic_auth_user_file = {users}\n"
        )
        with service.service(more) as found:
            be(found, "alice")
            found.start()
            found.up()
            yield found


def be(running: service.Service, name: str) -> None:
    """Let a person send the next requests of a test."""
    running.session.auth = requests.auth.HTTPBasicAuth(name.encode(), PASSWORD.encode())


def log_in(page: sync_api.Page) -> None:
    dialog = page.get_by_role("dialog", name="Log in")
    dialog.get_by_label("User").fill("alice")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Log in").click()


def change(running: service.Service, method: str, path: str, body: object = None) -> None:
    answer = running.ask(method, path, body)
    assert answer.ok, answer.text


def entry(page: sync_api.Page, text: str | re.Pattern[str]) -> sync_api.Locator:
    """Return the entry that is not part of another one."""
    return page.locator(".activity > ol > li").filter(has_text=text)


def test_activity_of_a_node_tells_who_did_what(
    open_page: OpenPage, guarded: service.Service, faults: Faults
) -> None:
    faults.allow("401")
    be(guarded, "alice")
    guarded.create("who-1", extra={"rack": "r01"})
    path = "/v1/nodes/who-1"
    change(guarded, "PATCH", path, [{"op": "replace", "path": "/extra/rack", "value": "r02"}])
    change(guarded, "PUT", f"{path}/maintenance", {"reason": "a fan"})
    be(guarded, "bob")
    change(guarded, "DELETE", f"{path}/maintenance")
    guarded.provision("who-1", "manage", "manageable")
    change(guarded, "PUT", f"{path}/states/power", {"target": "power on"})
    change(guarded, "POST", f"{path}/holds", {"kind": "hardware", "reason": "the fan again"})
    page = open_page(guarded)
    page.goto(to(guarded, f"{path}/history"))
    log_in(page)
    for text, person in (
        ("extra/rack r01 → r02", "alice"),
        ("Maintenance: a fan", "alice"),
        ("Maintenance ended", "bob"),
        ("Manage ✓ done", "bob"),
        ("Power off → on", "bob"),
        ("Hold (hardware): the fan again", "bob"),
    ):
        expect(entry(page, text).locator(".by")).to_contain_text(person)
    # The process stands apart from the person.
    expect(entry(page, "Power off → on").locator(".by .small")).to_have_text("tester")
    expect(entry(page, "extra/rack").locator(".by .small")).to_have_count(0)
    assert page.get_by_role("combobox", name="By", exact=True).locator(
        "option"
    ).all_inner_texts() == [*("all", "alice", "bob")]
    page.get_by_role("combobox", name="By", exact=True).select_option("alice")
    expect(entry(page, "Manage")).to_have_count(0)
    expect(entry(page, "Maintenance: a fan")).to_be_visible()
    page.get_by_role("combobox", name="By", exact=True).select_option("")
    page.get_by_role("combobox", name="Kind", exact=True).select_option("Maintenance and faults")
    expect(page.locator(".activity li")).to_have_count(2)
    page.reload()
    log_in(page)
    expect(page.locator(".activity li")).to_have_count(2)


def test_entries_of_one_person_stand_before_the_newer_ones_of_others(
    open_page: OpenPage, guarded: service.Service, faults: Faults
) -> None:
    faults.allow("401")
    be(guarded, "alice")
    guarded.create("who-2")
    change(guarded, "PUT", "/v1/nodes/who-2/maintenance", {"reason": "a belt"})
    be(guarded, "bob")
    for number in range(201):  # more than the page reads at first
        value = {"op": "add", "path": "/extra/rack", "value": f"r{number}"}
        change(guarded, "PATCH", "/v1/nodes/who-2", [value])
    page = open_page(guarded)
    page.goto(to(guarded, "/v1/events"))
    log_in(page)
    expect(entry(page, "extra/rack r199 → r200")).to_be_visible()
    expect(entry(page, "a belt")).to_have_count(0)
    page.goto(to(guarded, "/v1/events?requester=alice"))
    expect(entry(page, "Maintenance: a belt")).to_be_visible()
    expect(entry(page, "→ r200")).to_have_count(0)
    by = page.get_by_role("combobox", name="By", exact=True)
    expect(by).to_have_value("alice")
    by.select_option("bob")
    expect(entry(page, "extra/rack r199 → r200")).to_be_visible()
    expect(entry(page, "a belt")).to_have_count(0)
    expect(page).to_have_url(re.compile("requester=bob"))


def test_duration_of_the_address_moves_on_with_the_time(
    open_page: OpenPage, guarded: service.Service, faults: Faults
) -> None:
    faults.allow("401")
    be(guarded, "alice")
    guarded.create("who-3")
    page = open_page(guarded)
    page.clock.install()
    page.goto(to(guarded, "/v1/events?since=PT1H&node=who-3"))
    log_in(page)
    expect(entry(page, "Enrolled")).to_be_visible()
    # Nothing is read that would tell the time of the service.
    page.get_by_role("button", name="Pause", exact=True).click()
    page.clock.fast_forward("02:00:00")
    expect(entry(page, "Enrolled")).to_have_count(0)


def test_batch_of_the_fleet_contains_its_runs_and_names_who_asked(
    open_page: OpenPage, guarded: service.Service, faults: Faults
) -> None:
    faults.allow("401")
    be(guarded, "alice")
    info = {"fake_fail_steps": {ERASE: "disk 3 is read-only"}}
    guarded.create("many-1")
    guarded.create("many-2", driver_info=info)
    for name in ("many-1", "many-2"):
        guarded.provision(name, "manage", "manageable")
    be(guarded, "bob")
    body = {
        "name": "nightly",
        "nodes": ["many-1", "many-2"],
        "request": {"target": "provide"},
        "max_failures": 1,
    }
    batch = guarded.ask("POST", "/v1/batches", body).json()["uuid"]
    service.until(lambda: guarded.get(f"/v1/batches/{batch}")["state"] == "done", "the batch")
    page = open_page(guarded)
    page.goto(to(guarded, "/v1/events"))
    log_in(page)
    told = entry(page, "nightly")
    expect(told).to_contain_text(re.compile("nightly.*done.*2 runs.*1 failed"))
    expect(told.locator(".by").first).to_have_text("bob ")
    summary = told.locator("summary").first
    summary.focus()
    page.keyboard.press("Enter")
    run = told.locator("li").filter(has_text="disk 3 is read-only")
    expect(run.get_by_role("link", name="log of many-2")).to_have_attribute(
        "href", re.compile("/runs/.*/log$")
    )
    expect(told.locator("li").filter(has_text="Ended: done").locator(".by")).to_contain_text(
        "batches (tester)"
    )
    run.locator("summary").focus()
    page.keyboard.press("Enter")
    steps = run.get_by_role("list", name="Steps", exact=True).get_by_role("listitem")
    expect(steps).to_have_count(2)
    expect(steps.last).to_contain_text("deploy.erase_devices")
    expect(run.get_by_role("link", name="record")).to_have_count(1)
    assert [*violations(page), *lost(page)] == []
    page.goto(to(guarded, "/v1/nodes/many-1/history"))
    expect(entry(page, "Provide").locator(".by")).to_contain_text("nightly (bob)")


def test_last_night_is_shown_and_its_hours_are_edited(
    open_page: OpenPage, live: service.Service
) -> None:
    zone = zoneinfo.ZoneInfo(BERLIN)
    uuid = live.create("night-1")
    today = datetime.datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    at = (today - datetime.timedelta(minutes=46)).astimezone(datetime.UTC)
    change_at = "UPDATE events SET at = ? WHERE node_uuid = ?"
    write(live, change_at, at.strftime("%Y-%m-%d %H:%M:%S.000000"), uuid)
    page = open_page(live, timezone_id=BERLIN)
    page.goto(to(live, "/v1/events?node=night-1"))
    expect(entry(page, "Enrolled")).to_contain_text("23:14:00")
    page.get_by_role("combobox", name="Time", exact=True).select_option("last night")
    expect(page.get_by_label("from", exact=True)).to_have_value("22:00")
    expect(page.get_by_label("to", exact=True)).to_have_value("07:00")
    expect(entry(page, "Enrolled")).to_have_count(1)
    page.get_by_label("from", exact=True).fill("23:30")
    page.get_by_label("from", exact=True).press("Enter")
    page.get_by_text("Nothing in this time.").wait_for()
    page.get_by_role("combobox", name="Time", exact=True).select_option("today")
    page.get_by_text("Nothing in this time.").wait_for()
    page.get_by_role("combobox", name="Time", exact=True).select_option("own times")
    since = page.get_by_label("from", exact=True)
    since.fill((today - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M"))
    since.press("Enter")
    expect(entry(page, "Enrolled")).to_have_count(1)
    until = page.get_by_label("to", exact=True)
    until.fill((today - datetime.timedelta(minutes=50)).strftime("%Y-%m-%dT%H:%M"))
    until.press("Enter")
    page.get_by_text("Nothing in this time.").wait_for()


def test_activity_grows_as_things_happen(page: sync_api.Page, live: service.Service) -> None:
    live.create("grows-1")
    with page.expect_request(lambda one: "follow=true" in one.url):
        page.goto(to(live, "/v1/events?node=grows-1"))
    expect(entry(page, "Enrolled")).to_have_count(1)
    live.provision("grows-1", "manage", "manageable")
    expect(entry(page, "Manage")).to_contain_text("done")
    summary = entry(page, "Manage").locator("summary")
    summary.click()
    expect(entry(page, "Manage")).to_contain_text("management.verify_access")


def test_older_entries_come_by_a_press(page: sync_api.Page, live: service.Service) -> None:
    live.create("older-1")
    for number in range(205):
        patch = [{"op": "add", "path": "/extra/number", "value": number}]
        change(live, "PATCH", "/v1/nodes/older-1", patch)
    page.goto(to(live, "/v1/events?node=older-1"))
    expect(page.locator(".activity li")).to_have_count(200)
    expect(entry(page, "extra/number").first).to_contain_text("203 → 204")
    page.get_by_role("button", name="Older", exact=True).click()
    expect(page.locator(".activity li")).to_have_count(206)
    expect(entry(page, "Enrolled")).to_have_count(1)
    expect(page.get_by_role("button", name="Older", exact=True)).to_have_count(0)


def test_old_addresses_of_events_and_history_lead_to_activity(
    page: sync_api.Page, live: service.Service
) -> None:
    live.create("former-1")
    live.provision("former-1", "manage", "manageable")
    page.goto(to(live, "/v1/events?node=former-1&kind=node_created"))
    page.get_by_role("heading", name="Activity").wait_for()
    expect(page.locator(".activity li")).to_have_count(1)
    page.get_by_role("button", name="kind: node_created remove").click()
    expect(page.locator(".activity li")).to_have_count(2)
    page.goto(to(live, "/v1/nodes/former-1/history"))
    expect(page.locator(".tabs [aria-current]")).to_have_text("Activity")
    expect(page.locator(".activity li")).to_have_count(2)


def test_run_of_a_deleted_node_is_told_by_its_events(
    page: sync_api.Page, live: service.Service
) -> None:
    uuid = live.create("left-3")
    live.provision("left-3", "manage", "manageable")
    change(live, "DELETE", "/v1/nodes/left-3")
    page.goto(to(live, f"/v1/events?node={uuid}&kind=node_deleted,provision"))
    expect(entry(page, "Deleted")).to_contain_text(uuid[:8])
    entry(page, "Manage").locator("summary").click()
    expect(entry(page, "Manage")).to_contain_text("Its steps are not kept.")


def test_older_entries_come_after_a_failure(
    page: sync_api.Page, live: service.Service, faults: Faults
) -> None:
    faults.allow("503")
    live.create("heals-1")
    for number in range(205):
        patch = [{"op": "add", "path": "/extra/number", "value": number}]
        change(live, "PATCH", "/v1/nodes/heals-1", patch)
    page.goto(to(live, "/v1/events?node=heals-1"))
    expect(page.locator(".activity li")).to_have_count(200)
    fail = re.compile(r"/v1/events\?.*before=")
    page.route(fail, lambda route: route.fulfill(status=503, body="{}"), times=1)
    page.get_by_role("button", name="Older", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator(".activity li")).to_have_count(200)
    expect(page.locator(".activity li")).to_have_count(206)
    expect(page.get_by_role("alert")).to_have_count(0)
