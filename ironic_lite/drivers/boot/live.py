"""Whole images that are instances: the ISO that ``instance_info/boot_iso`` names.

What this service hands out itself it has fetched, and compared with the checksum that the owner
may have given beside it, as for images that are written to a disk.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from ironic_lite import config
from ironic_lite.images import cache, checksums, judged, sources

WHERE = "instance_info"
PATH = f"{WHERE}/boot_iso"

Info = Mapping[str, Any]


def check(info: Info) -> None:
    """Refuse an address or a checksum that is none, without speaking to anybody.

    :param info: the node's ``instance_info``, with ``boot_iso``.
    :raises errors.InvalidParameter, errors.MissingParameter: naming ``instance_info/<key>``.
    """
    cache.check(sources.read(info["boot_iso"], PATH), PATH)
    _sum(info)


def handed_on(info: Info) -> bool:
    """Tell whether a BMC may be given the owner's address as it is: nobody else is to look."""
    local = sources.read(info["boot_iso"], PATH).file is not None
    return not local and checksums.wanted(info) is None


def fetch(info: Info) -> pathlib.Path:
    """Return a local file with the image, which is what its owner says.

    :raises errors.Error: it cannot be had, or is another one.
    """
    source = sources.read(info["boot_iso"], PATH)
    said, elsewhere, algorithm, path = _sum(info)
    if elsewhere is not None:
        said = judged.looked_up(elsewhere, source.name, path=path, algorithm=algorithm)
    file = cache.fetch(source.url, PATH, checksum=said)
    if said is not None:
        judged.prove(file, said, shown=source.shown)
    return file


def _sum(info: Info) -> tuple[checksums.Checksum | None, sources.Source | None, str | None, str]:
    """Return the checksum, or the address of a file that has it, or neither; what algorithm was
    said beside it, and where it stands.
    """
    algorithm, value = checksums.wanted(info, WHERE) or (None, None)
    path = f"{WHERE}/{'image_checksum' if algorithm is None else 'image_os_hash_value'}"
    if value is None:
        return None, None, None, path
    if "://" in value:
        elsewhere = sources.read(value, path)
        cache.check(elsewhere, path)
        return None, elsewhere, algorithm, path
    md5 = config.CONF.agent.allow_md5_checksum
    return checksums.bare(value, path, algorithm=algorithm, md5=md5), None, algorithm, path
