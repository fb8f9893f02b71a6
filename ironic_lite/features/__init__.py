"""Features beyond Ironic: a folder for each, which can be switched off or taken away.

A folder has up to six modules: ``rules`` (pure), ``rows`` (queries), ``api`` (routes), ``work``
(sweeps and listeners of conductors), ``command`` (of ``ironic-lite-status``) and ``dbsync``
(commands of ``ironic-lite-dbsync``). The core imports none of them. The programs of ``cmd`` load
those of the features that are on, and hand over what these add.
"""

from __future__ import annotations

import importlib
import importlib.util
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ironic_lite.core import config, options
from ironic_lite.core.options import Configuration

if TYPE_CHECKING:
    from ironic_lite.api.service import Extension
    from ironic_lite.conductor import service


class StatusCommand(NamedTuple):
    """A command of ``ironic-lite-status``, one of ``COMMANDS`` in a feature's ``command``.

    ``status`` describes it with its exit status. ``run`` takes the arguments, and URL, headers and
    TLS settings as `run_command`; it returns the exit status.
    """

    name: str
    about: str
    status: str
    add_arguments: Callable[[Any], None]
    run: Callable[[Any, str, Mapping[str, str], Callable[[], ssl.SSLContext]], int]


def enabled(conf: Configuration) -> list[str]:
    """Return the features that are on; a feature whose folder was taken away is off.

    :raises config.ConfigError: a feature that another one needs is off.
    """
    chosen = [name for name in options.FEATURES if name in conf.features.enabled]
    on = [name for name in chosen if importlib.util.find_spec(f"{__name__}.{name}")]
    for name in on:
        needed = importlib.import_module(f"{__name__}.{name}").NEEDS
        if lacking := [each for each in needed if each not in on]:
            raise config.ConfigError(
                reason=f"[features]enabled: {name} needs {' and '.join(lacking)}. Add "
                f"{', '.join(lacking)} to the option, or leave out {name}"
            )
    if conf.conductor.require_clean_data and "erasures" not in on:
        raise config.ConfigError(
            reason="[conductor]require_clean_data needs the feature erasures. Add erasures to "
            "[features]enabled, or set require_clean_data = false"
        )
    return on


def api(conf: Configuration) -> tuple[Extension, ...]:
    """Return what the features that are on add to the API."""
    return tuple(module.EXTENSION for module in _modules(enabled(conf), "api"))


def work(conf: Configuration) -> list[Callable[[service.ConductorService], service.FeatureWork]]:
    """Return what makes the work of the features that are on in a conductor."""
    return [module.extend for module in _modules(enabled(conf), "work")]


def add_commands(parsers: Any) -> None:
    """Add the commands of features to ``ironic-lite-status``, also of features that are off."""
    for module in _modules(options.FEATURES, "command"):
        for one in module.COMMANDS:
            one.add_arguments(parsers.add_parser(one.name, help=one.about, description=one.status))


def run_command(
    conf: Any, url: str, login: Mapping[str, str], trusted: Callable[[], ssl.SSLContext]
) -> int:
    """Run a command of a feature, and return its exit status.

    :param url: of this service's API; ``login`` are the headers for it, ``trusted`` makes its TLS
        settings.
    :raises config.ConfigError: the feature is off.
    """
    asked, on = conf.command, enabled(conf)
    for name in options.FEATURES:
        found = (one for module in _modules([name], "command") for one in module.COMMANDS)
        for one in found:
            if asked.name != one.name:
                continue
            if name not in on:
                reason = f"{asked.name} needs the feature {name}. Add it to [features]enabled"
                raise config.ConfigError(reason=reason)
            return int(one.run(asked, url, login, trusted))
    raise KeyError(asked.name)


def add_database_commands(parsers: Any) -> None:
    """Add the commands of features to ``ironic-lite-dbsync``, also of features that are off."""
    for module in _modules(options.FEATURES, "dbsync"):
        module.add_commands(parsers)


def check_ironic_conf(argv: Sequence[str], prog: str) -> int:
    """Run the command that judges Ironic's files, also while its feature is off.

    :raises config.ConfigError: the folder of the feature was taken away, or a file is unreadable.
    """
    for module in _modules(["move_in"], "files"):
        return int(module.check(argv, prog))
    raise config.ConfigError(reason="check-ironic-conf needs the feature move_in")


def leftovers() -> list[service.Leftover]:
    """Return what features go on with after a restore, also those that are off and come back."""
    found = (getattr(module, "LEFTOVER", None) for module in _modules(options.FEATURES, "work"))
    return [one for one in found if one is not None]


def policy_rules() -> list[Any]:
    """Return all rules, also of features that are off, for the programs of oslo.policy."""
    from ironic_lite.api import policy  # noqa: PLC0415
    from ironic_lite.api.policy import enforcement  # noqa: PLC0415

    for module in _modules(options.FEATURES, "api"):
        policy.add(module.EXTENSION.rules)
    return enforcement.default_rules()


def _modules(names: Iterable[str], part: str) -> Iterator[Any]:
    for name in names:
        path = f"{__name__}.{name}"
        if importlib.util.find_spec(path) and importlib.util.find_spec(f"{path}.{part}"):
            yield importlib.import_module(f"{path}.{part}")
