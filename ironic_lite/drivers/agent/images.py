"""Image of an instance for the agent: its settings, checks, publication and arguments.

The agent gets the image by its own URL, or this service fetches, verifies and serves it. All
detectable faults are rejected when the deployment is requested, because an agent would report them
only minutes later.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import pathlib
import re
from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.core import config, log_lines
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import root_device, vocabulary
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.boot import modes
from ironic_lite.images import (
    cache,
    checksums,
    configdrive,
    download,
    published,
    registry,
    verification,
)

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


def _read_secret(value: object) -> str:
    return registry.read_secret(settings.text(value))


DOWNLOAD = "image_download_source"
IMAGE_FIELDS: settings.DriverFields = {
    "image_source": settings.DriverField(
        str, "URL of the image: http, https, file or oci. Required.", required=True
    ),
    registry.SECRET: settings.DriverField(
        _read_secret, "Login at the registry of an oci image: user:password, or a token."
    ),
    "image_checksum": settings.DriverField(
        str, "Its sha256 or sha512, or the URL of a file that has them."
    ),
    "image_os_hash_algo": settings.DriverField(
        str, "sha256 or sha512; goes with image_os_hash_value."
    ),
    "image_os_hash_value": settings.DriverField(str, "The digest of that kind, or a URL as above."),
    "image_disk_format": settings.DriverField(
        _one_of("raw", "qcow2", "gpt", "vmdk", "vdi", "vhd", "vhdx"),
        "Format of the image; by default the agent detects it. Raw images are streamed to disk.",
    ),
    "image_type": settings.DriverField(
        _one_of(WHOLE_DISK, PARTITION), "whole-disk (the default) or partition."
    ),
    DOWNLOAD: settings.DriverField(
        _one_of("http", "local"),
        "Who fetches an http image: the agent (http) or this service, which serves it (local).",
    ),
    "root_gb": settings.DriverField(
        _read_count(1), "Size of the root partition; for partition images."
    ),
    "swap_mb": settings.DriverField(
        _read_count(0), "Size of a swap partition; for partition images."
    ),
    "ephemeral_gb": settings.DriverField(_read_count(0), "Size of a partition for temporary data."),
    "ephemeral_format": settings.DriverField(settings.text, "File system of that partition."),
    "preserve_ephemeral": settings.DriverField(
        settings.flag, "Keep that partition when the node is rebuilt."
    ),
}
"""The keys of instance_info that a deployment reads."""

_MARK, _LONGEST = 8, 128  # characters of an image's name
_UNUSUAL = re.compile(r"[^\w.+-]", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceImage:
    """The image of an instance, as its owner requested it.

    ``checksum`` is None if it is in a file: then ``checksum_source`` is the URL of that file and
    ``algorithm`` its algorithm, if given. A local image may have neither. ``told`` are the parsed
    values of ``FIELDS``. ``reference`` leads to an image of a registry, ``layer`` is what was found
    there.
    """

    source: download.Source
    checksum: checksums.Checksum | None
    checksum_source: download.Source | None
    algorithm: str | None
    told: JsonView
    reference: registry.Reference | None = None
    layer: registry.Layer | None = None

    @property
    def kind(self) -> str:
        """``WHOLE_DISK`` or ``PARTITION``."""
        return str(self.told.get("image_type", WHOLE_DISK))

    @property
    def local(self) -> bool:
        """Return whether this service must fetch the image.

        That is always so for a file URL. An agent unpacks no layers, and must not get the login of
        a registry that takes no tokens.
        """
        if self.source.file is not None or (self.layer and (self.layer.packed or self.layer.basic)):
            return True
        return bool(self.told.get(DOWNLOAD) == "local")


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NO_GLANCE = (
    "is the UUID of an image, and there is no object or image service here: give an http, https, "
    "file or oci URL with a checksum"
)


def read_image(instance_info: JsonView, *, md5: bool = False) -> InstanceImage:
    """Parse the image of an instance.

    :param md5: whether the operator accepts md5 ([agent]allow_md5_checksum).
    :raises errors.InvalidParameter, errors.MissingParameter: naming ``instance_info/<key>``.
    """
    if settings.absent(instance_info, "image_source"):
        raise errors.MissingParameter(path=_SOURCE)
    given = instance_info["image_source"]
    if isinstance(given, str) and _UUID.fullmatch(given):
        raise errors.InvalidParameter(path=_SOURCE, reason=_NO_GLANCE)
    reference = registry.read_reference(given, _SOURCE) if registry.is_reference(given) else None
    source = reference.source if reference else download.read_source(given, _SOURCE)
    if reference is None:
        _refuse_packed(source)
    algorithm, value = checksums.wanted(instance_info) or (None, None)
    if value is None and source.file is None and reference is None:
        text = (
            f"Missing mandatory parameter: {_CHECKSUM}, the image's sha256 or sha512 (or "
            "image_os_hash_algo with image_os_hash_value): otherwise nothing detects a bad image"
        )
        raise errors.MissingParameter(text, path=_CHECKSUM)
    told = settings.values(IMAGE_FIELDS, instance_info, WHERE)
    path = _CHECKSUM if algorithm is None else _VALUE
    checksum = elsewhere = None
    if value is not None and "://" in value:
        elsewhere = _read_elsewhere(value, path, source)
    elif value is not None:
        checksum = checksums.bare(value, path, algorithm=algorithm, md5=md5)
        algorithm = checksum.algorithm
    image = InstanceImage(source, checksum, elsewhere, algorithm, told, reference)
    if image.kind == PARTITION and "root_gb" not in told:
        raise errors.MissingParameter(path=f"{WHERE}/root_gb")
    return image


def _read_elsewhere(value: str, path: str, image: download.Source) -> download.Source:
    """Return the address of the file with the checksum of an image."""
    if image.scheme == download.REGISTRY:
        reason = "must be the digits of the layer's digest, or left out, for an oci:// image"
        raise errors.InvalidParameter(path=path, reason=reason)
    found = download.read_source(value, path)
    if found.file is not None and image.file is None:
        raise errors.InvalidParameter(path=path, reason="must be an http or https URL here")
    return found


def _refuse_packed(source: download.Source) -> None:
    """Reject an image whose name shows a compression, which no agent unpacks."""
    if source.name.lower().endswith(registry.PACKED_NAMES):
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


def image_info(
    image: InstanceImage,
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
    form = told.get("image_disk_format") or (image.layer and image.layer.format)
    if form:
        info["disk_format"] = form
    if image.kind == PARTITION:
        info |= _partition_sizes(told)
    return info


def _image_id(name: str, run: str) -> str:
    """Return a name for the image that is also a valid file name, because the agent needs one."""
    plain = _UNUSUAL.sub("_", name).lstrip(".") or "image"
    return f"{hashlib.sha256(run.encode()).hexdigest()[:_MARK]}-{plain[-_LONGEST:]}"


def _image_checksum(image: InstanceImage) -> Json:
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
        "ephemeral_format": told.get("ephemeral_format", config.CONF.pxe.default_ephemeral_format),
        "preserve_ephemeral": told.get("preserve_ephemeral", False),
        "boot_option": "local",
    }


FOLDER = published.IMAGES
"""Below http_root."""
SERVED_NAME = "served_image_secret"
"""Key of the image's secret name, under which it is served for a node."""
SERVED_PROOF = "served_image"
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


DOWNLOAD_FIELDS: settings.DriverFields = {
    "image_http_proxy": settings.DriverField(
        _read_proxy, "Proxy through which the machine fetches http images."
    ),
    "image_https_proxy": settings.DriverField(_read_proxy, "The same for https."),
    registry.SECRET: settings.DriverField(
        _read_secret,
        "Login at the registry of an oci image, unless instance_info has one or the node has a "
        "lessee: user:password, or a token.",
    ),
    _NO_PROXY: settings.DriverField(
        _read_line, "Hosts that it reaches without a proxy, separated by commas."
    ),
    DOWNLOAD: settings.DriverField(
        IMAGE_FIELDS[DOWNLOAD].read,
        "Who fetches an http image: the agent (http) or this service, which serves it (local). "
        "instance_info has precedence.",
    ),
}
"""The keys of driver_info that a deployment reads."""


def check_image(task: base.Task) -> InstanceImage:
    """Return the image of the node's instance.

    :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
    """
    info = task.node.instance_info
    image = read_image(info, md5=config.CONF.agent.allow_md5_checksum)
    settings.values(DOWNLOAD_FIELDS, task.node.driver_info)
    cache.check(image.source, f"{WHERE}/image_source")
    if image.checksum_source is not None:
        verification.check_sums(image.checksum_source, _sum_path(image))
    check_drive(info)
    _check_boot_loader(image)
    holders = {place: getattr(task.node, place) or {} for place in modes.PLACES}
    # The agent takes the hints of the first place that has some.
    place = next((place for place, holder in holders.items() if holder.get("root_device")), None)
    if place is not None:
        check_hints(holders[place], place)
    return image


def check_instance(task: base.Task) -> None:
    """Refuse an instance that cannot be written, while the client waits; see `wanted`.

    :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
    """
    image = check_image(task)
    if image.source.file is not None:
        verification.refuse_unwritable(image.source.file, f"{WHERE}/image_source")


def make_ready(task: base.Task) -> None:
    """Fetch, verify and publish the image, if this conductor serves it. Repeatable.

    A repetition in the same run uses the published image; another run asks its server again.

    The boot mode is stored for the agent, which repeats its lookup before it partitions the disk.

    :raises errors.Error: the image is not available, or invalid.
    """
    image = _resolve(task, check_image(task))
    task.keep(vocabulary.DEPLOYED_MODE, modes.wanted(task.node))
    if is_served(task, image):
        known, run = task.recall(SERVED_PROOF) or {}, task.node.run_uuid
        again = run is not None and known.get("run") == run
        (_served_image if again else _publish_image)(task, image)


def step_arguments(task: base.Task) -> Json:
    """Return the arguments of the agent's step write_image.

    :raises errors.Error: as `make_ready`.
    """
    image = _resolve(task, check_image(task))
    url = image.source.url
    login: Json = {}
    if is_served(task, image):
        image, url = _served_image(task, image)
    elif image.layer is not None:
        url, login = _authorized_layer(task, image.layer)
    else:
        image, login = _with_server_login(image)
    told = settings.values(DOWNLOAD_FIELDS, task.node.driver_info)
    proxies = {kind: told[key] for kind, key in _PROXIES.items() if key in told}
    info = image_info(
        image,
        url=url,
        node_uuid=task.node.uuid,
        run=task.step_id,
        boot_mode=modes.wanted(task.node),
        stream=config.CONF.agent.stream_raw_images,
        proxies=proxies or None,
        no_proxy=told.get(_NO_PROXY),
        disk_label=modes.capability(task.node.instance_info, "disk_label"),
        **login,
    )
    return {"image_info": info, "configdrive": _configdrive_source(task)}


def remove(task: base.Task) -> None:
    """Stop serving the image. Repeatable.

    :raises errors.LocalFileError: its file cannot be removed.
    """
    name = task.recall(SERVED_NAME)
    if name:
        # The folder may be shared, and another conductor may serve it now.
        task.confirm_lock(changes=True)
        published.remove(published.root() / name)
        task.keep(SERVED_NAME, None)
        task.keep(SERVED_PROOF, None)


# Images of registries: found once for a deployment, and known by digests from then on.

_TOKEN_REFUSED = "status code 401"


def find_layer(
    task: base.Task,
    image: InstanceImage,
    reference: registry.Reference,
    *,
    pause: Callable[[float], object] | None = None,
    seconds: float | None = None,
) -> registry.Layer:
    """Ask the registry of an image for the layer that fits the node.

    :param pause: see `registry.RegistryClient`; ``seconds`` limit all requests.
    :raises errors.DownloadFailed, errors.ImageUnusable, errors.LocalFileError: none was found.
    """
    arch = str((task.node.properties or {}).get("cpu_arch") or "")
    client = _client(task, reference, pause, seconds)
    return client.resolve(arch, served=is_served(task, image))


def _resolve(task: base.Task, image: InstanceImage) -> InstanceImage:
    """Return the image with its layer, which the node keeps for retries and other conductors.

    :raises errors.Error: as `find_layer`.
    """
    if image.reference is None:
        return image
    note = task.recall(vocabulary.REGISTRY_IMAGE) or {}
    if note.get("source") == image.source.url:
        layer = registry.Layer.of_note(note)
    else:
        layer = find_layer(task, image, image.reference, pause=task.pause)
        task.keep(vocabulary.REGISTRY_IMAGE, {"source": image.source.url, **layer.as_note()})
        if layer.basic:
            host = image.reference.host
            text = f"{host} takes no tokens, so the conductor downloads the image, not the agent"
            log_lines.note_run_line("images", text)
    checksum, said = registry.digest_checksum(layer.digest), image.checksum
    if said is not None and said != checksum:
        reason = f"its layer is {layer.digest}, not {said.algorithm}:{said.value}"
        raise errors.ImageUnusable(image=image.source.shown, reason=reason)
    return dataclasses.replace(
        image, checksum=None if layer.packed else checksum, algorithm=None, layer=layer
    )


def renew_token(task: base.Task, why: errors.AgentCommandFailed) -> bool:
    """Return whether the agent's command failed for its token, once for each step.

    The token may have expired while the agent was busy; the next command gets a new one.
    """
    note = task.recall(vocabulary.REGISTRY_IMAGE)
    if not note or note.get("renewed") == task.step_id or _TOKEN_REFUSED not in str(why):
        return False
    task.keep(vocabulary.REGISTRY_IMAGE, {**note, "renewed": task.step_id})
    return True


def forget_layer(task: base.Task) -> None:
    """Forget the image of a registry, so that the next deployment asks for it anew."""
    task.keep(vocabulary.REGISTRY_IMAGE, None)


def _client(
    task: base.Task,
    reference: registry.Reference,
    pause: Callable[[float], object] | None,
    seconds: float | None = None,
) -> registry.RegistryClient:
    node = task.node
    secrets: dict[str, str] = {}
    # A lessee writes image_source, and could name a registry of their own that asks for the login.
    for place in (WHERE,) if node.lessee else (WHERE, "driver_info"):
        holder = getattr(node, place) or {}
        if not settings.absent(holder, registry.SECRET):
            secrets[f"{place}/{registry.SECRET}"] = settings.text(holder[registry.SECRET])
    login = registry.find_login(reference, secrets)
    return registry.RegistryClient(reference, login, pause=pause, seconds=seconds)


def _authorized_layer(task: base.Task, layer: registry.Layer) -> tuple[str, Json]:
    """Return the URL of a layer for the agent, and a new token that may only pull it."""
    client = _client(task, layer.manifest, task.pause)
    header = client.authorize()
    if client.basic:  # its header is the login itself, which an agent must not get
        reason = "the registry takes no tokens any more; repeat the deployment"
        raise errors.DownloadFailed(url=layer.manifest.shown, reason=reason)
    login: Json = {}
    if header is not None:
        login["image_request_authorization"] = base64.b64encode(header.encode()).decode()
    return client.blob_url(layer.digest), login


def _fetch_layer(task: base.Task, layer: registry.Layer) -> pathlib.Path:
    """Return a local file with a layer, unpacked."""
    if layer.packed == "zstd" and config.CONF.conductor.disable_zstandard_decompression:
        reason = "its layer is compressed, but [conductor]disable_zstandard_decompression is true"
        raise errors.ImageUnusable(image=layer.manifest.shown, reason=reason)
    client = _client(task, layer.manifest, task.pause)
    header = client.authorize()
    checksum = registry.digest_checksum(layer.digest)
    access = registry.layer_access(header, layer)
    return cache.fetch(client.blob_url(layer.digest), _SOURCE, checksum=checksum, access=access)


def _with_server_login(image: InstanceImage) -> tuple[InstanceImage, Json]:
    """Return the image, and the login of its server for the agent.

    The agent sends a login to the server of the digests, too, so this service asks for them.
    """
    conf = config.CONF.deploy
    if cache.server_authorization(image.source.url) is None:
        return image, {}
    if image.checksum_source is not None:
        found = _looked_up(image)
        image = dataclasses.replace(image, checksum=found, checksum_source=None)
    return image, {
        "image_server_auth_strategy": conf.image_server_auth_strategy,
        "image_server_user": conf.image_server_user,
        "image_server_password": conf.image_server_password,
    }


def lacks_files(task: base.Task) -> bool:
    """Return whether an image of this node was served, but is missing on this conductor."""
    name = task.recall(SERVED_NAME)
    return bool(name) and not (published.root() / name).exists()


def take_over(task: base.Task) -> None:
    """Serve the image that another conductor has served until now.

    :raises errors.Error: as `make_ready`.
    """
    if lacks_files(task):
        make_ready(task)


def is_served(task: base.Task, image: InstanceImage) -> bool:
    """Return whether this service serves the image.

    instance_info has precedence over driver_info, and driver_info over the option.
    """
    if config.CONF.conductor.conductor_always_validates_images:
        return True
    said = image.told.get(DOWNLOAD)
    said = said or settings.values(DOWNLOAD_FIELDS, task.node.driver_info).get(DOWNLOAD)
    return image.local or (said or config.CONF.agent.image_download_source) == "local"


def _served_image(task: base.Task, image: InstanceImage) -> tuple[InstanceImage, str]:
    """Return the image as it was published for this node; publish it if that file is gone.

    What the preparation has verified is not fetched again: its server may have changed it since, or
    be away.
    """
    known, name = task.recall(SERVED_PROOF) or {}, task.recall(SERVED_NAME)
    if name is None or known.get("of") != _request_mark(image, name) or lacks_files(task):
        return _publish_image(task, image)
    checksum = checksums.Checksum(known["algorithm"], known["value"])
    verification.prove(published.root() / name, checksum, shown=image.source.shown)
    return _known_image(image, checksum, known["format"]), published.url(name)


@cache.holding()
def _publish_image(task: base.Task, image: InstanceImage) -> tuple[InstanceImage, str]:
    """Return the image with checksum and format, and the URL at which it is served."""
    checksum = image.checksum or _looked_up(image)
    if image.layer is not None:
        file = _fetch_layer(task, image.layer)
    else:
        file = cache.fetch(image.source.url, _SOURCE, checksum=checksum)
    checksum = checksum or verification.computed(file)
    said = image.told.get("image_disk_format")
    name = task.recall(SERVED_NAME) or f"{FOLDER}/{published.secret_name(task.node.uuid, '')}"
    task.keep(SERVED_NAME, name)
    task.keep(SERVED_PROOF, None)
    form: str | None = None

    def check(made: pathlib.Path) -> None:
        nonlocal form
        form = verification.check(made, checksum, said=said, shown=image.source.shown)
        task.confirm_lock(changes=True)  # fetching and copying may have taken long

    published.place(file, published.root() / name, check)
    proof = {"algorithm": checksum.algorithm, "value": checksum.value, "format": form}
    task.keep(SERVED_PROOF, {"of": _request_mark(image, name), "run": task.node.run_uuid, **proof})
    return _known_image(image, checksum, form), published.url(name)


def _known_image(
    image: InstanceImage, checksum: checksums.Checksum, form: str | None
) -> InstanceImage:
    return dataclasses.replace(
        image,
        checksum=checksum,
        checksum_source=None,
        algorithm=checksum.algorithm,
        told={**image.told, **({"image_disk_format": form} if form else {})},
    )


def _request_mark(image: InstanceImage, name: str) -> str:
    """Return a digest of what the owner has requested, which may contain a login.

    :param name: the secret name of the file, so that readers of the digest cannot try passwords.
    """
    source = image.checksum_source and image.checksum_source.url
    value = image.checksum and image.checksum.value
    facts = (
        image.source.url,
        source,
        image.layer.digest if image.layer else value,
        image.algorithm,
        image.told.get("image_disk_format"),
    )
    return hmac.new(name.encode(), repr(facts).encode(), "sha256").hexdigest()


def _looked_up(image: InstanceImage) -> checksums.Checksum | None:
    """Return the checksum of the file that lists it, None for a local image without any."""
    source, path = image.checksum_source, _sum_path(image)
    if source is None:
        return None
    return verification.looked_up(source, image.source.name, path=path, algorithm=image.algorithm)


def _sum_path(image: InstanceImage) -> str:
    key = "image_checksum" if image.algorithm is None else "image_os_hash_value"
    return f"{WHERE}/{key}"


def _check_boot_loader(image: InstanceImage) -> None:
    """Reject an image whose boot loader the agent would refuse to install after writing it.

    This also holds in UEFI mode, because the agent creates an empty EFI system partition and does
    not fill it.
    """
    if image.kind == PARTITION and not config.CONF.agent.enable_bios_bootloader_install:
        reason = (
            "partition: the agent would have to run programs of the image in the ramdisk to make "
            "it boot. Give a whole-disk image, or set [agent]enable_bios_bootloader_install"
        )
        raise errors.InvalidParameter(path=f"{WHERE}/image_type", reason=reason)


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
