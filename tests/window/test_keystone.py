"""Tokens of Keystone in the window: one that expires in a form, and what projects see and may."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from playwright import sync_api

from tests.compare.identity import Identity
from tests.support import chromium, service
from tests.window.acts import confirm, press, row, state, to
from tests.window.conftest import Faults, OpenPage, expect, watched

AGAIN_MS = 10_000
"""After it, a page reads everything again whose user may not see the events of all nodes."""
PERSONAS = {
    "admin-token": (("admin", "manager", "member", "reader"), None),
    "next-token": (("admin", "manager", "member", "reader"), None),
    "late-token": (("admin", "manager", "member", "reader"), None),
    "reader-token": (("reader",), None),
    "lessee-token": (("member", "reader"), "p-lessee"),
    "manager-token": (("manager", "member", "reader"), "p-owner"),
    "service": (("service",), "services"),
}


@pytest.fixture(scope="module")
def identity() -> Iterator[Identity]:
    found = Identity(dict(PERSONAS))
    found.users = dict.fromkeys(("admin-token", "next-token", "late-token"), "ann")
    yield found
    found.close()


@pytest.fixture(scope="module")
def with_tokens(identity: Identity) -> Iterator[service.Service]:
    """The service with logins by tokens of Keystone."""
    more = (
        "[api]\nauth_strategy = keystone\n[keystone_authtoken]\n"
        f"www_authenticate_uri = https://identity.example\nauth_url = {identity.url}\n"
        "auth_type = password\nusername = ironic\npassword = s3rvice\nproject_name = service\n"
        "user_domain_id = default\nproject_domain_id = default\nhttp_request_max_retries = 0\n"
        "token_cache_time = -1\n"
    )
    with service.service(more) as found:
        found.session.headers["X-Auth-Token"] = "next-token"
        found.start()
        found.up()
        yield found


def test_token_that_expires_in_a_form_is_asked_for_and_the_form_goes_on(
    open_page: OpenPage, with_tokens: service.Service, identity: Identity, faults: Faults
) -> None:
    with_tokens.create("token-1")
    page = open_page(with_tokens)
    page.goto(to(with_tokens, "/v1/nodes"))
    login = page.get_by_role("dialog", name="Log in")
    login.get_by_label("Token").fill("admin-token")
    login.get_by_role("button", name="Log in").click()
    row(page, "token-1").wait_for()
    page.get_by_role("link", name="token-1").click()
    press(page, "Hold…")
    form = page.get_by_role("dialog", name="Hold token-1")
    form.get_by_label("Reason").fill("typed before the end")

    def expire(route: sync_api.Route) -> None:
        identity.forget("admin-token")
        route.continue_()

    bar = page.get_by_role("banner").get_by_role("link", name="ann", exact=True)
    expect(bar).to_have_attribute("href", "#/v1/whoami")
    # Not before: another request of the page would ask for the login, and cover the form.
    page.route("**/holds", expire, times=1)
    form.get_by_role("button", name="Hold token-1", exact=True).click()
    login.wait_for()
    login.get_by_label("Token").fill("next-token")
    login.get_by_role("button", name="Log in").click()
    page.locator(".node-head").get_by_text("typed before the end").wait_for()
    expect(form).to_have_count(0)
    holds = with_tokens.get("/v1/nodes/token-1/holds")["holds"]
    assert [one["reason"] for one in holds] == ["typed before the end"]
    assert "next-token" not in page.content()
    faults.allow("401")


def test_late_refusal_of_an_old_token_does_not_ask_for_a_login_again(
    open_page: OpenPage, with_tokens: service.Service, identity: Identity, faults: Faults
) -> None:
    with_tokens.create("late-1")
    page = open_page(with_tokens)
    page.goto(to(with_tokens, "/v1/nodes/late-1"))
    login = page.get_by_role("dialog", name="Log in")
    login.get_by_label("Token").fill("late-token")
    login.get_by_role("button", name="Log in").click()
    state(page, "enroll").wait_for()
    expect(page.locator(".connection")).to_contain_text("live")
    late: list[tuple[sync_api.Route, sync_api.APIResponse]] = []
    page.route("**/why*", lambda route: late.append((route, route.fetch())), times=1)
    identity.forget("late-token")
    with_tokens.provision("late-1", "manage", "manageable")
    login.get_by_label("Token").fill("next-token")
    while not late:
        page.wait_for_timeout(50)  # Routes are served while Playwright waits.
    login.get_by_role("button", name="Log in").click()
    login.wait_for(state="detached")
    ((route, refusal),) = late
    assert refusal.status == 401
    route.fulfill(response=refusal)
    state(page, "manageable").wait_for()
    expect(login).to_have_count(0)
    faults.allow("401")


def test_reader_sees_nodes_and_is_told_what_a_reader_may_not(
    open_page: OpenPage, with_tokens: service.Service, faults: Faults
) -> None:
    with_tokens.create("read-1")
    page = open_page(with_tokens)
    page.goto(to(with_tokens, "/v1/nodes/read-1"))
    login = page.get_by_role("dialog", name="Log in")
    login.get_by_label("Token").fill("reader-token")
    login.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="read-1").wait_for()
    press(page, "Hold…")
    form = page.get_by_role("dialog", name="Hold read-1")
    form.get_by_label("Reason").fill("not mine")
    form.get_by_role("button", name="Hold read-1", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("HTTP 403")
    assert with_tokens.get("/v1/nodes/read-1/holds")["holds"] == []
    faults.allow("401|403")


def test_page_of_one_user_is_not_shown_to_the_next_one(
    open_page: OpenPage, with_tokens: service.Service, identity: Identity, faults: Faults
) -> None:
    with_tokens.create("left-1", owner="p-owner")
    identity.users["gone-token"] = "ann"
    identity.add("gone-token", PERSONAS["admin-token"])
    page = open_page(with_tokens)
    page.goto(to(with_tokens, "/v1/nodes"))
    login_with(page, "gone-token")
    row(page, "left-1").wait_for()
    identity.forget("gone-token")
    with_tokens.provision("left-1", "manage", "manageable")
    login_with(page, "lessee-token")
    # The page is read anew, and asks once more, because nothing of a login is stored.
    expect(row(page, "left-1")).to_have_count(0)
    login_with(page, "lessee-token")
    bar = page.get_by_role("banner").get_by_role("link", name="lessee-token", exact=True)
    expect(bar).to_be_visible()
    expect(page.get_by_role("grid", name="Nodes")).to_be_visible()
    expect(row(page, "left-1")).to_have_count(0)
    faults.allow("401|403")


def login_with(page: sync_api.Page, token: str) -> None:
    """Give the token that the page asks for."""
    login = page.get_by_role("dialog", name="Log in")
    login.get_by_label("Token").fill(token)
    login.get_by_role("button", name="Log in").click()


def test_lessee_sees_leased_nodes_alone_and_their_changes(
    open_page: OpenPage, with_tokens: service.Service, faults: Faults
) -> None:
    with_tokens.create("leased-1", owner="p-owner", lessee="p-lessee")
    with_tokens.create("leased-2", owner="p-owner")
    page = open_page(with_tokens)
    page.clock.install()
    page.goto(to(with_tokens, "/v1/nodes"))
    login_with(page, "lessee-token")
    row(page, "leased-1").wait_for()
    refused: list[str] = []
    page.on("response", lambda one: refused.append(one.url) if one.status == 403 else None)
    expect(page.get_by_role("grid", name="Nodes")).to_have_attribute("aria-rowcount", "2")
    expect(page.locator(".connection")).to_contain_text("every 10 s")
    with_tokens.provision("leased-1", "manage", "manageable")
    page.clock.fast_forward(AGAIN_MS)
    row(page, "leased-1").get_by_text("manageable", exact=True).wait_for()
    assert refused == []  # What whoami denies is not asked again and again.
    page.get_by_role("link", name="leased-1").click()
    expect(page.locator("p.says")).to_contain_text("not why it is in its state")
    tree = page.locator("main .tree").first
    expect(tree).to_contain_text("p-lessee")
    expect(tree).to_contain_text("manageable")
    expect(page.locator(".actions")).to_have_count(0)
    with_tokens.provision("leased-1", "provide", "available")
    page.clock.fast_forward(AGAIN_MS)
    expect(tree).to_contain_text("available")
    expect(page.locator(".node-head .state")).to_contain_text("available")
    assert [url.rpartition("/")[2] for url in refused] == ["why"]
    page.goto(to(with_tokens, "/v1/nodes/leased-2"))
    expect(page.get_by_role("alert")).to_contain_text("404")
    faults.allow("40[134]")


def test_manager_of_a_project_acts_on_its_nodes_and_sees_no_other(
    open_page: OpenPage, with_tokens: service.Service, faults: Faults
) -> None:
    with_tokens.create("owned-1", owner="p-owner")
    with_tokens.create("owned-2", owner="p-other")
    page = open_page(with_tokens)
    page.clock.install()
    page.goto(to(with_tokens, "/v1/nodes?~q=owned-"))
    login_with(page, "manager-token")
    row(page, "owned-1").wait_for()
    expect(row(page, "owned-2")).to_have_count(0)
    page.get_by_role("link", name="owned-1").click()
    press(page, "Manage…")
    confirm(page, "Manage owned-1")
    with_tokens.settled("owned-1", "manageable")
    page.clock.fast_forward(AGAIN_MS)
    state(page, "manageable").wait_for()
    press(page, "Provide…")
    confirm(page, "Provide owned-1", typed="owned-1")
    with_tokens.settled("owned-1", "available")
    page.clock.fast_forward(AGAIN_MS)
    state(page, "available").wait_for()
    page.get_by_role("link", name="Activity").first.click()
    page.locator(".activity").get_by_role("link", name="owned-1").first.wait_for()
    expect(page.locator("main")).not_to_contain_text("owned-2")
    faults.allow("40[13]")


LogIn = Callable[[str, str], sync_api.Page]


@pytest.fixture
def log_in(
    browser: sync_api.Browser, with_tokens: service.Service, faults: Faults
) -> Iterator[LogIn]:
    """A function that opens an address in a Chromium of its own, with a token."""
    faults.allow("40[13]")
    with contextlib.ExitStack() as stack:

        def start(token: str, address: str) -> sync_api.Page:
            path = chromium.program()
            assert path is not None
            own = chromium.launch(browser.browser_type, path)
            stack.callback(own.close)
            page = watched(own, with_tokens.url, faults)
            page.goto(to(with_tokens, address))
            login_with(page, token)
            return page

        yield start


def hold(page: sync_api.Page, name: str, reason: str) -> sync_api.Locator:
    """Ask for a hold of the node that a page shows; return the dialog."""
    press(page, "Hold…")
    form = page.get_by_role("dialog", name=f"Hold {name}")
    form.get_by_label("Reason").fill(reason)
    form.get_by_role("button", name=f"Hold {name}", exact=True).click()
    return form


def test_users_in_two_browsers_see_each_others_acts_and_do_their_own_alone(
    log_in: LogIn, with_tokens: service.Service
) -> None:
    for number, owner in enumerate(("p-owner", "p-owner", "p-other"), start=1):
        with_tokens.create(f"pair-{number}", owner=owner)
    manager, reader = (
        log_in(token, "/v1/nodes?~q=pair-") for token in ("manager-token", "reader-token")
    )
    for page, shown in ((manager, 2), (reader, 3)):
        for number in (1, 2, 3):
            expect(row(page, f"pair-{number}")).to_have_count(int(number <= shown))
        page.get_by_role("link", name="pair-1").click()
        page.get_by_role("heading", name="pair-1").wait_for()
    refused = hold(reader, "pair-1", "mine")
    expect(refused.get_by_role("alert")).to_contain_text("HTTP 403")
    hold(manager, "pair-1", "of the owner").wait_for(state="detached")
    # The window of the reader hears of it, below the form that goes on with what was typed.
    reader.locator(".node-head").get_by_text("of the owner").wait_for()
    expect(refused.get_by_label("Reason")).to_have_value("mine")
    holds = with_tokens.get("/v1/nodes/pair-1/holds")["holds"]
    assert [(one["reason"], one["created_by"]) for one in holds] == [
        ("of the owner", "u-manager-token")
    ]
    for page, name in ((manager, "manager-token"), (reader, "reader-token")):
        assert name not in page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, location, history.state])"
        )
        assert page.context.cookies() == []
        bar = page.get_by_role("banner").get_by_role("link", name=name, exact=True)
        expect(bar).to_have_count(1)


def test_project_in_a_browser_beside_the_owner_finds_nothing_of_the_owner(
    log_in: LogIn, with_tokens: service.Service
) -> None:
    with_tokens.create("mate-1", owner="p-owner", lessee="p-lessee", description="for rent")
    with_tokens.create("mate-2", owner="p-owner", description="kept back")
    manager = log_in("manager-token", "/v1/nodes/mate-2")
    lessee = log_in("lessee-token", "/v1/nodes?~q=kept")
    hold(manager, "mate-2", "a quiet reason").wait_for(state="detached")
    # What the browser has not in memory is searched by the service.
    expect(lessee.locator("main")).to_contain_text("No")
    expect(row(lessee, "mate-2")).to_have_count(0)
    for address in ("/v1/events", "/v1/events?requester=u-manager-token", "/v1/runs"):
        lessee.goto(to(with_tokens, address))
        lessee.locator("main h1").first.wait_for()
        expect(lessee.locator(".skeleton")).to_have_count(0)
        expect(lessee.locator("body")).not_to_contain_text("mate-2")
        expect(lessee.locator("body")).not_to_contain_text("quiet reason")
    manager.get_by_role("link", name="Activity").first.click()
    manager.locator(".activity").get_by_text("a quiet reason").first.wait_for()
