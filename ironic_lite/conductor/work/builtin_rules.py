"""The rules of ``[inspection_rules]built_in_rules``, reread when they change."""

from __future__ import annotations

import os
import pathlib
from typing import NamedTuple

import orjson

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.domain import inspection_rules


class _Read(NamedTuple):
    stamp: tuple[int, int, int]
    rules: list[Json]


class BuiltinRules:
    """The rules of one file.

    :param path: of the YAML or JSON file; None or empty: there are no built-in rules.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._read: _Read | None = None

    def check(self) -> None:
        """Read the file, so that its faults are reported before an inspection.

        :raises config.ConfigError: the file cannot be read, or its content is invalid.
        """
        try:
            self.rules()
        except errors.LocalFileError as why:
            raise config.ConfigError(reason=f"[inspection_rules]built_in_rules: {why}") from None

    def rules(self, phase: str | None = None) -> list[Json]:
        """Return the rules, or those of one phase, in the order of the file.

        :raises errors.LocalFileError: the file cannot be read, or its content is invalid.
        """
        if not self._path:
            return []
        try:
            about = os.stat(self._path)
            stamp = (about.st_mtime_ns, about.st_size, about.st_ino)
            if self._read is None or self._read.stamp != stamp:
                self._read = _Read(stamp, _parse_rules(pathlib.Path(self._path).read_bytes()))
        except OSError as why:
            reason = why.strerror or str(why)
            raise errors.LocalFileError(path=self._path, reason=reason) from None
        except errors.InvalidParameter as why:
            raise errors.LocalFileError(path=self._path, reason=why.message) from None
        return [rule for rule in self._read.rules if phase in (None, rule["phase"])]


def _parse_rules(text: bytes) -> list[Json]:
    import yaml  # noqa: PLC0415  # few have such a file, and all would keep it in memory

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as why:
        reason = " ".join(str(why).split())[:200]
        raise errors.InvalidParameter(path="file", reason=f"is no YAML: {reason}") from None
    try:
        # Nodes store JSON: a date becomes text; a value without a JSON form is refused now.
        plain = orjson.loads(orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS))
    except TypeError as why:
        reason = f"has a value that JSON cannot represent: {why}"
        raise errors.InvalidParameter(path="file", reason=reason) from None
    return inspection_rules.parse(plain)
