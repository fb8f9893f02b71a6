"""Configurations that tests share: a change of one test reaches no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support import configurations
from tests.support.configurations import Options

SETTINGS = {"api__max_limit": 77}


@pytest.mark.parametrize(
    "change",
    [
        lambda conf: conf.set_override("max_limit", 5, group="api"),
        lambda conf: conf.clear_override("max_limit", group="api"),
        lambda conf: conf.set_default("max_limit", 5, group="api"),
        lambda conf: conf.clear_default("max_limit", group="api"),
    ],
    ids=["set_override", "clear_override", "set_default", "clear_default"],
)
def test_changed_options_are_not_shared(change: Callable[[Options], None]) -> None:
    before = configurations.shared(SETTINGS)
    assert configurations.shared(SETTINGS) is before
    change(before)
    after = configurations.shared(SETTINGS)
    assert after is not before
    assert after.api.max_limit == 77
