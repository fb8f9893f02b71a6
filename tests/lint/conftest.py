"""Rules for the source share its syntax trees, which go away with the last rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import source_trees


@pytest.fixture(scope="package", autouse=True)
def trees() -> Iterator[None]:
    """Free the trees at the end: each full garbage collection of later tests would visit them."""
    yield
    source_trees.nodes.cache_clear()
    source_trees.tree.cache_clear()
