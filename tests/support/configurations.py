"""Configurations that tests share, because to register and to read all options takes long."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from ironic_lite import features
from ironic_lite.core import config
from ironic_lite.rpc import transport


class Options(cfg.ConfigOpts):
    """Options that remember whether a test has changed one."""

    changed = False

    def set_override(self, name: str, override: Any, group: str | None = None) -> None:
        """Override an option, after which no other test may get these options."""
        self.changed = True
        super().set_override(name, override, group)

    def clear_override(self, name: str, group: str | None = None) -> None:
        """Undo `set_override`, as ``shared`` may have set the value."""
        self.changed = True
        super().clear_override(name, group)

    def set_default(self, name: str, default: Any, group: str | None = None) -> None:
        """Change a default, after which no other test may get these options."""
        self.changed = True
        super().set_default(name, default, group)

    def clear_default(self, name: str, group: str | None = None) -> None:
        """Undo `set_default`, as a library may have set the default."""
        self.changed = True
        super().clear_default(name, group)


def default() -> Options:
    """Return new options, which are as without a file and a command line."""
    conf = Options()
    config.register(conf)
    conf([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    transport.register_notifications(conf)
    return conf


def shared(settings: dict[str, Any]) -> Options:
    """Return options with values as ``group__option``.

    They are those of an earlier call with the same values, unless a test has changed one since.
    """
    names = tuple(sorted(settings))
    key = names, repr([settings[name] for name in names])
    found = _KNOWN.get(key)
    if found is None or found.changed:
        found = _KNOWN[key] = default()
        for name, value in settings.items():
            group, option = name.split("__")
            found.set_override(option, value, None if group == "DEFAULT" else group)
        found.changed = False
    return found


_KNOWN: dict[tuple[tuple[str, ...], str], Options] = {}
FEATURES = features.enabled(default())
"""The features that are on in this run of the tests."""
