"""The error for an answer that is not a JSON object, derived from sushy's.

A module of its own, which `responses.not_json` loads with sushy at the first such answer.
"""

from __future__ import annotations

import sushy.exceptions


class NotJson(sushy.exceptions.SushyError):  # type: ignore[misc]  # sushy ships no types
    """A successful answer is not a JSON object. ``what`` says what it is instead."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
