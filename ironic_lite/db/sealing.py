"""Encrypt what is secret in the database: whole JSON values, under the keys of the configuration.

A sealed value is stored as ``{"$fernet": "<id of the key>:<token>"}``, which is JSON like any
other, so no column changes. ``none`` in place of a key means that values are stored as they are: as
the first of the keys, while others are still needed to read what was sealed before.

Tokens are Fernet's: AES-128-CBC and HMAC-SHA256, with a random vector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ironic_lite import config, errors
from ironic_lite.db import encoding

MARK = "$fernet"
PLAIN = "none"
_START = f'{{"{MARK}":'
_IDENT = 8  # characters of a key's name
_EMPTY: tuple[Any, ...] = ({}, [])


class Keys:
    """The keys of one database; the first seals, all open.

    :param given: Fernet keys (32 bytes in URL-safe base64), or ``none``.
    :raises config.ConfigError: one of them is neither.
    """

    def __init__(self, given: Sequence[str] = ()) -> None:
        made = [(_ident(key), _fernet(key, place)) for place, key in enumerate(given, 1)]
        self._known: Mapping[str, Any] = dict(made)
        self._first = made[0][0] if made else PLAIN

    @property
    def first(self) -> str:
        """By what the key is known that seals; ``none`` for none."""
        return self._first

    def lacks(self, idents: Iterable[str]) -> list[str]:
        """Return those of the keys of these names that are not here."""
        return sorted(set(idents) - self._known.keys() - {PLAIN})

    def seal(self, value: Any) -> Any:
        """Return the JSON value that is stored for ``value``; empty ones hold nothing secret."""
        if self._first == PLAIN:
            # What a caller has written in our own form is taken for no token.
            odd = isinstance(value, dict) and MARK in value
            return {MARK: f"{PLAIN}:{encoding.to_json(value)}"} if odd else value
        if value is None or value in _EMPTY:
            return value
        token = self._known[self._first].encrypt(encoding.to_json(value).encode())
        return {MARK: f"{self._first}:{token.decode()}"}

    def open(self, stored: Any) -> Any:
        """Return the value of which `seal` has made ``stored``.

        :raises errors.KeyMissing: it was sealed with a key that is not here.
        """
        if not isinstance(stored, dict) or MARK not in stored:
            return stored
        return encoding.from_json(self._opened(stored))

    def open_text(self, text: str | None) -> str | None:
        """Do what `open` does, for the texts of JSON."""
        if text is None or not text.startswith(_START):
            return text
        return self._opened(encoding.from_json(text))

    def fresh(self, stored: Any) -> bool:
        """Tell whether a stored value is as `seal` would store it now."""
        if stored is None or stored in _EMPTY:
            return True
        sealed = isinstance(stored, dict) and MARK in stored
        return (str(stored[MARK]).partition(":")[0] if sealed else PLAIN) == self._first

    def _opened(self, stored: Mapping[str, Any]) -> str:
        ident, _, token = str(stored[MARK]).partition(":")
        if ident == PLAIN:
            return token
        found = self._known.get(ident)
        if found is None:
            raise errors.KeyMissing(key=ident)
        try:
            text: bytes = found.decrypt(token.encode())
        except Exception:  # InvalidToken: cryptography is loaded only where there are keys
            raise errors.KeyMissing(key=ident) from None
        return text.decode()


def _ident(key: str) -> str:
    """Return by what a key is known; nothing can be learnt from it."""
    return PLAIN if key == PLAIN else hashlib.sha256(key.encode()).hexdigest()[:_IDENT]


def _fernet(key: str, place: int) -> Any:
    if key == PLAIN:
        return None
    from cryptography.fernet import Fernet  # noqa: PLC0415  # a third of a second, for nothing

    try:
        return Fernet(key)
    except ValueError:
        raise config.ConfigError(
            reason=f"[database]encryption_keys: number {place} is no Fernet key (32 bytes in "
            "URL-safe base64), nor 'none'"
        ) from None


# -- in a column -----------------------------------------------------------------------------

_NO_KEYS = Keys()
_ATTRIBUTE = "ironic_lite_keys"


def attach(engine: sa.Engine, keys: Keys) -> None:
    """Let everything that goes over ``engine`` be sealed with ``keys``."""
    setattr(engine.dialect, _ATTRIBUTE, keys)


def keys_of(dialect: sa.Dialect) -> Keys:
    """Return the keys of an engine, or of a connection."""
    found: Keys = getattr(dialect, _ATTRIBUTE, _NO_KEYS)
    return found


class Sealed(sa.types.TypeDecorator[Any]):
    """The type of a JSON column whose values may be secret; to the database it is JSON."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        """Seal."""
        return keys_of(dialect).seal(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """Open."""
        return keys_of(dialect).open(value) if type(value) is dict and MARK in value else value


def opener(dialect: sa.Dialect) -> Callable[[str | None], str | None]:
    """Return what makes the text of JSON of what a sealed column has stored."""
    return keys_of(dialect).open_text


def ident(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return by what the key is known under which a column's value lies; null if it lies open."""
    text = sa.cast(column, sa.Text)
    start = f'{_START}"'
    key = sa.func.substr(text, len(start) + 1, _IDENT)
    return sa.case((sa.func.substr(text, 1, len(start)) == start, key), else_=None)


def sealed(table: sa.Table) -> tuple[str, ...]:
    """Return the names of the columns of a table that are sealed."""
    return tuple(str(each.key) for each in table.columns if isinstance(each.type, Sealed))
