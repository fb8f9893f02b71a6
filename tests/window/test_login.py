"""Logins in the window, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import bcrypt
import pytest
import requests

from tests.support import service
from tests.window.conftest import Faults, OpenPage, expect

pytestmark = pytest.mark.xdist_group("window")

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
    other.evaluate("location.hash = '#/v1/runs'")
    other.get_by_role("dialog", name="Log in").wait_for()
