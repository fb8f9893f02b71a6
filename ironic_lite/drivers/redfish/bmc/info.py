"""Parsing and checking of the Redfish settings in driver_info."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import pathlib
import re
import ssl
import stat
import urllib.parse
from collections.abc import Mapping

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.core.options import Ciphers
from ironic_lite.drivers import settings
from ironic_lite.drivers.settings import DriverField

# CA certificate files of the operator, for verifying BMCs.
#
# Users of the API write ``driver_info/redfish_verify_ca``, so it can name only files in
# ``[redfish]ca_folder``. This module never opens devices, pipes or links that lead out of that
# folder: opening one may block for ever or have an effect. Every refusal has the same text, so a
# refusal does not reveal which files exist.

CA_REFUSAL = (
    "must be true, false, or the name of a PEM file, or of a folder of such files, in "
    "[redfish]ca_folder that this service can read"
)

CaState = tuple[tuple[str, int, int, int], ...]
"""Path, inode, size and time of change in nanoseconds of each file."""

_MOST_FILES = 1000
_MOST_BYTES = 4 * 1024 * 1024
"""Size limit of one file; the bundle of all public authorities has a quarter of a million bytes."""
_PEM = re.compile(
    rb"-----BEGIN (?P<kind>(?:TRUSTED |X509 )?CERTIFICATE)-----[^-]*-----END (?P=kind)-----"
)


def find_ca_path(name: str, folder: str) -> str:
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
        raise ValueError(CA_REFUSAL)
    return real


def ca_state(path: str) -> CaState:
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


def load_ca(context: ssl.SSLContext, files: CaState) -> None:
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
    return errors.InvalidParameter(path="driver_info/redfish_verify_ca", reason=CA_REFUSAL)


ROOT_PREFIX = "/redfish/v1/"
"""Default path of the service root (DSP0266, protocol version)."""

AUTH_TYPES = ("auto", "basic", "session")
_TLS_VERSIONS = ("1.1", "1.2", "1.3")

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_LONGEST_HOST = 253  # characters of a name (RFC 1035, 2.3.4)
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


@dataclasses.dataclass(frozen=True, slots=True)
class RedfishInfo:
    """Address and login of one system behind one BMC.

    ``address`` is scheme, host and port. ``root_prefix`` is the path of the service root with
    slashes at both ends. ``system_id`` is the path of the system; None means the only system of the
    BMC. ``verify`` is True for public authorities, False for no check, or the real path of a CA
    file or folder.
    """

    address: str
    root_prefix: str = ROOT_PREFIX
    system_id: str | None = None
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    verify: bool | str = True
    auth_type: str = "auto"
    tls_minimum_version: str | None = None
    tls_ciphers: str | None = None
    keep_connections: bool = True
    unresponsive_wait: int | None = None


def parse(
    driver_info: JsonView,
    *,
    auth_type: str = "auto",
    ca_folder: str = "/nowhere",
    verify_ca: str | None = None,
    tls_minimum_version: str | None = None,
    tls_ciphers: str | None = None,
    keep_connections: bool = True,
) -> RedfishInfo:
    """Parse driver_info.

    The other arguments are options of [redfish]: defaults for nodes that do not set their own.

    :param ca_folder: the folder that CA files of nodes must be in.
    :param verify_ca: also for nodes that say true.
    :raises errors.MissingParameter: naming all missing keys at once.
    :raises errors.InvalidParameter: naming the first invalid value.
    :raises errors.LocalFileError: ``verify_ca`` is not there.
    """
    missing = settings.missing(FIELDS, driver_info)
    if settings.absent(driver_info, "redfish_username") and not settings.absent(
        driver_info, "redfish_password"
    ):
        missing.append("redfish_username")
    if missing:
        raise errors.MissingParameter(path=", ".join(f"driver_info/{name}" for name in missing))
    values = settings.values(FIELDS, driver_info)
    address, prefix = values["redfish_address"]
    return RedfishInfo(
        address=address,
        root_prefix=prefix,
        system_id=values.get("redfish_system_id"),
        username=values.get("redfish_username"),
        password=values.get("redfish_password"),
        verify=_verify_setting(values.get("redfish_verify_ca", True), ca_folder, verify_ca),
        auth_type=values.get("redfish_auth_type", auth_type),
        tls_minimum_version=values.get("redfish_tls_minimum_version", tls_minimum_version),
        tls_ciphers=values.get("redfish_tls_ciphers", tls_ciphers),
        keep_connections=values.get("redfish_keep_connections", keep_connections),
        unresponsive_wait=values.get("firmware_update_unresponsive_bmc_wait"),
    )


def check(driver_info: JsonView, *, ca_folder: str = "/nowhere") -> None:
    """Reject invalid values; missing values are accepted here.

    :raises errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    values = settings.values(FIELDS, driver_info)
    _verify_setting(values.get("redfish_verify_ca", True), ca_folder)


# -- one reader for each kind of value; its ValueError names the fault, never a secret ----------


def _read_address(value: object) -> tuple[str, str]:
    """Return (scheme://host:port, root prefix)."""
    text = settings.text(value).strip()
    if _CONTROL.search(text):
        raise ValueError("must not contain spaces or control characters")
    if "://" not in text:
        text = f"https://{text}"
    scheme, _, rest = text.partition("://")
    netloc, slash, path = rest.partition("/")
    scheme = scheme.lower()
    if scheme not in {"http", "https"}:
        raise ValueError(f"its scheme is {scheme!r}; Redfish needs http or https")
    if "@" in netloc:
        raise ValueError("must not contain credentials; use redfish_username and redfish_password")
    if "?" in rest or "#" in rest:
        raise ValueError("must end with the path, without ? or #")
    return f"{scheme}://{_host_and_port(scheme, netloc)}", _root_prefix_of(slash + path)


def _host_and_port(scheme: str, netloc: str) -> str:
    """Return host and port; bracket an IPv6 address and leave out the default port."""
    if _is_ipv6(netloc):
        netloc = f"[{netloc}]"
    try:
        parts = urllib.parse.urlsplit(f"{scheme}://{netloc}")
        host, port = parts.hostname or "", parts.port
    except ValueError as why:
        raise ValueError(f"{netloc!r} is not a host with an optional port: {why}") from None
    if _is_ipv6(host):
        host = f"[{host}]"
    elif len(host) > _LONGEST_HOST:
        raise ValueError(f"its host has more than {_LONGEST_HOST} characters")
    elif not _HOST.fullmatch(host):
        raise ValueError(f"{netloc!r} does not name a host")
    if port == 0:
        raise ValueError("port 0 cannot be connected to")
    usual = {"http": 80, "https": 443}[scheme]
    return host if port in {None, usual} else f"{host}:{port}"


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6  # noqa: PLR2004  # the version of IP
    except ValueError:
        return False


def _root_prefix_of(path: str) -> str:
    bare = path.strip("/")
    return f"/{bare}/" if bare else ROOT_PREFIX


def _system_id(value: object) -> str:
    text = settings.text(value).strip()
    if not text.startswith("/") or text.startswith("//") or _CONTROL.search(text):
        raise ValueError("must be the path of a system, such as /redfish/v1/Systems/1")
    # A path with a final slash is the same resource; BMCs list theirs without it (DSP0266).
    text = text.rstrip("/") or "/"
    return urllib.parse.quote(text, safe="/%:@!$&'()*+,;=~-._")


def _read_verify(value: object) -> bool | str:
    if not isinstance(value, str | int):
        raise ValueError(CA_REFUSAL)
    word = str(value).strip()
    try:
        return settings.flag(word)
    except ValueError:
        return word


def _verify_setting(verify: bool | str, folder: str, default: str | None = None) -> bool | str:
    if verify is True and default:
        found = _read_verify(default)
        try:
            return found if isinstance(found, bool) else find_ca_path(found, "/")
        except ValueError:
            reason = "[redfish]verify_ca is no file or folder"
            raise errors.LocalFileError(path=default, reason=reason) from None
    if isinstance(verify, bool):
        return verify
    try:
        return find_ca_path(verify, folder)
    except ValueError as why:
        path = "driver_info/redfish_verify_ca"
        raise errors.InvalidParameter(path=path, reason=str(why)) from None


def _read_ciphers(value: object) -> str:
    return Ciphers()(settings.text(value))


def _read_seconds(value: object) -> int:
    number = value
    if isinstance(value, str) and value.strip().isdecimal():
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError("must be a whole number of seconds, 0 or more")
    return number


FIELDS: Mapping[str, DriverField] = {
    "redfish_address": DriverField(
        _read_address,
        "URL of the BMC, such as https://bmc.example.org; the default scheme is https. A path in "
        "it replaces /redfish/v1/ as the service root.",
        required=True,
        example="https://bmc.example.org",
    ),
    "redfish_system_id": DriverField(
        _system_id,
        "Path of the system, such as /redfish/v1/Systems/1. Default: the only system of the BMC.",
        example="/redfish/v1/Systems/1",
    ),
    "redfish_username": DriverField(settings.text, "User of the BMC, with administrator rights."),
    "redfish_password": DriverField(settings.text, "Password of that user."),
    "redfish_verify_ca": DriverField(
        _read_verify,
        "true: trust the authorities of [redfish]verify_ca, or public ones; the name of a file or "
        "folder in [redfish]ca_folder: trust the authorities in it; false: do not verify the "
        "certificate.",
        default="true",
    ),
    "redfish_auth_type": DriverField(
        settings.one_of(*AUTH_TYPES),
        "basic, session or auto (session, or basic if the BMC has no sessions).",
        default="[redfish]auth_type",
        example="session",
    ),
    "redfish_tls_minimum_version": DriverField(
        settings.one_of(*_TLS_VERSIONS),
        "Lowest TLS version to use: 1.1, 1.2 or 1.3.",
        default="[redfish]tls_minimum_version",
        example="1.2",
    ),
    "redfish_tls_ciphers": DriverField(
        _read_ciphers,
        "Ciphers to offer up to TLS 1.2, separated by colons, in OpenSSL's names.",
        default="[redfish]tls_ciphers",
    ),
    "redfish_keep_connections": DriverField(
        settings.flag,
        "false: a connection for each request, for BMCs that fail on connections that stay open.",
        default="[redfish]keep_connections",
    ),
    "firmware_update_unresponsive_bmc_wait": DriverField(
        _read_seconds, "Seconds a BMC may stay silent after an update of its firmware."
    ),
}
