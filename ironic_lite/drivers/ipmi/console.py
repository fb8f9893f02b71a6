"""Serial consoles by IPMI serial over LAN: ipmitool behind a TCP port of socat.

The session with the BMC begins with a client's connection, and ends with it. A BMC allows one such
session at a time, so a leftover session is closed before a console starts.
"""

from __future__ import annotations

import errno
import itertools
import logging
import shlex
import shutil
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import command, info, interface, socat, tool

LOG = logging.getLogger(__name__)

NOTE = "ipmi_console_port"
"""Key of the node's last port, which is used again if it is free."""

_TRIES = 3
"""Ports to try if other programs take a port between check and start."""
_TAKEN = frozenset({errno.EADDRINUSE, errno.EACCES})


class IpmiSocatConsole(interface.IpmiInterface, base.Console):
    """The console interface ``ipmitool-socat``."""

    by_program = True

    def __init__(self) -> None:
        self._programs = socat.Programs()
        self._guard = threading.Lock()
        self._running: dict[str, socat.Program] = {}
        self._ports: dict[str, int] = {}  # including those of starting consoles
        for program in _missing_programs():
            LOG.warning("%s", _program_missing(program))

    def validate(self, task: base.Task) -> None:
        """Check driver_info, and the programs that consoles need.

        :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/<key>``.
        :raises errors.LibraryMissing: naming the program that is not installed.
        """
        _console_settings(task)

    def start_console(self, task: base.Task) -> None:
        """Start the console; a running one is restarted.

        :raises errors.Unavailable: its port is taken.
        :raises errors.HardwareError: the BMC is unreachable, see `tool.run`; or socat does not
            listen.
        """
        node = _console_settings(task)
        self.let_go(task.node.uuid)
        # A wrong address or login is reported now, not when a client connects.
        tool.run(task, ("power", "status"))
        _end_session(task)
        program = self._started_program(task, node)
        task.keep(NOTE, program.port)

    def stop_console(self, task: base.Task) -> None:
        """Stop the console and disconnect its client."""
        self.let_go(task.node.uuid)
        _end_session(task)

    def get_console(self, task: base.Task) -> Json:
        """Return the address of the console.

        :raises errors.Unavailable: the console is about to be restarted.
        """
        program = self.proxies().get(task.node.uuid)
        if program is None or not program.running:
            raise errors.Unavailable(
                f"The console of node {task.node.uuid} is not reachable now: its conductor is "
                "about to restart it. Retry later."
            )
        address = config.CONF.console.socat_address
        host = f"[{address}]" if ":" in address else address
        return {"type": "socat", "url": f"tcp://{host}:{program.port}"}

    def proxies(self) -> Mapping[str, socat.Program]:
        """See `base.Console`."""
        with self._guard:
            return dict(self._running)

    def let_go(self, node_uuid: str, proxy: base.Proxy | None = None) -> None:
        """See `base.Console`; the BMC ends the session after a minute of silence."""
        with self._guard:
            program = self._running.get(node_uuid)
            if program is None or (proxy is not None and proxy is not program):
                return
            del self._running[node_uuid], self._ports[node_uuid]
        program.end()

    def close(self) -> None:
        """Stop all consoles."""
        found = self.proxies()
        for program in found.values():
            program.release()
        for uuid in found:
            self.let_go(uuid)

    # -- starting ----------------------------------------------------------------------------

    def _started_program(self, task: base.Task, node: info.Info) -> socat.Program:
        uuid, settings = task.node.uuid, config.CONF.console
        terminal = shlex.join(command.terminal(tool.located(node), cipher=tool.suite(node)))
        environment = {
            **command.environment(node),
            socat.TERMINAL.encode(): terminal.encode(),
        }
        tried: set[int] = set()
        for left in reversed(range(_TRIES)):
            port = self._claim_port(uuid, node.terminal_port, task.recall(NOTE), tried)
            tried.add(port)
            words = socat.line(settings.socat_address, port, settings.terminal_timeout)
            try:
                program = self._programs.start(
                    words, port, environment, settings.subprocess_timeout
                )
            except OSError as why:
                self._release_port(uuid)
                if left and node.terminal_port is None and "in use" in str(why):
                    continue
                reason = f"The program {socat.PROGRAM} at TCP port {port}: {why}"
                raise errors.HardwareError(reason=reason) from why
            except BaseException:
                self._release_port(uuid)
                raise
            with self._guard:
                self._running[uuid] = program
            return program
        raise AssertionError("the last try returns or raises")

    def _claim_port(
        self, uuid: str, wanted: int | None, before: object, tried: Collection[int]
    ) -> int:
        """Return a free port, noted as this node's."""
        address = config.CONF.console.socat_address
        with self._guard:
            taken = {*self._ports.values(), *tried}
            for port in candidates(wanted, before, config.CONF.console.port_range or ()):
                if port not in taken and _is_free(address, port):
                    self._ports[uuid] = port
                    return port
        which = "All ports of [console]port_range are" if wanted is None else f"Port {wanted} is"
        reason = (
            f"{which} taken at {address} on the conductor's machine. Stop other consoles, or give "
            "the node another driver_info/ipmi_terminal_port."
        )
        raise errors.Unavailable(reason)

    def _release_port(self, uuid: str) -> None:
        with self._guard:
            self._ports.pop(uuid, None)


def candidates(wanted: int | None, before: object, ranges: Sequence[range]) -> Iterator[int]:
    """Return the ports for a console, the best ones first.

    :param wanted: the required port, None for any.
    :param before: the node's last port.
    :param ranges: the configured ranges; each port is yielded once.
    """
    if wanted is not None:
        return iter((wanted,))
    found = dict.fromkeys(itertools.chain.from_iterable(ranges))
    first = [port for port in (before,) if isinstance(port, int) and port in found]
    return itertools.chain(first, (port for port in found if port not in first))


def _is_free(address: str, port: int) -> bool:
    """Return whether the port is free.

    :raises errors.HardwareError: this machine cannot listen at the address.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as socat
        try:
            probe.bind((address, port))
        except OSError as why:
            if why.errno in _TAKEN:
                return False
            reason = f"cannot listen at [console]socat_address {address}: {why.strerror}."
            raise errors.HardwareError(reason=reason) from why
    return True


def _console_settings(task: base.Task) -> info.Info:
    node = tool.settings(task)
    if node.interface != info.VERSIONS["2.0"]:
        reason = "version 1.5 does not have serial over LAN; a console needs 2.0"
        raise errors.InvalidParameter(path="driver_info/ipmi_protocol_version", reason=reason)
    if node.terminal_port is None and not config.CONF.console.port_range:
        path = "driver_info/ipmi_terminal_port (or the option [console]port_range)"
        raise errors.MissingParameter(path=path)
    for program in _missing_programs():
        raise _program_missing(program)
    return node


def _missing_programs() -> list[str]:
    return [one for one in (socat.PROGRAM, command.PROGRAM) if shutil.which(one) is None]


def _program_missing(program: str) -> errors.LibraryMissing:
    return errors.LibraryMissing(
        library=f"the program {program}", purpose="consoles of the interface ipmitool-socat need"
    )


def _end_session(task: base.Task) -> None:
    """End the BMC's console session; without a session most BMCs refuse."""
    try:
        tool.run(task, ("sol", "deactivate"))
    except (errors.HardwareError, errors.InvalidRequest) as why:
        LOG.debug("Node %s: the BMC ended no console session: %s", task.node.uuid, why)
