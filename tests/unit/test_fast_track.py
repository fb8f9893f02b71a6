"""Which nodes are on the fast track, and whether an agent counts as running."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.domain import fast_track, states


@pytest.mark.parametrize(
    ("given", "default", "found"),
    [
        *((None, default, default) for default in (True, False)),
        *((word, False, True) for word in (True, "true", "True", "1", "yes", " on ")),
        *((word, True, False) for word in (False, "false", "0", "No", "off")),
        ("perhaps", True, True),
    ],
    ids=str,
)
def test_a_node_decides_for_itself(given: Any, default: bool, found: bool) -> None:
    info = {} if given is None else {"fast_track": given}
    assert fast_track.wanted(info, default) is found


def test_nonsense_is_refused_when_it_is_written() -> None:
    fast_track.check({})
    fast_track.check({"fast_track": "yes"})
    for wrong in ("perhaps", 7, "[]"):
        with pytest.raises(errors.InvalidParameter, match="driver_info/fast_track"):
            fast_track.check({"fast_track": wrong})


def test_a_lookup_is_answered_between_verbs_too() -> None:
    more = states.FAST_TRACK_LOOKUP - states.LOOKUP_ALLOWED
    assert more == {"enroll", "manageable", "available", "servicing", "service hold"}
