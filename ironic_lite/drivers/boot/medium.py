"""Boot medium of one node: a file below ``[deploy]http_root`` that its BMC reads."""

from __future__ import annotations

import dataclasses
import functools
import logging
import pathlib
import uuid
from collections.abc import Iterable, Mapping, Sequence

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.boot import loaders, modes, sources
from ironic_lite.images import cache, checksums, configdrive, download, iso, published

LOG = logging.getLogger(__name__)

FOLDER = published.MEDIA
"""Below http_root."""

SUFFIX = ".iso"
"""Suffix of media, because some BMCs judge the type of an image by its name."""
DRIVE_SUFFIX = ".img"
"""Suffix of configuration drives and of other images of sticks."""


def new_name(task: base.Task, suffix: str = SUFFIX) -> str:
    """Return a random name for the next medium of a node, which protects it from readers."""
    return f"{FOLDER}/{published.secret_name(task.node.uuid, suffix)}"


def mark(task: base.Task, parts: sources.Parts, mode: str) -> str:
    """Return the mark of the node's medium, see `sources.run_mark`.

    :param mode: one of ``base.RAMDISKS``, or ``sources.INSTANCE``.
    """
    node, conf = task.node, config.CONF
    uefi = modes.wanted(node) == "uefi" and parts.iso is None
    loader = (conf.isolinux_bin, conf.ldlinux_c32)
    facts = (mode, parts, sources.bootloader(node) if uefi else loader, conf.grub_config_path)
    if mode == sources.INSTANCE:
        return sources.run_mark(node, *facts, sorted(node.instance_info.items()))
    authority = _ca_file() if parts.iso is None else None
    digest = authority and f"{iso.AUTHORITY} {checksums.known_digest(authority, 'sha256')}"
    networked = parts.iso is None and networks_of(node, mode) is not None
    return sources.run_mark(node, *facts, digest, networked)


@cache.holding()
def make(
    task: base.Task,
    parts: sources.Parts,
    words: Sequence[str],
    name: str,
    last: pathlib.Path | None = None,
    *,
    networks: bytes | None = None,
) -> None:
    """Make the medium that boots kernel and ramdisk with these parameters.

    :param parts: with kernel and ramdisk.
    :param words: from `words`.
    :param name: from `new_name`.
    :param networks: from `networks_of`.
    :param last: a medium with the same parts; without it they are fetched.
    :raises errors.Error: a part is not available, or the medium cannot be made.
    """
    if parts.kernel is None or parts.ramdisk is None:
        raise errors.MissingParameter(path=f"{parts.place}kernel, {parts.place}ramdisk")
    publisher = str(uuid.uuid4())
    uefi = modes.wanted(task.node) == "uefi"
    line = [*words, f"ir_pub_id={publisher}"]
    # An instance is not a ramdisk of this service.
    authority = None if _is_instance(parts) else _ca_file()
    archive = iso.AUTHORITY if authority else None
    text = (
        loaders.grub(iso.KERNEL, iso.RAMDISK, line, authority=archive, label=iso.LABEL)
        if uefi
        else loaders.syslinux(iso.KERNEL, iso.RAMDISK, line, authority=archive)
    )
    target = published.root() / name
    published.reached(target.parent)
    if last is not None:
        config_path = config.CONF.grub_config_path
        iso.renew(last, target, text, publisher, networks, uefi=uefi, config=config_path)
        return
    recipe = _medium_recipe(task.node, parts.kernel, parts.ramdisk, parts.place)
    networked = networks is not None
    recipe = dataclasses.replace(recipe, authority=authority, networked=networked)
    _shared_bases().make(recipe, target, text, publisher, networks)


def networks_of(node: base.Node, mode: str) -> bytes | None:
    """Return the file with the networks of a node for the medium of its ramdisk.

    :param mode: one of ``base.RAMDISKS``, or ``sources.INSTANCE``.
    :returns: None for an instance, for a node without networks, and for an inspection whose ramdisk
        uses DHCP on all network cards.
    :raises errors.InvalidParameter: they are too large.
    """
    forced = mode == "inspect" and config.CONF.inspector.force_dhcp
    if not node.network_data or forced or mode == sources.INSTANCE:
        return None
    return iso.networks_file(node.network_data)


def words(task: base.Task, params: Mapping[str, str], mode: str) -> list[str]:
    """Return the command line of a ramdisk, without the words about the medium itself.

    :param params: the caller's parameters.
    :param mode: one of ``base.RAMDISKS``, or ``sources.INSTANCE``.
    """
    if mode == sources.INSTANCE:
        return loaders.kernel_words({}, loaders.instance_parameters(task.node))
    own = {
        loaders.API_URL: sources.api_url(media=True),
        **params,
        "boot_method": "vmedia",
        "BOOTIF": loaders.bootif(cards(task)),
        "ipa-debug": "1" if LOG.isEnabledFor(logging.DEBUG) else None,
    }
    append = loaders.operator_parameters(task.node, config.CONF.redfish.kernel_append_params)
    return loaders.kernel_words(own, append)


def handed_on(node: base.Node, parts: sources.Parts) -> bool:
    """Return whether the BMC reads an ISO image from its original URL."""
    if parts.iso is None:
        return False
    if _is_instance(parts):
        return sources.is_handed_on(node.instance_info)
    return sources.reads_itself({}) and not parts.iso.lower().startswith("file:")


@cache.holding()
def publish(
    task: base.Task, parts: sources.Parts, name: str, last: pathlib.Path | None = None
) -> None:
    """Publish an ISO image that is not `handed_on` for the BMC.

    :param last: the same image as it was published before; without it the image is fetched.
    :raises errors.Error: the image is not available, or its checksum differs.
    """
    target = published.root() / name
    if last is not None:
        published.place(last, target)
    elif _is_instance(parts):
        image = sources.fetch_iso(task.node.instance_info)
        task.confirm_lock(changes=True)
        published.place(image.file, target, image.prove)
    else:
        file = cache.fetch(str(parts.iso), f"{parts.place}iso")
        task.confirm_lock(changes=True)
        published.place(file, target)


@cache.holding()
def drive(task: base.Task) -> bytes | None:
    """Return the file system of the instance's configuration drive, None if it has none.

    :raises errors.Error: the drive is not available, or invalid.
    """
    given = task.node.instance_info.get("configdrive")
    if not given:
        return None
    if isinstance(given, Mapping):
        return configdrive.made(given, uuid=task.node.uuid, name=task.node.name)
    source = configdrive.check(given)
    if source is None:
        return configdrive.unpacked(given)
    return configdrive.fetched(cache.fetch(source.url, configdrive.PATH))


def is_here(name: str | None) -> bool:
    """Return whether a medium is published on this conductor; False without a name."""
    return name is not None and (published.root() / name).exists()


def remove(task: base.Task, *but: str | None) -> None:
    """Remove the boot media of a node that were made here, except some."""
    # The folder may be shared, and the media may be another conductor's.
    task.confirm_lock(changes=True)
    found = (published.root() / FOLDER).glob(f"{task.node.uuid}-*.*")
    kept = {*but, *(held["name"] for held in _attached(task).values())}
    published.remove(*(file for file in found if f"{FOLDER}/{file.name}" not in kept))


# Images that an operator puts into virtual drives, and that the conductor serves if asked.

ATTACHED_NOTE = "attached_secret_media"
"""Key of the images served here: device type -> ``name`` of the file, ``url`` where it is served,
and ``image``, the URL of its source. The word secret hides them."""
_IMAGE_PATH = "image_url"


def check_attached(node: base.Node, image_url: str) -> None:
    """Check that an image can be served for a virtual drive, without any request.

    :raises errors.InvalidParameter, errors.MissingParameter: naming the fault.
    """
    cache.check(download.read_source(image_url, _IMAGE_PATH), _IMAGE_PATH)
    published.base(node.driver_info)


@cache.holding()
def attach(task: base.Task, device: str, image_url: str, *, local: bool) -> None:
    """Put an image into a virtual drive.

    :param local: serve the image from here, instead of having the BMC read its URL.
    :raises errors.Error: the image is not available, or the BMC refused.
    """
    before = _attached(task)
    if local:
        name = new_name(task, SUFFIX if device == "cdrom" else DRIVE_SUFFIX)
        _serve(task, device, image_url, name)
    else:
        task.driver.management.attach_virtual_media(task, device, image_url)
        drop_attached(task, [device])
    _remove_stale(task, before)


def detach(task: base.Task, devices: Sequence[str] | None) -> None:
    """Empty the virtual drives of these types, None for all, and remove the images served here.

    :raises errors.Error: the BMC refused.
    """
    before = _attached(task)
    task.driver.management.detach_virtual_media(task, devices)
    drop_attached(task, before if devices is None else devices)
    _remove_stale(task, before)


def drop_attached(task: base.Task, devices: Iterable[str]) -> None:
    """Note that these virtual drives have been emptied.

    A file that no note names is removed with the next boot medium of the node, or as an old file.
    """
    left = {device: held for device, held in _attached(task).items() if device not in {*devices}}
    task.keep(ATTACHED_NOTE, left or None)


def lacks_attached(task: base.Task) -> bool:
    """Return whether an image in a virtual drive is not served by this conductor."""
    return not all(_is_served(task, held) for held in _attached(task).values())


@cache.holding()
def restore_attached(task: base.Task) -> None:
    """Publish the images that another conductor has served; tell the BMC of changed URLs.

    Each one is saved at once, because the next one may fail.

    :raises errors.Error: as `attach`.
    """
    for device, held in _attached(task).items():
        if not _is_served(task, held):
            _serve(task, device, held["image"], held["name"], held["url"])
            task.save()


def _is_served(task: base.Task, held: Mapping[str, str]) -> bool:
    """Return whether an image is published here, and its BMC knows the URL.

    A conductor may have died between both, or have had the node before another one.
    """
    url = published.url(held["name"], task.node.driver_info)
    return is_here(held["name"]) and url == held["url"]


def _serve(
    task: base.Task, device: str, image_url: str, name: str, known_url: str | None = None
) -> None:
    """Publish an image, and put it into the drive unless the BMC knows its URL already."""
    here = is_here(name)
    if not here:
        image = cache.fetch(image_url, _IMAGE_PATH)
        task.confirm_lock(changes=True)  # fetching may have taken long
        published.place(image, published.root() / name)
    try:
        url = published.url(name, task.node.driver_info)
        if url != known_url:
            task.driver.management.attach_virtual_media(task, device, url)
    except BaseException:
        if not here:
            published.remove(published.root() / name)
        raise
    held = {"name": name, "url": url, "image": image_url}
    task.keep(ATTACHED_NOTE, {**_attached(task), device: held})


def _attached(task: base.Task) -> Mapping[str, Mapping[str, str]]:
    held: Mapping[str, Mapping[str, str]] = task.recall(ATTACHED_NOTE) or {}
    return held


def _remove_stale(task: base.Task, before: Mapping[str, Mapping[str, str]]) -> None:
    """Remove the files that the notes named before, once the database does not name them."""
    names = {held["name"] for held in before.values()}
    names -= {held["name"] for held in _attached(task).values()}
    if names:
        task.save()
        published.remove(*(published.root() / name for name in names))


def cards(task: base.Task) -> list[str]:
    """Return the addresses of the cards with pxe_enabled."""
    return [port.address for port in task.ports if port.pxe_enabled]


def check(node: base.Node, mode: str) -> None:
    """Reject a node without the settings for its medium, without any request.

    :raises errors.InvalidParameter, errors.MissingParameter: naming all faults.
    """
    parts = sources.parts(node, mode, whole=True)
    boot_mode = modes.wanted(node)
    if mode == sources.INSTANCE:
        loaders.instance_parameters(node)
        if parts.iso is not None:
            sources.check_iso(node.instance_info)
    loaders.operator_parameters(node, config.CONF.redfish.kernel_append_params)
    brought = mode == sources.INSTANCE and node.instance_info.get("configdrive")
    if handed_on(node, parts) and not brought:
        return
    published.base(node.driver_info)
    if parts.iso is None:
        networks_of(node, mode)
        if mode != sources.INSTANCE:
            sources.api_url(media=True)
        if boot_mode == "uefi":
            sources.bootloader(node)


def authority_archive() -> bytes | None:
    """Return the ramdisk with the authorities of agents, None without ``[agent]api_ca_file``.

    :raises errors.LocalFileError: the configured file does not exist, or cannot be read.
    """
    file = _ca_file()
    try:
        return _archive(file, checksums.content_stamp(file)) if file else None
    except OSError as why:
        reason = f"[agent]api_ca_file cannot be read: {why.strerror}"
        raise errors.LocalFileError(path=str(file), reason=reason) from None


@functools.lru_cache(maxsize=1)
def _archive(file: pathlib.Path, _stamp: tuple[int, ...]) -> bytes:
    return iso.authority_archive(file)


def _is_instance(parts: sources.Parts) -> bool:
    return parts.place.startswith("instance_info/")


def _ca_file() -> pathlib.Path | None:
    """Return the CA file with which agents verify servers.

    :raises errors.LocalFileError: the configured file does not exist.
    """
    said = config.CONF.agent.api_ca_file
    if said and not pathlib.Path(said).is_file():
        raise errors.LocalFileError(path=said, reason="[agent]api_ca_file does not exist")
    return pathlib.Path(said) if said else None


def _medium_recipe(node: base.Node, kernel: str, ramdisk: str, place: str) -> iso.Recipe:
    conf = config.CONF
    got_kernel = cache.fetch(kernel, f"{place}kernel")
    got_ramdisk = cache.fetch(ramdisk, f"{place}ramdisk")
    if modes.wanted(node) == "bios":
        loader, module = pathlib.Path(conf.isolinux_bin), pathlib.Path(conf.ldlinux_c32)
        return iso.Recipe(got_kernel, got_ramdisk, loader, module)
    own = "driver_info/" if node.driver_info.get("bootloader") else "[conductor]"
    loader = cache.fetch(sources.bootloader(node), f"{own}bootloader")
    return iso.Recipe(got_kernel, got_ramdisk, loader, config=conf.grub_config_path)


def _shared_bases() -> iso.Bases:
    conf = config.CONF
    folder = config.state_path() / "media-bases"
    return _bases_of(folder, conf.deploy.iso_cache_size)


@functools.lru_cache(maxsize=8)
def _bases_of(folder: pathlib.Path, limit: int) -> iso.Bases:
    return iso.Bases(folder, limit)
