"""The frame of console scripts: configuration, one-line errors, exit status."""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ironic_lite import errors, features
from ironic_lite.core import config, log_lines, notify, options
from ironic_lite.core.options import Configuration

EXIT_CONFIG = 2
EXIT_FAULT = 1
EXIT_INTERRUPTED = 130
"""Exit status that a shell reports for a program ended by Ctrl-C."""


def run(
    prog: str,
    description: str,
    body: Callable[[Any], int],
    argv: Sequence[str] | None,
    cli_opts: Sequence[Any] = (),
    *,
    create: bool = True,
) -> int:
    """Load the configuration and run ``body(conf)``.

    :param argv: without the program's name; None uses the process's own.
    :param create: make the state path and a log file, if missing.
    :returns: the exit status: the body's; 2 for an unusable configuration; 1 for an error of the
        service. Both errors print one line and no traceback.
    """
    notify.begin()
    try:
        conf = config.load(
            prog,
            sys.argv[1:] if argv is None else argv,
            description=description,
            cli_opts=cli_opts,
            create=create,
        )
        features.enabled(conf)
        return body(conf)
    except errors.Error as why:
        return refuse(prog, why)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def refuse(prog: str, why: errors.Error) -> int:
    """Print an error as one line and return its exit status."""
    priority = "<3>" if log_lines.is_journal() else ""  # of an error
    print(f"{priority}{prog}: {' '.join(why.message.split())}", file=sys.stderr)
    return EXIT_CONFIG if isinstance(why, config.ConfigError) else EXIT_FAULT


def load(module: str) -> Any:
    """Return a module that is too large to import before it is needed.

    :raises errors.Error: one of its libraries is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as why:
        raise errors.Error(
            f"The library {why.name} is missing: install ironic_lite with all its dependencies."
        ) from None


# The configuration, read again at SIGHUP.
#
# Another process reads it and makes all checks of a start, so a configuration that would stop a
# start changes nothing. All processes get the values that were checked, because the files may
# change at any moment.

LOG = logging.getLogger(__name__)
Key = tuple[str, str]
"""Group and name of an option."""
Values = Mapping[Key, Any]

AGREED: Mapping[str, str] = {
    "DEFAULT": "host state_path",
    "api": "auth_strategy host port unix_socket workers",
    "conductor": "heartbeat_interval heartbeat_timeout hash_ring_reset_interval processes",
    **dict.fromkeys(("database", "direct", "features", "oslo_messaging_local"), ""),
}
"""Options by group, empty for all, that all processes must have alike: they keep their values."""
OF_CONDUCTOR: Mapping[str, str] = {
    "DEFAULT": "debug default_log_levels",
    "conductor": "automated_clean_enable enable_health_monitoring file_url_allowed_paths "
    "image_blocked_networks max_concurrent_clean max_concurrent_deploy permitted_image_formats",
    "sensor_data": "data_types enable_for_undeployed_nodes wait_timeout workers",
    **dict.fromkeys(("api", "auto_discovery", "oci"), ""),
}
"""The same of options that a conductor reads whenever it needs them."""
_CHECK_SECONDS = 90.0
"""Most seconds that the checks may take."""
_LOOK = 0.1
"""Seconds between two looks at the process that makes them."""
_IDLE = 3600.0
_READER = "import sys; from ironic_lite.cmd import status; status.write_reading(sys.argv[1:])"


def _is_in(table: Mapping[str, str], key: Key) -> bool:
    names = table.get(key[0])
    return names is not None and (not names or key[1] in names.split())


class Reading(NamedTuple):
    """A configuration as a process has read it.

    :ivar values: of our options and the log levels.
    :ivar others: the texts of further options that take effect, such as those of libraries.
    """

    values: dict[Key, Any]
    others: dict[Key, list[str]]


def of_conductors(values: Values) -> Values:
    """Return those of the values that conductors use at once."""
    return {
        key: value
        for key, value in values.items()
        if _is_in(OF_CONDUCTOR, key) and not _is_fixed(key, value)
    }


def read_values(conf: Any) -> dict[Key, Any]:
    """Return the values of our options, and the log levels."""
    names = ((group, opt.dest) for group, opts in options.GROUPS.items() for opt in opts)
    keys = [*names, ("DEFAULT", "debug"), ("DEFAULT", "default_log_levels")]
    return {key: (conf if key[0] == "DEFAULT" else conf[key[0]])[key[1]] for key in keys}


def read_again(conf: Any) -> Reading:
    """Return the values that ``conf`` has, and the texts that its files have now."""
    values = read_values(conf)
    # Not by what `conf` knows: libraries register their options when they are used.
    others = {
        one.key: one.values
        for one in config.assigned_values(conf)
        if one.group in {"DEFAULT", *options.LIBRARIES}
        and one.key not in values
        and not (options.row_of(*one.key) or config.option_named(one.key))
    }
    return Reading(values, others)


def replace_values(conf: Configuration, values: Values) -> None:
    """Give options values that another process has read and checked."""
    for (group, name), value in values.items():
        conf.set_override(name, _as_written(value), None if group == "DEFAULT" else group)


def _as_written(value: Any) -> Any:
    """Return a value with its dollar signs as files have them, because oslo.config expands it."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, list):
        return [_as_written(one) for one in value]
    if isinstance(value, dict):
        return {_as_written(key): _as_written(one) for key, one in value.items()}
    return value


class Reload:
    """Reads the configuration of a running program again.

    :param prog: the name of the program; its command line is read again, too.
    :param use: called with the changed values; returns the values with which running children were
        started, if there are some.
    """

    def __init__(
        self, conf: Configuration, prog: str, use: Callable[[Values], Sequence[Values]]
    ) -> None:
        self._conf, self._prog, self._use = conf, prog, use
        self._others = read_again(conf).others
        self._asked = False
        self._reader: subprocess.Popen[bytes] | None = None
        self._answer = os.memfd_create("configuration")  # no disk gets its secrets
        self._limit = 0.0

    def request(self) -> None:
        """Read it soon, once more if it is being read now; nohup ignores the signal."""
        self._asked = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN

    def step(self) -> float:
        """Do what is due; return the seconds until the next step."""
        if self._asked and self._reader is None:
            self._asked = False
            self._start_reader()
        if self._reader is None:
            return _IDLE
        status = self._reader.poll()
        if status is None:
            if time.monotonic() > self._limit:
                self._reader.kill()
            return _LOOK
        self._reader = None
        self._finish(status)
        return 0.0

    def stop(self) -> None:
        """End the process that reads it."""
        if self._reader is not None:
            self._reader.kill()
            self._reader.wait()

    def _start_reader(self) -> None:
        os.ftruncate(self._answer, 0)
        os.lseek(self._answer, 0, os.SEEK_SET)
        self._limit = time.monotonic() + _CHECK_SECONDS
        # -P: no module of the present folder.
        number = str(self._answer)
        words = [sys.executable, "-P", "-c", _READER, number, self._prog, *sys.argv[1:]]
        # Drivers may print, so its standard output is not the answer.
        null = subprocess.DEVNULL
        try:
            self._reader = subprocess.Popen(words, stdin=null, stdout=null, pass_fds=[self._answer])
        except OSError as why:
            self._refuse([f"no process can read it: {why.strerror}"])

    def _refuse(self, reasons: Iterable[str]) -> None:
        LOG.error("SIGHUP: the configuration is refused, nothing changes: %s", "; ".join(reasons))

    def _finish(self, status: int) -> None:
        size = os.fstat(self._answer).st_size
        if status or not size:
            self._refuse([f"the process that has read it ended with status {status}"])
            return
        try:
            version, found, faults = pickle.loads(os.pread(self._answer, size, 0))
        except Exception as why:  # another release may have written it
            self._refuse([f"the answer of the process that has read it is unusable: {why}"])
            return
        if not faults and version != config.version():
            faults = [f"release {version} is installed meanwhile; restart the program"]
        if faults:
            self._refuse(faults)
            return
        before = read_values(self._conf)
        differing = [key for key, value in found.values.items() if value != before.get(key)]
        kept = [key for key in differing if _is_fixed(key, found.values[key])]
        if any(group == "api" and name != "workers" for group, name in kept):
            # Addresses, logins and TLS were checked together, so none of them changes alone.
            kept += [key for key in differing if key[0] == "api"]
        changed = {key: found.values[key] for key in differing if key not in kept}
        running = self._use(changed) or [before]
        late = list(self._late(found, kept, running))
        shown = _shown(key for key in changed if key not in late)
        LOG.info("SIGHUP: the configuration was read again; changed: %s", shown or "nothing")
        if late:
            LOG.warning("%s: takes effect at a restart", _shown(late))

    def _late(
        self, found: Reading, kept: Collection[Key], running: Sequence[Values]
    ) -> Iterator[Key]:
        """Yield the options that differ from what running processes keep.

        :param kept: those that no process takes.
        :param running: the values of the processes that are conductors.
        """
        for key, value in found.values.items():
            of_others = self._prog != config.API and not _is_in(OF_CONDUCTOR, key)
            if key in kept or (of_others and any(value != one.get(key) for one in running)):
                yield key
        for key in sorted({*found.others, *self._others}):
            if found.others.get(key) != self._others.get(key):
                yield key


def _is_fixed(key: Key, value: Any) -> bool:
    """Return whether all processes keep an option: a value with \\$ cannot be handed over."""
    return _is_in(AGREED, key) or "\\$" in str(value)


def _shown(keys: Iterable[Key]) -> str:
    return ", ".join(f"[{group}]{name}" for group, name in keys)
