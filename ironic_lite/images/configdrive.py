"""Configuration drives: data for an instance's first boot, in a small file system.

A client gives a JSON object, the finished file system as gzip in base64, or its URL. This module
makes the file system from an object; the other two go to the agent unchanged. A machine without an
agent gets the file system itself.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import pathlib
import zlib
from collections.abc import Mapping
from typing import Any

import orjson

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.images import download, local_files

LABEL = "config-2"
"""The label by which cloud-init and similar programs find the drive."""
MOST_BYTES = 64 * 1024 * 1024
"""Limit of the agent, decompressed."""
VERSIONS = ("2012-08-10", "latest")
"""Folders of the OpenStack layout with the same content: oldest and requested."""
PATH = "instance_info/configdrive"
_OBJECTS = ("meta_data", "network_data", "vendor_data")
_GZIP = 16 + zlib.MAX_WBITS


def check(drive: object) -> download.Source | None:
    """Refuse an unusable configuration drive, before a machine is touched.

    :param drive: an object as `build` takes it, gzip in base64, or a URL.
    :returns: the URL, whose content is checked when it is read; None for the others.
    :raises errors.InvalidParameter: naming ``PATH``.
    """
    if isinstance(drive, Mapping):
        _check_object(drive)
        return None
    if isinstance(drive, str) and "://" in drive:
        source = download.read_source(drive, PATH)
        if source.file is not None:
            raise _wrong_configdrive("must be of http or https")
        return source
    if not isinstance(drive, str):
        raise _wrong_configdrive("must be an object, a URL, or a file system as gzip in base64")
    unpacked(drive)
    return None


def _check_object(drive: JsonView) -> None:
    unknown = sorted(set(drive) - {*_OBJECTS, "user_data"})
    if unknown:
        raise _wrong_configdrive(
            f"has the unknown key {unknown[0]}; known are {', '.join(_OBJECTS)} and user_data"
        )
    for key in _OBJECTS:
        if not isinstance(drive.get(key), Mapping | None):
            raise _wrong_configdrive(f"{key} must be an object")


def unpacked(drive: str) -> bytes:
    """Return the file system given as gzip in base64.

    :raises errors.InvalidParameter: it does not decompress, or exceeds ``MOST_BYTES``.
    """
    unpack = zlib.decompressobj(_GZIP)
    try:
        packed = base64.b64decode("".join(drive.split()), validate=True)
        found = unpack.decompress(packed, MOST_BYTES + 1)
    except (binascii.Error, ValueError, zlib.error):
        raise _wrong_configdrive("is no file system as gzip in base64") from None
    if len(found) > MOST_BYTES:
        raise _wrong_configdrive(_TOO_LARGE)
    if not unpack.eof:
        raise _wrong_configdrive("is truncated: its gzip has no end")
    return found


def fetched(file: pathlib.Path) -> bytes:
    """Return the file system of a drive fetched from its URL: gzip in base64, too.

    :raises errors.InvalidParameter: as `unpacked`.
    """
    if file.stat().st_size > 2 * MOST_BYTES:  # larger than base64 of the limit
        raise _wrong_configdrive(_TOO_LARGE)
    return unpacked(local_files.read_regular(file).decode("ascii", "replace"))


_TOO_LARGE = f"makes a drive of more than {MOST_BYTES // 1024**2} MiB"


def _wrong_configdrive(reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=PATH, reason=reason)


def build(drive: JsonView, *, uuid: str, name: str | None = None) -> str:
    """Return the drive that a JSON object describes, as gzip in base64; see `made`."""
    image = made(drive, uuid=uuid, name=name)
    return base64.b64encode(gzip.compress(image, mtime=0)).decode()


def made(drive: JsonView, *, uuid: str, name: str | None = None) -> bytes:
    """Return the file system that a JSON object describes.

    :param drive: ``meta_data``, ``network_data``, ``vendor_data`` (objects) and ``user_data``
        (text, or an object that is written as JSON), each optional.
    :param uuid: ``uuid`` of meta data without one.
    :param name: the same for ``name``; None leaves it out.
    :raises errors.InvalidParameter: it is larger than ``MOST_BYTES``.
    """
    image = _iso_image(files(drive, uuid=uuid, name=name))
    if len(image) > MOST_BYTES:
        raise _wrong_configdrive(_TOO_LARGE)
    return image


def files(drive: JsonView, *, uuid: str, name: str | None = None) -> Mapping[str, bytes]:
    """Return the content of the drive: path below its root -> content."""
    meta = {"uuid": uuid, **({"name": name} if name else {}), **(drive.get("meta_data") or {})}
    found = {"meta_data.json": orjson.dumps(meta)}
    user = drive.get("user_data")
    if user is not None:
        found["user_data"] = user.encode() if isinstance(user, str) else orjson.dumps(user)
    for key in ("network_data", "vendor_data"):
        if drive.get(key) is not None:
            found[f"{key}.json"] = orjson.dumps(drive[key])
    return {f"openstack/{version}/{at}": data for version in VERSIONS for at, data in found.items()}


def _iso_image(content: Mapping[str, bytes]) -> bytes:
    """Return an ISO 9660 image; readers use its names of Rock Ridge and Joliet."""
    import pycdlib  # noqa: PLC0415  # takes 2 MiB, and few nodes need such an image

    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=3, vol_ident=LABEL, joliet=3, rock_ridge="1.09")
    known: dict[str, str] = {"": ""}
    for path, data in content.items():
        folder, _, name = path.rpartition("/")
        at = _add_folder(iso, known, folder)
        plain = f"{at}/F{len(known)}.BIN;1"
        known[path] = plain
        iso.add_fp(
            io.BytesIO(data), len(data), plain, rr_name=name, joliet_path=f"/{folder}/{name}"
        )
    out = io.BytesIO()
    iso.write_fp(out)
    iso.close()
    return out.getvalue()


def _add_folder(iso: Any, known: dict[str, str], path: str) -> str:
    """Make a folder and its parents, once; return its plain name."""
    if path not in known:
        above, _, name = path.rpartition("/")
        known[path] = f"{_add_folder(iso, known, above)}/D{len(known)}"
        iso.add_directory(known[path], rr_name=name, joliet_path=f"/{path}")
    return known[path]
