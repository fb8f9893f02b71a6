"""Sources of ramdisks, from the node or else from the configuration.

Kernel and ramdisk come from the same place, because a mix of two places does not boot.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
import secrets
from collections.abc import Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import vocabulary
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.boot import loaders, modes
from ironic_lite.images import cache, checksums, download, verification

INSTANCE = "instance"
"""The ramdisk that is the instance itself (``base.Deploy.boots_ramdisk``)."""

PREFIXES: Mapping[str, str] = {"deploy": "deploy", "rescue": "rescue", "inspect": "deploy"}
"""Prefixes of the names that hold the parts of a ramdisk."""

BY_ARCH: Mapping[str, str] = {
    "deploy_kernel": "deploy_kernel_by_arch",
    "deploy_ramdisk": "deploy_ramdisk_by_arch",
    "rescue_kernel": "rescue_kernel_by_arch",
    "rescue_ramdisk": "rescue_ramdisk_by_arch",
    "bootloader": "bootloader_by_arch",
}
"""Options of [conductor]: the general one, and the one by architecture."""


def _url(description: str, example: str | None = None) -> settings.DriverField:
    read = functools.partial(download.read_source, path="")
    return settings.DriverField(read, description, example=example)


FIELDS: settings.DriverFields = {
    "deploy_kernel": _url(
        "URL of the kernel of the ramdisk that cleans and deploys. Required, with deploy_ramdisk, "
        "unless [conductor]deploy_kernel is set.",
        "http://images.example.org/ipa.kernel",
    ),
    "deploy_ramdisk": _url("URL of that ramdisk.", "http://images.example.org/ipa.initramfs"),
    "rescue_kernel": _url(
        "URL of the kernel of the rescue ramdisk. Required for rescues, with rescue_ramdisk, "
        "unless [conductor]rescue_kernel is set."
    ),
    "rescue_ramdisk": _url("URL of that ramdisk."),
    "kernel_append_params": settings.DriverField(
        functools.partial(loaders.check_parameters, path=""),
        "Further kernel parameters of ramdisks; %default% stands for those of the configuration.",
        example="%default% console=ttyS0",
    ),
}
GROUPS: settings.GroupedFields = {settings.RAMDISK: FIELDS, settings.BOOT: modes.FIELDS}
MEDIA: settings.DriverFields = {
    "deploy_iso": _url(
        "URL of an ISO image to boot for cleaning and deploying, in place of kernel and ramdisk. "
        "It must contain its own parameters."
    ),
    "rescue_iso": _url("URL of an ISO image to boot for rescues, in place of kernel and ramdisk."),
    "bootloader": _url(
        "URL of the image of an EFI system partition, from which a machine in UEFI mode starts its "
        "kernel. Required for those, unless [conductor]bootloader is set."
    ),
    "external_http_url": _url(
        "Where the machine's BMC finds the files of [deploy]http_root, if not under "
        "[deploy]http_url."
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a ramdisk: an ISO image, or kernel and ramdisk.

    ``place`` is the prefix of their names, such as ``driver_info/deploy_``.
    """

    place: str
    iso: str | None = None
    kernel: str | None = None
    ramdisk: str | None = None


def parts(node: base.Node, mode: str, *, whole: bool = False) -> Parts:
    """Return the parts of the ramdisk.

    :param mode: one of ``base.RAMDISKS``, or ``INSTANCE``.
    :param whole: an ISO image is allowed; it has precedence over kernel and ramdisk.
    :raises errors.MissingParameter: naming all missing keys.
    :raises errors.InvalidParameter: naming the invalid URL.
    """
    if mode == INSTANCE:
        return _of_instance(node.instance_info, whole=whole)
    prefix = PREFIXES[mode]
    info = node.driver_info
    iso = f"{prefix}_iso"
    if whole and info.get(iso):
        return Parts(f"driver_info/{prefix}_", iso=_source_url(info[iso], f"driver_info/{iso}"))
    names = (f"{prefix}_kernel", f"{prefix}_ramdisk")
    place, given = "driver_info/", {name: info.get(name) for name in names}
    if not any(given.values()):
        configured = {name: _configured_source(node, name) for name in names}
        if any(configured.values()):
            place, given = "[conductor]", configured
    missing = [f"driver_info/{name}" for name in names if not given[name]]
    if missing:
        raise errors.MissingParameter(path=_missing_advice(missing, iso if whole else None))
    kernel, ramdisk = (_source_url(given[name], f"{place}{name}") for name in names)
    return Parts(f"{place}{prefix}_", kernel=kernel, ramdisk=ramdisk)


def _of_instance(told: JsonView, *, whole: bool) -> Parts:
    if whole and told.get("boot_iso"):
        return Parts(
            "instance_info/boot_", iso=_source_url(told["boot_iso"], "instance_info/boot_iso")
        )
    names = ("kernel", "ramdisk")
    missing = [f"instance_info/{name}" for name in names if not told.get(name)]
    if missing and told.get("boot_iso"):
        reason = (
            "is not bootable by this boot interface: set kernel and ramdisk, or set boot_interface "
            "to redfish-virtual-media or ipxe"
        )
        raise errors.InvalidParameter(path="instance_info/boot_iso", reason=reason)
    if missing:
        other = " (or instance_info/boot_iso)" if whole else ""
        raise errors.MissingParameter(path=f"{', '.join(missing)}{other}")
    kernel, ramdisk = (_source_url(told[name], f"instance_info/{name}") for name in names)
    return Parts("instance_info/", kernel=kernel, ramdisk=ramdisk)


def run_mark(node: base.Node, *facts: object) -> str:
    """Return a digest of the node's run and of what it was asked for, which may contain a login.

    Store it under the name of a secret, so that readers of the node cannot try passwords.

    Files with this mark serve the run to its end, because their server may change or lose them. The
    next run asks the server again. Without a run the mark is like no other.
    """
    run = node.run_uuid or secrets.token_hex(8)
    return hashlib.sha256(repr((run, *facts)).encode()).hexdigest()


def bootloader(node: base.Node) -> str:
    """Return the URL of the EFI system partition that starts kernels.

    :raises errors.MissingParameter, errors.InvalidParameter: naming ``driver_info/bootloader``.
    """
    given = node.driver_info.get("bootloader")
    if given:
        return _source_url(given, "driver_info/bootloader")
    configured = _configured_source(node, "bootloader")
    if not configured:
        raise errors.MissingParameter(path=_missing_advice(["driver_info/bootloader"], None))
    return _source_url(configured, "[conductor]bootloader")


def api_url(*, media: bool = False) -> str:
    """Return the URL of the API for agents, without ``/v1``.

    :param media: the agent boots from a medium that is made for its node.
    :raises errors.MissingParameter: no option names it, and the API's own address is unsuitable.
    """
    conf = config.CONF
    given = conf.service_catalog.endpoint_override or conf.api.public_endpoint
    given = (media and conf.deploy.external_callback_url) or given
    if not given:
        raise errors.MissingParameter(
            "Missing option [service_catalog]endpoint_override: the URL at which the ramdisks of "
            "machines reach the API, such as http://192.0.2.10:6385",
            path="[service_catalog]endpoint_override",
        )
    return str(given).rstrip("/").removesuffix("/v1")


def _configured_source(node: base.Node, name: str) -> str | None:
    conductor = config.CONF.conductor
    arch = str(node.properties.get("cpu_arch") or "")
    found: str | None = conductor[BY_ARCH[name]].get(arch) or conductor[name]
    return found


def _source_url(given: object, path: str) -> str:
    return download.read_source(given, path).url


def _missing_advice(missing: Sequence[str], iso: str | None) -> str:
    options = ", ".join(name.replace("driver_info/", "[conductor]") for name in missing)
    other = f", or driver_info/{iso}" if iso else ""
    return f"{', '.join(missing)} (or the options {options}{other})"


# ISO images that are instances, named in ``instance_info/boot_iso``.
#
# An image that this service serves is fetched and compared with the owner's optional checksum, as
# for images that are written to a disk.

_ISO_FIELD = "instance_info"
ISO_PATH = f"{_ISO_FIELD}/boot_iso"
_DOWNLOAD = "ramdisk_image_download_source"


def check_iso(info: JsonView) -> None:
    """Reject an invalid URL or checksum without any request.

    :param info: the node's ``instance_info``, with ``boot_iso``.
    :raises errors.InvalidParameter, errors.MissingParameter: naming ``instance_info/<key>``.
    """
    cache.check(download.read_source(info["boot_iso"], ISO_PATH), ISO_PATH)
    _iso_checksum(info)
    reads_itself(info)


def is_handed_on(info: JsonView) -> bool:
    """Return whether the BMC may read the owner's URL itself, without a check by this service."""
    local = download.read_source(info["boot_iso"], ISO_PATH).file is not None
    return reads_itself(info) and not local and checksums.wanted(info) is None


def reads_itself(info: JsonView) -> bool:
    """Return whether a BMC reads an ISO image from its original URL, where it can.

    :param info: ``instance_info`` for an image of an instance, else {}.
    :raises errors.InvalidParameter: naming ``instance_info/ramdisk_image_download_source``.
    """
    given = info.get(_DOWNLOAD)
    if given not in (None, "", *vocabulary.DOWNLOAD_SOURCES):
        reason = f"{str(given)[:64]!r} is not one of {', '.join(vocabulary.DOWNLOAD_SOURCES)}"
        raise errors.InvalidParameter(path=f"{_ISO_FIELD}/{_DOWNLOAD}", reason=reason)
    return bool((given or config.CONF.deploy[_DOWNLOAD]) == vocabulary.DOWNLOAD_SOURCES[0])


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceIso:
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


def fetch_iso(info: JsonView) -> InstanceIso:
    """Return the verified image.

    :raises errors.Error: the image is not available, or its checksum differs.
    """
    source = download.read_source(info["boot_iso"], ISO_PATH)
    said, elsewhere, algorithm, path = _iso_checksum(info)
    if elsewhere is not None:
        said = verification.looked_up(elsewhere, source.name, path=path, algorithm=algorithm)
    found = InstanceIso(cache.fetch(source.url, ISO_PATH, checksum=said), said, source.shown)
    found.prove(found.file)
    return found


def _iso_checksum(
    info: JsonView,
) -> tuple[checksums.Checksum | None, download.Source | None, str | None, str]:
    """Return the checksum or the source of its file, its algorithm, and its place."""
    algorithm, value = checksums.wanted(info, _ISO_FIELD) or (None, None)
    path = f"{_ISO_FIELD}/{'image_checksum' if algorithm is None else 'image_os_hash_value'}"
    if value is None:
        return None, None, None, path
    if "://" in value:
        elsewhere = download.read_source(value, path)
        verification.check_sums(elsewhere, path)
        return None, elsewhere, algorithm, path
    md5 = config.CONF.agent.allow_md5_checksum
    return checksums.bare(value, path, algorithm=algorithm, md5=md5), None, algorithm, path
