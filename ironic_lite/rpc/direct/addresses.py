"""The address of a conductor, made of its name."""

from __future__ import annotations

from ironic_lite.membership import names


def address_of(name: str, port: int) -> tuple[str, int]:
    """Return the host name and the TCP port of a conductor.

    :param name: such as ``rack-one``, or ``rack-one:3`` for the third process of a machine.
    :param port: of the first process of each machine.
    """
    return names.machine(name), port + names.number(name) - 1
