"""Requests that a node takes now, or refuses with an error. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.domain.failures import shortened
from ironic_lite.domain.states import State


class Offer(NamedTuple):
    """A verb that the state offers.

    ``leads_to`` is the state at its end; ``after`` the step that ends before the verb has an
    effect; ``refusal`` the first error of the same request, None if it would be accepted.
    """

    target: str
    leads_to: State
    after: str | None
    refusal: errors.Error | None

    def document(self, most: int) -> Json:
        """Return the verb as clients see it; ``most`` limits the characters of a refusal."""
        return {
            "target": self.target,
            "leads_to": str(self.leads_to),
            "after": self.after,
            "refused": _refused(self.refusal, most),
        }


class Order(NamedTuple):
    """An order outside of verbs, such as ``power``.

    ``targets`` are its possible values, none if it has no fixed ones; ``refusal`` as in `Offer`.
    """

    name: str
    targets: tuple[str | bool, ...]
    refusal: errors.Error | None

    def document(self, most: int) -> Json:
        """Return the order as clients see it; ``most`` limits the characters of a refusal."""
        refused = _refused(self.refusal, most)
        return {"order": self.name, "targets": list(self.targets), "refused": refused}


def _refused(why: errors.Error | None, most: int) -> Json | None:
    return {"code": why.code, "text": shortened(why.message, most)} if why else None
