"""ISO images that are instances, named in ``instance_info/boot_iso``.

An image that this service serves is fetched and compared with the owner's optional checksum, as for
images that are written to a disk.
"""

from __future__ import annotations

import dataclasses
import pathlib

from ironic_lite.core import config
from ironic_lite.core.json_types import JsonView
from ironic_lite.images import cache, checksums, sources, verification

WHERE = "instance_info"
PATH = f"{WHERE}/boot_iso"


def check(info: JsonView) -> None:
    """Reject an invalid URL or checksum without any request.

    :param info: the node's ``instance_info``, with ``boot_iso``.
    :raises errors.InvalidParameter, errors.MissingParameter: naming ``instance_info/<key>``.
    """
    cache.check(sources.read(info["boot_iso"], PATH), PATH)
    _iso_checksum(info)


def handed_on(info: JsonView) -> bool:
    """Return whether the BMC may read the owner's URL itself, without a check by this service."""
    local = sources.read(info["boot_iso"], PATH).file is not None
    return not local and checksums.wanted(info) is None


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """A local file with the image, and the checksum that its owner gave."""

    file: pathlib.Path
    checksum: checksums.Checksum | None
    shown: str

    def prove(self, file: pathlib.Path) -> None:
        """Compare a file, such as a copy, with the checksum.

        :raises errors.ImageUnusable: its checksum differs.
        """
        if self.checksum is not None:
            verification.prove(file, self.checksum, shown=self.shown)


def fetch(info: JsonView) -> Image:
    """Return the verified image.

    :raises errors.Error: the image is not available, or its checksum differs.
    """
    source = sources.read(info["boot_iso"], PATH)
    said, elsewhere, algorithm, path = _iso_checksum(info)
    if elsewhere is not None:
        said = verification.looked_up(elsewhere, source.name, path=path, algorithm=algorithm)
    found = Image(cache.fetch(source.url, PATH, checksum=said), said, source.shown)
    found.prove(found.file)
    return found


def _iso_checksum(
    info: JsonView,
) -> tuple[checksums.Checksum | None, sources.Source | None, str | None, str]:
    """Return the checksum or the source of its file, its algorithm, and its place."""
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
