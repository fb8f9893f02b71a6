"""The root of all errors of ours, and the way back from what was kept or sent of one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar

from ironic_lite import texts


class Error(Exception):
    """Root of all errors of ours.

    Give the facts as keywords; the sentence is ``text`` with the facts filled in. A raiser who
    needs another sentence passes ``message``. Both may quote a machine, so both are made storable.
    """

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    text: ClassVar[str] = "Something went wrong in this service."
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        self.facts = texts.cleaned(facts)
        said = message if message is not None else self.text.format_map(_Facts(self.facts))
        self.message = texts.clean(said)
        super().__init__(self.message)

    def __str__(self) -> str:
        # Flows add to the message of an error on its way; what is shown must say the same.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return from_data, (self.as_data(),)

    @property
    def code(self) -> str:
        """The class name: the stable machine-readable name of this error."""
        return type(self).__name__

    def as_data(self) -> dict[str, Any]:
        """Return what a run record or an RPC reply keeps: code, text, status, retryable, facts."""
        return {
            "code": self.code,
            "text": self.message,
            "status": int(self.status),
            "retryable": self.retryable,
            "facts": self.facts,
        }


class _Facts(dict[str, Any]):
    """A missing fact shows its own name instead of hiding the real error behind a KeyError."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


def _tree(root: type[Error]) -> dict[str, type[Error]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


def from_data(data: dict[str, Any]) -> Error:
    """Rebuild an error from ``as_data``; an unknown code becomes a plain ``Error``."""
    kind = _tree(Error).get(data.get("code", ""), Error)
    return kind(data.get("text"), **(data.get("facts") or {}))
