"""CA certificate files of the operator, for verifying BMCs.

Users of the API write ``driver_info/redfish_verify_ca``, so it can name only files in
``[redfish]ca_folder``. This module never opens devices, pipes or links that lead out of that
folder: opening one may block for ever or have an effect. Every refusal has the same text, so a
refusal does not reveal which files exist.
"""

from __future__ import annotations

import os
import pathlib
import re
import ssl
import stat

from ironic_lite import errors

REFUSAL = (
    "must be true, false, or the name of a PEM file, or of a folder of such files, in "
    "[redfish]ca_folder that this service can read"
)

State = tuple[tuple[str, int, int, int], ...]
"""Path, inode, size and time of change in nanoseconds of each file."""

_MOST_FILES = 1000
_MOST_BYTES = 4 * 1024 * 1024
"""Size limit of one file; the bundle of all public authorities has a quarter of a million bytes."""
_PEM = re.compile(
    rb"-----BEGIN (?P<kind>(?:TRUSTED |X509 )?CERTIFICATE)-----[^-]*-----END (?P=kind)-----"
)


def located(name: str, folder: str) -> str:
    """Return the real path of a CA file or folder.

    :param name: relative to ``folder``, or an absolute path below it.
    :raises ValueError: with `REFUSAL`, for every reason.
    """
    try:
        base = os.path.realpath(folder)
        real = os.path.realpath(pathlib.Path(base, name))
        mode = os.stat(real).st_mode if pathlib.Path(real).is_relative_to(base) else 0
    except (OSError, ValueError):
        mode = 0
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(REFUSAL)
    return real


def state(path: str) -> State:
    """Return the current state of the files at a path returned by `located`.

    :raises errors.InvalidParameter: the path cannot be read any more.
    """
    try:
        if not os.path.isdir(path):
            return (_file_stamp(path),)
        names = sorted(os.listdir(path))[:_MOST_FILES]
        # OpenSSL names its files by links within the folder; links that lead elsewhere are left
        # out.
        found = {os.path.realpath(os.path.join(path, name)) for name in names}
        inside = [one for one in sorted(found) if os.path.dirname(one) == path]
        return tuple(_file_stamp(one) for one in inside if stat.S_ISREG(os.stat(one).st_mode))
    except OSError:
        raise _ca_file_refused() from None


def load(context: ssl.SSLContext, files: State) -> None:
    """Make a TLS context trust the certificates in files.

    :raises errors.InvalidParameter: a file cannot be read, or no file has a certificate.
    """
    try:
        found = [pem[0] for path, *_ in files for pem in _PEM.finditer(_read_certificates(path))]
        for pem in found:
            context.load_verify_locations(cadata=pem.decode("ascii"))
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        raise _ca_file_refused() from None
    if not found:
        raise _ca_file_refused()


def _file_stamp(path: str) -> tuple[str, int, int, int]:
    about = os.stat(path)
    return path, about.st_ino, about.st_size, about.st_mtime_ns


def _read_certificates(path: str) -> bytes:
    # The path was a file a moment ago. If it is a pipe now, O_NONBLOCK opens it without waiting.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a file")
        return file.read(_MOST_BYTES)


def _ca_file_refused() -> errors.InvalidParameter:
    return errors.InvalidParameter(path="driver_info/redfish_verify_ca", reason=REFUSAL)
