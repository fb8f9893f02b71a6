"""Parameters of the step decorators, and their checks at import.

The same checks read the steps that an agent lists.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence

from ironic_lite import errors

Priority = int | float
_HIGHEST = sys.maxsize  # orjson writes no integer beyond 64 bits


@dataclasses.dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a step; ``description`` states the possible values.

    Source: S1.5, S3.3.
    """

    description: str
    required: bool = False


def priority(value: object, *, floats: bool) -> Priority:
    """Return a step's priority.

    :raises errors.InvalidParameter: it is no number from 0 to 64 bits.
    """
    allowed = (int, float) if floats else (int,)
    fits = isinstance(value, allowed) and not isinstance(value, bool)
    if not fits or not 0 <= value <= _HIGHEST:  # type: ignore[operator]  # it is a number
        wanted = "a number" if floats else "an integer"
        reason = f"{value!r} is not {wanted} from 0 to {_HIGHEST}"
        raise errors.InvalidParameter(path="priority", reason=reason)
    return value  # type: ignore[return-value]  # narrowed by the isinstance above


def flag(name: str, value: object) -> bool:
    """Return a parameter that is True or False.

    :raises errors.InvalidParameter: it is neither.
    """
    if not isinstance(value, bool):
        raise errors.InvalidParameter(path=name, reason=f"{value!r} is not True or False")
    return value


def by_name(info: object) -> dict[str, Arg] | None:
    """Return ``argsinfo``: the arguments of a step by name.

    :raises errors.InvalidParameter: it is malformed; naming the path.
    """
    if info is None:
        return None
    if not isinstance(info, Mapping):
        raise errors.InvalidParameter(path="argsinfo", reason=f"{info!r} is not a dictionary")
    return {
        _checked_name(name): _checked_argument(f"argsinfo/{name}", about)
        for name, about in info.items()
    }


def from_list(args: object) -> dict[str, Arg]:
    """Return the arguments of a step that are given as a list.

    :raises errors.InvalidParameter: it is malformed; naming the path.

    Source: S1.5.
    """
    if isinstance(args, str) or not isinstance(args, Sequence):
        raise errors.InvalidParameter(path="args", reason=f"{args!r} is not a list")
    found: dict[str, Arg] = {}
    for position, entry in enumerate(args):
        path = f"args/{position}"
        if not isinstance(entry, Mapping) or "name" not in entry:
            raise errors.InvalidParameter(path=path, reason="is not a dictionary with a name")
        name = _checked_name(entry["name"])
        if name in found:
            raise errors.InvalidParameter(path=path, reason=f"argument {name} is there twice")
        found[name] = _checked_argument(path, {key: entry[key] for key in entry if key != "name"})
    return found


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise errors.InvalidParameter(path="args", reason=f"{name!r} cannot name an argument")
    return name


def _checked_argument(path: str, about: object) -> Arg:
    if isinstance(about, Arg):
        about = dataclasses.asdict(about)
    if not isinstance(about, Mapping):
        raise errors.InvalidParameter(path=path, reason="is not a dictionary")
    unknown = sorted(str(key) for key in about if key not in {"description", "required"})
    if unknown:
        raise errors.InvalidParameter(path=path, reason=f"has unknown keys {', '.join(unknown)}")
    description = about.get("description")
    if not isinstance(description, str) or not description:
        raise errors.InvalidParameter(path=path, reason="needs a description")
    return Arg(description, flag(f"{path}/required", about.get("required", False)))
