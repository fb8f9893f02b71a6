"""Schemas of one route of the OpenAPI document."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ironic_lite.core.json_types import Json


@dataclasses.dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of one route.

    ``answer`` is for the response body, None without a body. ``takes`` is for a request body that
    the handler parses itself, ``query`` (name -> schema) for query arguments that it parses itself.
    ``beside`` are query arguments beside those of the resource's table.
    ``also`` are other success statuses with the schemas of their bodies. ``refusals`` are error
    statuses beyond those of `refusals`. ``other_type`` is another content type
    that a response may have.
    """

    answer: Json | None = None
    takes: Json | None = None
    query: Mapping[str, Json] = dataclasses.field(default_factory=dict)
    beside: Mapping[str, Json] = dataclasses.field(default_factory=dict)
    also: Mapping[int, Json | None] = dataclasses.field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    other_type: str = ""
