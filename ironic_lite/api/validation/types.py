"""WSME types of query arguments and of small bodies.

The tables of ``queries`` describe the arguments of lists; ``schemas`` checks whole documents.
"""

from __future__ import annotations

import math
import re
from typing import Any

import wsme.types

from ironic_lite import errors
from ironic_lite.api.validation import rules

Text = wsme.types.text
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")
# float() accepts more, such as 1_0 or digits of other scripts, which are typing errors.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SHOWN = 20


class Boolean(wsme.types.UserType):  # type: ignore[misc]  # WSME ships no types
    """A JSON boolean, or one of the words of `rules.boolean` in any case."""

    basetype = Text
    name = "boolean"

    @staticmethod
    def frombasetype(value: object) -> bool:
        """Raise InvalidParameter for anything else."""
        return rules.boolean(value, "value")


class Number(wsme.types.UserType):  # type: ignore[misc]
    """A finite number; infinity and NaN are refused.

    Source: C35.
    """

    basetype = Text
    name = "number"

    @staticmethod
    def frombasetype(value: Any) -> float:
        """Raise ValueError for anything else."""
        fits = isinstance(value, str | int | float) and not isinstance(value, bool)
        shown = errors.shown(value, _SHOWN)
        if not fits or (isinstance(value, str) and not _NUMBER.fullmatch(value)):
            raise ValueError(f"{shown} is not a number")
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"{shown} is not a finite number")
        return number


class Integer(wsme.types.UserType):  # type: ignore[misc]
    """A whole number of at most nine digits, as JSON or as text."""

    basetype = Text
    name = "integer"

    @staticmethod
    def frombasetype(value: object) -> int:
        """Raise ValueError for anything else."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError(f"{errors.shown(value)} is not a whole number")
        if not _INTEGER.fullmatch(str(value)):
            raise ValueError(
                f"{str(value)[:_SHOWN]!r} is not a whole number of at most nine digits"
            )
        return int(value)


class Word(wsme.types.UserType):  # type: ignore[misc]
    """A string that every database can store."""

    basetype = Text
    name = "string"

    @staticmethod
    def frombasetype(value: object) -> str:
        """Raise InvalidParameter for anything else."""
        return rules.text(value, "value")


boolean = Boolean()
integer = Integer()
number = Number()
word = Word()
