"""Endpoint for allocations: the only call without a node."""

from __future__ import annotations

import datetime

from ironic_lite.conductor.work.allocator import Allocator
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json


class Allocation:
    """The endpoint that starts the search for a node."""

    allocator: Allocator

    def create_allocation(self, context: Context, *, allocation: Json) -> None:
        """Add an allocation; a worker searches for its node."""
        at = datetime.datetime.fromisoformat(allocation["created_at"])
        self.allocator.begin(context, {**allocation, "created_at": at})
