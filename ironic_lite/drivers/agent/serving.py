"""Delivery of an instance's image to the agent: by its own URL, or fetched, verified and served."""

from __future__ import annotations

import dataclasses
import hmac
import pathlib

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import capabilities
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.agent import image_info
from ironic_lite.drivers.boot import modes
from ironic_lite.images import cache, checksums, configdrive, published, verification

FOLDER = published.IMAGES
"""Below http_root."""
NOTE = "served_image_secret"
"""Key of the image's secret name, under which it is served for a node."""
PROOF = "served_image"
"""Key of the facts of this file: digest, format, and a mark of the request it was made for.

``run`` is the UUID of the run that has fetched it.
"""
_PROXIES = {"http": "image_http_proxy", "https": "image_https_proxy"}
_NO_PROXY = "image_no_proxy"


def _read_proxy(value: object) -> str:
    text = _read_line(value)
    scheme, separator, _ = text.partition("://")
    if " " in text or (separator and scheme.lower() not in ("http", "https")):
        raise ValueError("must be a URL of http or https, or host:port")
    return text


def _read_line(value: object) -> str:
    text = settings.text(value)
    if not text.isprintable():
        raise ValueError("must be one line of text")
    return text


FIELDS: settings.Fields = {
    "image_http_proxy": settings.Field(
        _read_proxy, "Proxy through which the machine fetches http images."
    ),
    "image_https_proxy": settings.Field(_read_proxy, "The same for https."),
    _NO_PROXY: settings.Field(
        _read_line, "Hosts that it reaches without a proxy, separated by commas."
    ),
    image_info.DOWNLOAD: settings.Field(
        image_info.FIELDS[image_info.DOWNLOAD].read,
        "Who fetches an http image: the agent (http) or this service, which serves it (local). "
        "instance_info has precedence.",
    ),
}
"""The keys of driver_info that a deployment reads."""


def wanted(task: base.Task) -> image_info.Image:
    """Return the image of the node's instance.

    :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
    """
    info = task.node.instance_info
    image = image_info.read(info, md5=config.CONF.agent.allow_md5_checksum)
    settings.values(FIELDS, task.node.driver_info)
    cache.check(image.source, f"{image_info.WHERE}/image_source")
    if image.checksum_source is not None:
        cache.check(image.checksum_source, _sum_path(image))
    check_drive(info)
    _check_boot_loader(image)
    holders = {place: getattr(task.node, place) or {} for place in modes.PLACES}
    # The agent takes the hints of the first place that has some.
    place = next((place for place, holder in holders.items() if holder.get("root_device")), None)
    if place is not None:
        image_info.check_hints(holders[place], place)
    return image


def check(task: base.Task) -> None:
    """Refuse an instance that cannot be written, while the client waits; see `wanted`.

    :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
    """
    image = wanted(task)
    if image.source.file is not None:
        verification.refuse_unwritable(image.source.file, f"{image_info.WHERE}/image_source")


def make_ready(task: base.Task) -> None:
    """Fetch, verify and publish the image, if this conductor serves it. Repeatable.

    A repetition in the same run uses the published image; another run asks its server again.

    The boot mode is stored for the agent, which repeats its lookup before it partitions the disk.

    :raises errors.Error: the image is not available, or invalid.
    """
    image = wanted(task)
    task.keep(capabilities.DEPLOYED_MODE, modes.wanted(task.node))
    if served(task, image):
        known, run = task.recall(PROOF) or {}, task.node.run_uuid
        again = run is not None and known.get("run") == run
        (_served_image if again else _publish_image)(task, image)


def for_agent(task: base.Task) -> Json:
    """Return the arguments of the agent's step write_image.

    :raises errors.Error: as `make_ready`.
    """
    image = wanted(task)
    url = image.source.url
    if served(task, image):
        image, url = _served_image(task, image)
    told = settings.values(FIELDS, task.node.driver_info)
    proxies = {kind: told[key] for kind, key in _PROXIES.items() if key in told}
    info = image_info.for_agent(
        image,
        url=url,
        node_uuid=task.node.uuid,
        run=task.step_id,
        boot_mode=modes.wanted(task.node),
        stream=config.CONF.agent.stream_raw_images,
        proxies=proxies or None,
        no_proxy=told.get(_NO_PROXY),
        disk_label=modes.capability(task.node.instance_info, "disk_label"),
    )
    return {"image_info": info, "configdrive": _configdrive_source(task)}


def remove(task: base.Task) -> None:
    """Stop serving the image. Repeatable.

    :raises errors.LocalFileError: its file cannot be removed.
    """
    name = task.recall(NOTE)
    if name:
        task.confirm_lock()  # the folder may be shared, and another conductor may serve it now
        published.remove(published.root() / name)
        task.keep(NOTE, None)
        task.keep(PROOF, None)


def lacks_files(task: base.Task) -> bool:
    """Return whether an image of this node was served, but is missing on this conductor."""
    name = task.recall(NOTE)
    return bool(name) and not (published.root() / name).exists()


def take_over(task: base.Task) -> None:
    """Serve the image that another conductor has served until now.

    :raises errors.Error: as `make_ready`.
    """
    if lacks_files(task):
        make_ready(task)


def served(task: base.Task, image: image_info.Image) -> bool:
    """Return whether this service serves the image.

    instance_info has precedence over driver_info, and driver_info over the option.
    """
    said = image.told.get(image_info.DOWNLOAD)
    said = said or settings.values(FIELDS, task.node.driver_info).get(image_info.DOWNLOAD)
    return image.local or (said or config.CONF.agent.image_download_source) == "local"


def _served_image(task: base.Task, image: image_info.Image) -> tuple[image_info.Image, str]:
    """Return the image as it was published for this node; publish it if that file is gone.

    What the preparation has verified is not fetched again: its server may have changed it since, or
    be away.
    """
    known, name = task.recall(PROOF) or {}, task.recall(NOTE)
    if name is None or known.get("of") != _request_mark(image, name) or lacks_files(task):
        return _publish_image(task, image)
    checksum = checksums.Checksum(known["algorithm"], known["value"])
    verification.prove(published.root() / name, checksum, shown=image.source.shown)
    return _known_image(image, checksum, known["format"]), published.url(name)


@cache.holding()
def _publish_image(task: base.Task, image: image_info.Image) -> tuple[image_info.Image, str]:
    """Return the image with checksum and format, and the URL at which it is served."""
    path = f"{image_info.WHERE}/image_source"
    checksum = image.checksum or _looked_up(image)
    file = cache.fetch(image.source.url, path, checksum=checksum)
    checksum = checksum or verification.computed(file)
    said = image.told.get("image_disk_format")
    name = task.recall(NOTE) or f"{FOLDER}/{published.secret_name(task.node.uuid, '')}"
    task.keep(NOTE, name)
    task.keep(PROOF, None)
    form: str | None = None

    def check(made: pathlib.Path) -> None:
        nonlocal form
        form = verification.check(made, checksum, said=said, shown=image.source.shown)
        task.confirm_lock()  # fetching and copying may have taken long

    published.place(file, published.root() / name, check)
    proof = {"algorithm": checksum.algorithm, "value": checksum.value, "format": form}
    task.keep(PROOF, {"of": _request_mark(image, name), "run": task.node.run_uuid, **proof})
    return _known_image(image, checksum, form), published.url(name)


def _known_image(
    image: image_info.Image, checksum: checksums.Checksum, form: str | None
) -> image_info.Image:
    return dataclasses.replace(
        image,
        checksum=checksum,
        checksum_source=None,
        algorithm=checksum.algorithm,
        told={**image.told, **({"image_disk_format": form} if form else {})},
    )


def _request_mark(image: image_info.Image, name: str) -> str:
    """Return a digest of what the owner has requested, which may contain a login.

    :param name: the secret name of the file, so that readers of the digest cannot try passwords.
    """
    source = image.checksum_source and image.checksum_source.url
    value = image.checksum and image.checksum.value
    facts = (image.source.url, source, value, image.algorithm, image.told.get("image_disk_format"))
    return hmac.new(name.encode(), repr(facts).encode(), "sha256").hexdigest()


def _looked_up(image: image_info.Image) -> checksums.Checksum | None:
    """Return the checksum of the file that lists it, None for a local image without any."""
    source, path = image.checksum_source, _sum_path(image)
    if source is None:
        return None
    return verification.looked_up(source, image.source.name, path=path, algorithm=image.algorithm)


def _sum_path(image: image_info.Image) -> str:
    key = "image_checksum" if image.algorithm is None else "image_os_hash_value"
    return f"{image_info.WHERE}/{key}"


def _check_boot_loader(image: image_info.Image) -> None:
    """Reject an image whose boot loader the agent would refuse to install after writing it.

    This also holds in UEFI mode, because the agent creates an empty EFI system partition and does
    not fill it.
    """
    if image.kind == image_info.PARTITION and not config.CONF.agent.enable_bios_bootloader_install:
        reason = (
            "partition: the agent would have to run programs of the image in the ramdisk to make "
            "it boot. Give a whole-disk image, or set [agent]enable_bios_bootloader_install"
        )
        raise errors.InvalidParameter(path=f"{image_info.WHERE}/image_type", reason=reason)


def check_drive(info: JsonView) -> None:
    """Reject a configuration drive that cannot be delivered to the machine.

    :param info: the node's ``instance_info``.
    :raises errors.InvalidParameter: naming ``configdrive.PATH``.
    """
    given = info.get("configdrive")
    source = configdrive.check(given) if given else None
    if source is not None:
        cache.check(source, configdrive.PATH)


def _configdrive_source(task: base.Task) -> str | None:
    """Return the configuration drive as the agent accepts it: a URL, or gzip in base64."""
    given = task.node.instance_info.get("configdrive")
    if isinstance(given, dict):
        return configdrive.build(given, uuid=task.node.uuid, name=task.node.name)
    return str(given) if given else None
