"""Who may see, change and use runbooks, by Ironic's default rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.callers import OWNER, STRANGER, Callers
from tests.support.wsgi_client import op

PLACE = "/v1/runbooks"
STEP = {"interface": "raid", "step": "delete_configuration", "args": {}, "order": 1}


@pytest.fixture
def book(callers: Callers) -> dict[str, Any]:
    """A runbook that all may see."""
    made = callers("admin").post(PLACE, {"name": "CUSTOM_ALL", "steps": [STEP], "public": True})
    assert made.status == 201, made.text
    return dict(made.json)


@pytest.mark.parametrize(
    ("method", "below", "body"),
    [
        ("PATCH", "", [op("add", "/extra/x", 1)]),
        ("PATCH", "", [op("replace", "/public", False)]),
        ("PATCH", "", [op("replace", "/public", False), op("add", "/owner", STRANGER)]),
        ("DELETE", "", None),
        ("PUT", "/traits", {"traits": ["CUSTOM_A"]}),
        ("DELETE", "/traits", None),
    ],
)
def test_a_public_runbook_is_seen_by_all_and_changed_by_few(
    callers: Callers, book: dict[str, Any], method: str, below: str, body: Any
) -> None:
    path = f"{PLACE}/{book['uuid']}{below}"
    for role, project in (("reader", None), ("admin", OWNER), ("reader", STRANGER)):
        api = callers(role, project)
        assert api.get(f"{PLACE}/{book['uuid']}").status == 200
        answer = api.request(method, path, body)
        assert answer.status == 403
        assert "baremetal:runbook:" in answer.text
    assert callers("reader").get(f"{PLACE}/{book['uuid']}").json == book
    assert callers("member").request(method, path, body).status in {200, 204}
