"""Generate ``ironic_lite/core/configuration.py`` from the tables of options.

Use: configuration.py. It prints the module.
"""

from __future__ import annotations

from collections.abc import Iterable

from oslo_config import cfg, types

from ironic_lite.core import config

_HEAD = '''"""The types of all options, one protocol for each group.

Generated from ``core/options`` by ``make sample``; do not edit. oslo.config has no types, so these
say what ``conf.group.option`` is. Functions that need more of oslo.config take
``cfg.ConfigOpts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Group(Protocol):
    """Options of one group, or of [DEFAULT]."""

    def __getitem__(self, key: str) -> Any:
        """Return the value of an option whose name is put together."""

    def __contains__(self, key: str) -> bool:
        """Return whether there is an option, or a group, of this name."""
'''
_GROUP = '''

class {name}(Group, Protocol):
    """Options of [{group}]."""

{options}
'''
_ROOT = '''

class Configuration(Group, Protocol):
    """The loaded options: the groups, and those of [DEFAULT].

    The methods are those of ``oslo_config.cfg.ConfigOpts`` that this service uses.
    """

    def __call__(self, *args: Any, **how: Any) -> Any:
        """Read command line and files."""

    def clear(self) -> None:
        """Forget values and overrides."""

    def reset(self) -> None:
        """Forget values that were read."""

    def get_location(self, name: str, group: str | None = None) -> Any:
        """Return where the value of an option comes from."""

    def find_file(self, name: str) -> str | None:
        """Return the path of a file beside the configuration files."""

    def register_opts(self, opts: Sequence[Any], group: str | None = None) -> None:
        """Add options."""

    def set_default(self, name: str, default: Any, group: str | None = None) -> None:
        """Set another default."""

    def set_override(self, name: str, override: Any, group: str | None = None) -> None:
        """Set a value above all files."""

    def clear_override(self, name: str, group: str | None = None) -> None:
        """End `set_override`."""

{options}
'''
_PLAIN = {
    types.Boolean: "bool",
    types.Float: "float",
    types.Integer: "int",
    types.String: "str",
    types.HostAddress: "str",
    types.IPAddress: "str",
    types.URI: "str",
    types.Dict: "dict[str, str]",
}


def render() -> str:
    """Return the text of the module."""
    groups = dict(config.list_opts())
    parts = [_HEAD]
    for group, opts in groups.items():
        if group != "DEFAULT":
            options = "\n".join(_lines(opts))
            parts.append(_GROUP.format(name=_class(group), group=group, options=options))
    members = [f"    {group}: {_class(group)}" for group in groups if group != "DEFAULT"]
    options = "\n".join([*members, *_lines(groups["DEFAULT"])])
    return "".join([*parts, _ROOT.format(options=options)])


def _class(group: str) -> str:
    return "".join(word.capitalize() for word in group.split("_")) + "Options"


def _lines(opts: Iterable[cfg.Opt]) -> Iterable[str]:
    for opt in opts:
        found = _type(opt.type)
        if isinstance(opt, cfg.MultiOpt):
            found = f"list[{found}]"
        if opt.default is None and not opt.required:
            found += " | None"
        yield f"    {opt.dest}: {found}"


def _type(kind: object) -> str:
    """Return the Python type of an option's value."""
    if isinstance(kind, types.List):
        return f"list[{_type(kind.item_type)}]"
    for known, name in _PLAIN.items():
        if isinstance(kind, known):
            return name
    declared: str = type(kind).__call__.__annotations__["return"]  # a type of this service
    return declared


if __name__ == "__main__":
    print(render(), end="")
