"""Other clients change nodes while the window is open; it shows that, and they notice nothing."""

from __future__ import annotations

from playwright import sync_api

from tests.support import real_socket, service
from tests.window.acts import act, row, state, to
from tests.window.conftest import expect


def client(running: service.Service, *words: str) -> None:
    """Run a command of python-ironicclient that works."""
    done = real_socket.baremetal(running.url, *words)
    assert done.returncode == 0, done.stderr


def test_changes_by_the_command_line_client_are_shown_as_they_happen(
    page: sync_api.Page, live: service.Service
) -> None:
    page.goto(to(live, "/v1/nodes?~q=typed-"))
    page.get_by_role("grid", name="Nodes").wait_for()
    client(live, "node", "create", "--driver", "fake-hardware", "--name", "typed-1")
    row(page, "typed-1").get_by_text("enroll", exact=True).wait_for()
    client(live, "node", "manage", "typed-1", "--wait", "60")
    row(page, "typed-1").get_by_text("manageable", exact=True).wait_for()
    client(live, "node", "maintenance", "set", "typed-1", "--reason", "a loud fan")
    expect(row(page, "typed-1")).to_contain_text("maintenance")
    page.get_by_role("link", name="typed-1").click()
    state(page, "manageable").wait_for()
    expect(page.locator(".connection")).to_contain_text("live")
    client(live, "node", "maintenance", "unset", "typed-1")
    act(page, "Maintenance…").wait_for(state="attached")
    client(live, "node", "power", "on", "typed-1")
    page.locator(".node-head").get_by_text("power on", exact=True).wait_for()
    page.go_back()
    row(page, "typed-1").wait_for()
    page.mouse.move(0, 0)  # Rows stay while the pointer is on them.
    client(live, "node", "delete", "typed-1")
    row(page, "typed-1").wait_for(state="detached")
