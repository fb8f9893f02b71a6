"""Allocations: the only thing that is asked of a conductor about no node yet."""

from __future__ import annotations

import datetime
from typing import Any

from ironic_lite.conductor.allocating import Allocator
from ironic_lite.context import Context

Json = dict[str, Any]


class Allocation:
    """The endpoint that begins to look for a node."""

    allocator: Allocator

    def create_allocation(self, context: Context, *, allocation: Json) -> None:
        """Add an allocation; a worker looks for its node."""
        at = datetime.datetime.fromisoformat(allocation["created_at"])
        self.allocator.begin(context, {**allocation, "created_at": at})
