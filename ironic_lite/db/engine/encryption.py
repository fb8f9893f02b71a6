"""JSON values of columns: their text, and the encryption of secret ones with the configured keys.

An encrypted value is stored as ``{"$fernet": "<id of the key>:<token>"}``. This is JSON too, so no
column changes. ``none`` in place of a key stores values as they are. As the first key it turns
encryption off, while the other keys still decrypt older values.

Tokens are Fernet's: AES-128-CBC and HMAC-SHA256, with a random vector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Row, RowView

from_json = orjson.loads


def to_json(value: object) -> str:
    """Return the JSON text of a value; times are ISO 8601.

    :raises TypeError: it holds something other than JSON.
    """
    try:
        return _dump_json(value)
    except TypeError:  # mostly an invalid text from a machine; clients' texts are checked
        return _dump_json(errors.cleaned(value))


def _dump_json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_NAIVE_UTC).decode()


MARK = "$fernet"
PLAIN = "none"
START = f'{{"{MARK}":'
"""The beginning of the JSON text of an encrypted value."""
_IDENT = 8  # characters of a key's name
_EMPTY: tuple[Any, ...] = ({}, [])


class Keys:
    """The keys of one database; the first encrypts, all decrypt.

    :param given: Fernet keys (32 bytes in URL-safe base64), or ``none``.
    :raises config.ConfigError: one of them is neither.
    """

    def __init__(self, given: Sequence[str] = ()) -> None:
        made = [(_key_id(key), _fernet_of(key, place)) for place, key in enumerate(given, 1)]
        self._known: RowView = dict(made)
        # Name of the key that encrypts; ``none`` without one.
        self.first = made[0][0] if made else PLAIN

    def lacks(self, idents: Iterable[str]) -> list[str]:
        """Return the names in the argument that belong to no key here."""
        return sorted(set(idents) - self._known.keys() - {PLAIN})

    def encrypt_value(self, value: object) -> Any:
        """Return the JSON value stored for ``value``; empty values hold no secret."""
        if self.first == PLAIN:
            # A client's value in the form of a token must not be taken for one.
            odd = isinstance(value, dict) and MARK in value
            return {MARK: f"{PLAIN}:{to_json(value)}"} if odd else value
        if value is None or value in _EMPTY:
            return value
        token = self._known[self.first].encrypt(to_json(value).encode())
        return {MARK: f"{self.first}:{token.decode()}"}

    def open(self, stored: object) -> Any:
        """Return the value from which `encrypt_value` made ``stored``.

        :raises errors.KeyMissing: it was encrypted with a key that is not here.
        """
        if not isinstance(stored, dict) or MARK not in stored:
            return stored
        return from_json(self._decrypt_text(stored))

    def open_text(self, text: str | None) -> str | None:
        """Decrypt like `open`, for the texts of JSON."""
        if text is None or not text.startswith(START):
            return text
        return self._decrypt_text(from_json(text))

    def fresh(self, stored: Any) -> bool:
        """Return whether a stored value is as `encrypt_value` would store it now."""
        if stored is None or stored in _EMPTY:
            return True
        sealed = isinstance(stored, dict) and MARK in stored
        return (str(stored[MARK]).partition(":")[0] if sealed else PLAIN) == self.first

    def _decrypt_text(self, stored: RowView) -> str:
        ident, _, token = str(stored[MARK]).partition(":")
        if ident == PLAIN:
            return token
        found = self._known.get(ident)
        if found is None:
            raise errors.KeyMissing(key=ident)
        try:
            text: bytes = found.decrypt(token.encode())
        except Exception:  # InvalidToken: cryptography is loaded only with keys
            raise errors.KeyMissing(key=ident) from None
        return text.decode()


def _key_id(key: str) -> str:
    """Return the name of a key, which reveals nothing about it."""
    return PLAIN if key == PLAIN else hashlib.sha256(key.encode()).hexdigest()[:_IDENT]


def _fernet_of(key: str, place: int) -> Any:
    if key == PLAIN:
        return None
    from cryptography.fernet import Fernet  # noqa: PLC0415  # takes a third of a second

    try:
        return Fernet(key)
    except ValueError:
        raise config.ConfigError(
            reason=f"[database]encryption_keys: number {place} is no Fernet key (32 bytes in "
            "URL-safe base64), nor 'none'"
        ) from None


# -- in a column -----------------------------------------------------------------------------

OPTION = "ironic_lite_keys"
"""The execution option of an engine that holds its keys."""
_NO_KEYS = Keys()


class _Secret:
    """A value on its way into an encrypted column; the engine's serializer encrypts."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class _Stored(Row):
    """A value in encrypted form, with the keys of the engine that has read it."""

    __slots__ = ("secrets",)

    def __init__(self, value: RowView, secrets: Keys) -> None:
        super().__init__(value)
        self.secrets = secrets


class _Serializer:
    """Serializer to JSON; an object, as psycopg identifies functions by their code."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def __call__(self, value: object) -> str:
        return to_json(self._keys.encrypt_value(value.value) if type(value) is _Secret else value)


class _Deserializer:
    """Deserializer from JSON; see `_Serializer`."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def __call__(self, text: Any) -> Any:
        value = from_json(text)
        return _Stored(value, self._keys) if type(value) is dict and MARK in value else value


def engine_options(keys: Keys) -> Row:
    """Return the arguments of ``create_engine`` for encrypted columns with these keys.

    A column type belongs to all engines; the serializer and the deserializer belong to each engine.
    """
    return {
        "json_serializer": _Serializer(keys),
        "json_deserializer": _Deserializer(keys),
        "execution_options": {OPTION: keys},
    }


def keys_of(bind: sa.Engine | sa.Connection) -> Keys:
    """Return the keys of an engine, or of a connection."""
    found: Keys = bind.get_execution_options().get(OPTION, _NO_KEYS)
    return found


class EncryptedJSON(sa.types.TypeDecorator[Any]):
    """The type of a JSON column whose values may be secret; to the database it is JSON."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: object, dialect: sa.Dialect) -> Any:
        """Mark the value for encryption."""
        return None if value is None else _Secret(value)

    def process_result_value(self, value: object, dialect: sa.Dialect) -> Any:
        """Decrypt the value."""
        return value.secrets.open(value) if type(value) is _Stored else value


def opener(conn: sa.Connection) -> Callable[[str | None], str | None]:
    """Return the function that decrypts the text of an encrypted column to JSON text."""
    return keys_of(conn).open_text


def ident(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return an expression for the name of a value's key, null if it is not encrypted."""
    text = sa.cast(column, sa.Text)
    start = f'{START}"'
    key = sa.func.substr(text, len(start) + 1, _IDENT)
    return sa.case((sa.func.substr(text, 1, len(start)) == start, key), else_=None)


def encrypted_columns(table: sa.Table) -> tuple[str, ...]:
    """Return the names of the encrypted columns of a table."""
    return tuple(str(each.key) for each in table.columns if isinstance(each.type, EncryptedJSON))
