"""Logins in the window, in a real browser."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import bcrypt
import pytest
import requests
from playwright import sync_api

from tests.support import service
from tests.window.conftest import Faults, OpenPage, expect, watched

PASSWORD = "sésame-4711"


@pytest.fixture(scope="module")
def guarded() -> Iterator[service.Service]:
    """The service with one user, ann."""
    with service.short_folder() as folder:
        users = folder / "htpasswd"
        secret = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        users.write_text(f"ann:{secret}\n", encoding="utf-8")
        more = (
            f"[api]\nauth_strategy = http_basic\n[DEFAULT]\nhttp_basic_auth_user_file = {users}\n"
        )
        with service.service(more) as found:
            found.session.auth = requests.auth.HTTPBasicAuth(b"ann", PASSWORD.encode())
            found.start()
            found.up()
            yield found


def test_password_opens_the_window_and_stays_in_memory(
    open_page: OpenPage, guarded: service.Service, faults: Faults
) -> None:
    faults.allow("401")
    guarded.create("login-1")
    page = open_page(guarded)
    page.goto(f"{guarded.url}/ui/")
    dialog = page.get_by_role("dialog", name="Log in")
    for password in ("wrong", PASSWORD):
        dialog.get_by_label("User").fill("ann")
        dialog.get_by_label("Password").fill(password)
        with page.expect_response(lambda one: "/v1/" in one.url) as answer:
            dialog.get_by_role("button", name="Log in").click()
        assert answer.value.status == (401 if password == "wrong" else 200)
        if password == "wrong":
            expect(dialog.get_by_role("alert")).to_contain_text("This login is refused")
    page.get_by_role("grid", name="Nodes").get_by_role("row", name="login-1").wait_for()
    expect(dialog).to_have_count(0)
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    curls = page.locator("button.curl").evaluate_all("all => all.map(one => one.title).join()")
    assert "-u" in curls
    for text in (page.content(), stored, page.url, curls):
        assert PASSWORD not in text
        assert "Basic " not in text
    assert page.context.cookies() == []

    other = page.context.new_page()  # a second tab is logged in by the first one
    other.goto(f"{guarded.url}/ui/#/v1/nodes/login-1")
    other.get_by_role("heading", name="login-1").wait_for()

    page.goto(f"{guarded.url}/ui/#/v1/whoami")
    page.get_by_role("button", name="Log out").click()
    dialog.wait_for()
    other.get_by_role("dialog", name="Log in").wait_for()
    for tab in (page, other):  # What was read with the login is gone, too; the address stays.
        expect(tab.locator("main").get_by_text("login-1")).to_have_count(0)


def log_in(page: sync_api.Page) -> None:
    """Give the name and the password that the page asks for."""
    dialog = page.get_by_role("dialog", name="Log in")
    dialog.get_by_label("User").fill("ann")
    dialog.get_by_label("Password").fill(PASSWORD)
    dialog.get_by_role("button", name="Log in").click()
    dialog.wait_for(state="detached")


def test_eight_hours_without_a_key_or_a_press_end_the_login(
    open_page: OpenPage, guarded: service.Service, faults: Faults
) -> None:
    """The page itself goes on asking for changes, which is no use of the login."""
    guarded.create("idle-1")
    page = open_page(guarded)
    page.clock.install()
    page.goto(f"{guarded.url}/ui/#/v1/nodes/idle-1/ports")
    log_in(page)
    page.get_by_role("heading", name="idle-1").wait_for()
    dialog = page.get_by_role("dialog", name="Log in")
    for _ in range(2):
        page.clock.fast_forward("07:00:00")
        page.keyboard.press("Shift")
        with page.expect_response(lambda one: "/v1/runs?" in one.url) as answer:
            page.get_by_role("link", name="Activity").last.click()
        assert answer.value.status == 200
        page.get_by_role("link", name="Settings").click()
    page.clock.fast_forward("08:00:01")
    page.evaluate("location.hash = '#/v1/runs'")
    dialog.wait_for()
    log_in(page)
    page.get_by_role("heading", name="Runs").wait_for()
    faults.allow("401|ERR_")


def test_a_new_tab_does_not_renew_a_login_of_nine_hours_ago(
    open_page: OpenPage, guarded: service.Service, faults: Faults
) -> None:
    """Only a press renews it: not the question of a new tab, whose answer was a new login."""
    page = open_page(guarded)
    begin = datetime.datetime.now(datetime.UTC)
    page.clock.install(time=begin)
    page.goto(f"{guarded.url}/ui/#/v1/runs")
    log_in(page)
    page.get_by_role("heading", name="Runs").wait_for()
    # No timer fires meanwhile, as in a computer that sleeps.
    page.clock.set_system_time(begin + datetime.timedelta(hours=9))
    other = page.context.new_page()
    other.clock.set_system_time(begin + datetime.timedelta(hours=9))
    other.goto(f"{guarded.url}/ui/#/v1/runs")
    other.get_by_role("dialog", name="Log in").wait_for()
    page.evaluate("location.hash = '#/v1/batches'")
    page.get_by_role("dialog", name="Log in").wait_for()
    faults.allow("401|ERR_")


def test_box_of_the_browser_itself_never_asks_for_the_password(
    open_page: OpenPage, guarded: service.Service, faults: Faults
) -> None:
    """A login in that box would stay in the browser, which a log-out does not reach."""
    page = open_page(guarded)
    session = page.context.new_cdp_session(page)
    asked: list[str] = []

    def go_on(event: dict[str, Any]) -> None:
        session.send("Fetch.continueRequest", {"requestId": event["requestId"]})

    def refuse(event: dict[str, Any]) -> None:
        asked.append(event["request"]["url"])
        answer = {"authChallengeResponse": {"response": "CancelAuth"}}
        session.send("Fetch.continueWithAuth", {"requestId": event["requestId"], **answer})

    session.on("Fetch.requestPaused", go_on)
    session.on("Fetch.authRequired", refuse)
    session.send("Fetch.enable", {"handleAuthRequests": True})
    page.goto(f"{guarded.url}/ui/")
    dialog = page.get_by_role("dialog", name="Log in")
    dialog.get_by_label("User").fill("ann")
    dialog.get_by_label("Password").fill("wrong")
    with page.expect_response(lambda one: one.status == 401):
        dialog.get_by_role("button", name="Log in").click()
    log_in(page)
    page.get_by_role("grid", name="Nodes").wait_for()
    assert asked == []
    # A request that leaves the login to the browser makes it ask.
    status = page.evaluate("fetch('../v1/nodes', {credentials: 'include'}).then(one => one.status)")
    assert (status, len(asked)) == (401, 1)
    faults.allow("401")


PLAIN = "http://metal.example"


def test_plain_http_by_name_is_warned_of_and_copies_without_a_clipboard(
    browser: sync_api.Browser, guarded: service.Service, faults: Faults
) -> None:
    guarded.create("plain-1")
    page = watched(browser, PLAIN, faults)

    def relay(route: sync_api.Route) -> None:
        there = route.request.url.replace(PLAIN, guarded.url)
        if "follow=true" in there:
            route.abort()
        else:
            route.fulfill(response=route.fetch(url=there))

    page.route(f"{PLAIN}/**", relay)
    page.goto(f"{PLAIN}/ui/#/v1/nodes/plain-1")
    assert page.evaluate("isSecureContext") is False
    log_in(page)
    page.get_by_role("heading", name="plain-1").wait_for()
    expect(page.locator(".notice")).to_contain_text("not encrypted")
    page.evaluate(
        "document.addEventListener('copy', () => { window.copies = String(getSelection()); })"
    )
    page.keyboard.press("c")
    expect(page.get_by_role("status").last).to_have_text("Copied.")
    copied = page.evaluate("window.copies")
    assert "/v1/nodes/plain-1" in copied
    assert PASSWORD not in copied
    page.goto("about:blank")  # No request begins any more; some may still be on their way.
    page.unroute_all(behavior="ignoreErrors")
    page.context.close()
    faults.allow("401|ERR_FAILED|Cross-Origin-Opener-Policy")
