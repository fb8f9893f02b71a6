"""Configurations that tests share, because to register and to read all options takes long."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from ironic_lite.core import config
from ironic_lite.rpc import transport


class Options(cfg.ConfigOpts):
    """Options that remember whether a test has overridden one."""

    overridden = False

    def set_override(self, name: str, override: Any, group: str | None = None) -> None:
        """Override an option, after which no other test may get these options."""
        self.overridden = True
        super().set_override(name, override, group)


def default() -> Options:
    """Return new options, which are as without a file and a command line."""
    conf = Options()
    config.register(conf)
    conf([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    transport.register_notifications(conf)
    return conf


def shared(settings: dict[str, Any]) -> Options:
    """Return options with values as ``group__option``.

    They are those of an earlier call with the same values, unless a test has overridden one since.
    """
    names = tuple(sorted(settings))
    key = names, repr([settings[name] for name in names])
    found = _KNOWN.get(key)
    if found is None or found.overridden:
        found = _KNOWN[key] = default()
        for name, value in settings.items():
            group, option = name.split("__")
            found.set_override(option, value, None if group == "DEFAULT" else group)
        found.overridden = False
    return found


_KNOWN: dict[tuple[tuple[str, ...], str], Options] = {}
