"""Image data for the agent, made from a node's instance_info. Pure.

All detectable faults are rejected here, when the deployment is requested, because an agent would
report them only minutes later.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import root_device
from ironic_lite.drivers import settings
from ironic_lite.images import checksums, sources

WHERE = "instance_info"
WHOLE_DISK, PARTITION = "whole-disk", "partition"
_LARGEST = 1024**4  # limit of a size; in bytes it must still be a JSON number
_SOURCE = f"{WHERE}/image_source"
_CHECKSUM = f"{WHERE}/image_checksum"
_VALUE = f"{WHERE}/image_os_hash_value"


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return read


def _read_count(least: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        try:
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                raise ValueError
            found = int(value)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not least <= found <= _LARGEST:
            raise ValueError(f"must be at least {least} and at most {_LARGEST}")
        return found

    return read


DOWNLOAD = "image_download_source"
FIELDS: settings.Fields = {
    "image_source": settings.Field(
        str, "URL of the image: http, https or file. Required.", required=True
    ),
    "image_checksum": settings.Field(
        str, "Its sha256 or sha512, or the URL of a file that has them."
    ),
    "image_os_hash_algo": settings.Field(str, "sha256 or sha512; goes with image_os_hash_value."),
    "image_os_hash_value": settings.Field(str, "The digest of that kind, or a URL as above."),
    "image_disk_format": settings.Field(
        _one_of("raw", "qcow2", "gpt", "vmdk", "vdi", "vhd", "vhdx"),
        "Format of the image; by default the agent detects it. Raw images are streamed to disk.",
    ),
    "image_type": settings.Field(
        _one_of(WHOLE_DISK, PARTITION), "whole-disk (the default) or partition."
    ),
    DOWNLOAD: settings.Field(
        _one_of("http", "local"),
        "Who fetches an http image: the agent (http) or this service, which serves it (local).",
    ),
    "root_gb": settings.Field(_read_count(1), "Size of the root partition; for partition images."),
    "swap_mb": settings.Field(_read_count(0), "Size of a swap partition; for partition images."),
    "ephemeral_gb": settings.Field(_read_count(0), "Size of a partition for temporary data."),
    "ephemeral_format": settings.Field(settings.text, "File system of that partition."),
    "preserve_ephemeral": settings.Field(
        settings.flag, "Keep that partition when the node is rebuilt."
    ),
}
"""The keys of instance_info that a deployment reads."""

_PACKED = (".gz", ".xz", ".zst", ".bz2", ".lz4", ".zip")
_MARK, _LONGEST = 8, 128  # characters of an image's name
_UNUSUAL = re.compile(r"[^\w.+-]", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """The image of an instance, as its owner requested it.

    ``checksum`` is None if it is in a file: then ``checksum_source`` is the URL of that file and
    ``algorithm`` its algorithm, if given. A local image may have neither. ``told`` are the parsed
    values of ``FIELDS``.
    """

    source: sources.Source
    checksum: checksums.Checksum | None
    checksum_source: sources.Source | None
    algorithm: str | None
    told: JsonView

    @property
    def kind(self) -> str:
        """``WHOLE_DISK`` or ``PARTITION``."""
        return str(self.told.get("image_type", WHOLE_DISK))

    @property
    def local(self) -> bool:
        """Return whether this service must fetch the image, which is always so for a file URL."""
        if self.source.file is not None:
            return True
        return bool(self.told.get(DOWNLOAD) == "local")


def read(instance_info: JsonView, *, md5: bool = False) -> Image:
    """Parse the image of an instance.

    :param md5: whether the operator accepts md5 ([agent]allow_md5_checksum).
    :raises errors.InvalidParameter, errors.MissingParameter: naming ``instance_info/<key>``.
    """
    if settings.absent(instance_info, "image_source"):
        raise errors.MissingParameter(path=_SOURCE)
    source = sources.read(instance_info["image_source"], _SOURCE)
    _refuse_packed(source)
    wanted = checksums.wanted(instance_info)
    if wanted is None and source.file is not None:
        return _checked(
            Image(source, None, None, None, settings.values(FIELDS, instance_info, WHERE))
        )
    if wanted is None:
        text = (
            f"Missing mandatory parameter: {_CHECKSUM}, the image's sha256 or sha512 (or "
            "image_os_hash_algo with image_os_hash_value): otherwise nothing detects a bad image"
        )
        raise errors.MissingParameter(text, path=_CHECKSUM)
    algorithm, value = wanted
    path = _CHECKSUM if algorithm is None else _VALUE
    told = settings.values(FIELDS, instance_info, WHERE)
    if "://" in value:
        elsewhere = sources.read(value, path)
        if elsewhere.file is not None and source.file is None:
            raise errors.InvalidParameter(path=path, reason="must be an http or https URL here")
        found = Image(source, None, elsewhere, algorithm, told)
    else:
        checksum = checksums.bare(value, path, algorithm=algorithm, md5=md5)
        found = Image(source, checksum, None, checksum.algorithm, told)
    return _checked(found)


def _checked(image: Image) -> Image:
    if image.kind == PARTITION and "root_gb" not in image.told:
        raise errors.MissingParameter(path=f"{WHERE}/root_gb")
    return image


def _refuse_packed(source: sources.Source) -> None:
    """Reject an image whose name shows a compression, which no agent unpacks."""
    if source.name.lower().endswith(_PACKED):
        reason = (
            f"names {source.name}, a compressed file, which would be written to the disk as it is: "
            "name the unpacked image, or a qcow2 image"
        )
        raise errors.InvalidParameter(path=_SOURCE, reason=reason)


def check_hints(holder: JsonView, where: str) -> None:
    """Reject root device hints for which the agent would fail.

    :param holder: ``instance_info`` or ``properties``; ``where`` is its name.
    :raises errors.InvalidParameter: naming ``<where>/root_device[/<hint>]``.
    """
    hints = holder.get("root_device")
    if hints is None:
        return
    path = f"{where}/root_device"
    if not isinstance(hints, Mapping):
        raise errors.InvalidParameter(path=path, reason="must be an object of hints")
    for name, value in hints.items():
        reason = root_device.fault(name, value)
        if reason is not None:
            raise errors.InvalidParameter(path=f"{path}/{name}", reason=reason)


def for_agent(
    image: Image,
    *,
    url: str,
    node_uuid: str,
    boot_mode: str,
    run: str,
    stream: bool,
    **more: object,
) -> Json:
    """Return ``image_info`` for the step write_image.

    :param url: the URL from which the agent fetches the image.
    :param run: unique per deployment, because an agent does not write an image again that has the
        name of the previous one.
    :param boot_mode: ``bios`` or ``uefi``.
    :param stream: whether raw images are written while they arrive.
    :param more: further unchanged keys, such as ``proxies``; a key with None is left out.
    """
    told = image.told
    info: Json = {
        "id": _image_id(image.source.name, run),
        "urls": [url],
        "node_uuid": node_uuid,
        "image_type": image.kind,
        "deploy_boot_mode": boot_mode,
        "stream_raw_images": stream and image.kind == WHOLE_DISK,
        **_image_checksum(image),
        **{key: value for key, value in more.items() if value is not None},
    }
    if "image_disk_format" in told:
        info["disk_format"] = told["image_disk_format"]
    if image.kind == PARTITION:
        info |= _partition_sizes(told)
    return info


def _image_id(name: str, run: str) -> str:
    """Return a name for the image that is also a valid file name, because the agent needs one."""
    plain = _UNUSUAL.sub("_", name).lstrip(".") or "image"
    return f"{hashlib.sha256(run.encode()).hexdigest()[:_MARK]}-{plain[-_LONGEST:]}"


def _image_checksum(image: Image) -> Json:
    if image.checksum is not None:
        return {
            "os_hash_algo": image.checksum.algorithm,
            "os_hash_value": image.checksum.value,
            "checksum": image.checksum.value,
        }
    assert image.checksum_source is not None  # `read` has one or the other
    if image.algorithm is None:
        return {"checksum": image.checksum_source.url}
    return {"os_hash_algo": image.algorithm, "os_hash_value": image.checksum_source.url}


def _partition_sizes(told: JsonView) -> Json:
    return {
        "root_mb": told["root_gb"] * 1024,
        "swap_mb": told.get("swap_mb", 0),
        "ephemeral_mb": told.get("ephemeral_gb", 0) * 1024,
        "ephemeral_format": told.get("ephemeral_format", "ext4"),
        "preserve_ephemeral": told.get("preserve_ephemeral", False),
        "boot_option": "local",
    }
