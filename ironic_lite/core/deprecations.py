"""Deprecated options, routes and ways of drivers: what a later major release removes.

An option is written ``[group]name``, a route ``GET /v1/path``; anything else is in words. A row
stays for at least two minor releases and twelve months. Routes are marked in the OpenAPI document,
options in use are logged at a start and by ``ironic-lite-status upgrade check``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Deprecation(NamedTuple):
    """Something deprecated since a minor release, which goes in a major one."""

    what: str
    since: str
    gone: str
    instead: str

    def __str__(self) -> str:
        return (
            f"{self.what} is deprecated since {self.since} and goes in {self.gone}: "
            f"use {self.instead}"
        )


TABLE: Sequence[Deprecation] = (
    Deprecation("[conductor]clean_nodes", "1.0", "2.0", "[conductor]automated_clean_enable"),
    Deprecation(
        "a deploy interface without deploy steps", "1.0", "2.0", "methods with base.deploy_step"
    ),
)


def find(what: str) -> Deprecation | None:
    """Return the row of an option or a route."""
    return next((row for row in TABLE if row.what == what), None)
