"""Tokens of Keystone in the window: one that expires in a form, and what projects see and may."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright import sync_api

from tests.compare.identity import Identity
from tests.support import service
from tests.window.acts import confirm, press, row, state, to
from tests.window.conftest import Faults, OpenPage, expect

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
