"""The base class of this service's errors, and its form in records and messages."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, ClassVar, Self

from ironic_lite.errors import unicode_text


class Error(Exception):
    """Base class of all errors of this service.

    Give the facts as keywords; ``text`` with the facts filled in becomes the message. Pass
    ``message`` for another text. Both may quote a machine, so both are made storable.

    The chain of causes is Python's: ``raise StepFailed(...) from why`` keeps ``why`` as the cause.
    """

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    text: ClassVar[str] = "Something went wrong in this service."
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, **facts: object) -> None:
        self.facts = unicode_text.cleaned(facts)
        said = message if message is not None else self.text.format_map(_Facts(self.facts))
        self.message = unicode_text.clean(said)
        super().__init__(self.message)

    def __str__(self) -> str:
        # Flows may extend the message of an error; str() must show the same text.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return from_data, (self.as_data(),)

    @property
    def code(self) -> str:
        """The class name: the stable machine-readable name of this error."""
        return type(self).__name__

    @property
    def cause(self) -> Error | None:
        """The error of this service that led to this error; None without one."""
        return self.__cause__ if isinstance(self.__cause__, Error) else None

    def because(self, why: Error) -> Self:
        """Set the cause, as ``raise ... from why`` does; return this error."""
        self.__cause__ = why
        return self

    @property
    def causes(self) -> list[Error]:
        """This error and the chain of its causes; the last one came first in time."""
        chain: list[Error] = [self]
        while (cause := chain[-1].cause) is not None and cause not in chain:
            chain.append(cause)
        return chain

    def as_data(self) -> dict[str, Any]:
        """Return the form of RPC replies.

        Keys: code, text, status, retryable, facts; with a cause also ``cause``, the first error of
        the chain in the same form.
        """
        first = self.causes[-1]
        return {**self._own_data(), **({} if first is self else {"cause": first._own_data()})}

    def _own_data(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "text": self.message,
            "status": int(self.status),
            "retryable": self.retryable,
            "facts": self.facts,
        }


class _Facts(dict[str, Any]):
    """Facts that show a missing fact by its name, instead of raising KeyError."""

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
    error = kind(data.get("text"), **(data.get("facts") or {}))
    cause = data.get("cause")
    return error.because(from_data(cause)) if isinstance(cause, dict) else error
