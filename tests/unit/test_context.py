"""Who asks is carried between processes of different versions."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from ironic_lite.core import context

TEXT = st.none() | st.text(max_size=8)


@given(
    user=TEXT,
    project=TEXT,
    roles=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    theirs=TEXT,
)
def test_a_context_survives_json(
    user: str | None, project: str | None, roles: tuple[str, ...], theirs: str | None
) -> None:
    who = context.Context(context.new_request_id(), user, project, roles, theirs)
    assert context.Context.from_dict(json.loads(json.dumps(who.as_dict()))) == who


def test_fields_of_a_newer_sender_are_ignored() -> None:
    who = context.Context.from_dict({"request_id": "req-1", "mood": "fine"})
    assert who == context.Context("req-1")


def test_roles_may_be_missing_or_null() -> None:
    assert context.Context.from_dict({"request_id": "r", "roles": None}).roles == ()


def test_a_request_id_is_req_and_a_uuid_and_never_twice_the_same() -> None:
    one, other = context.new_request_id(), context.new_request_id()
    assert re.fullmatch(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one)
    assert one != other


def test_work_nobody_asked_for_says_which_sweep_it_is() -> None:
    assert context.internal("power sync").user == "conductor:power sync"
