"""Network boot: ``ipxe``, ``pxe``, ``http-ipxe`` and ``http``, their base, and files for dnsmasq.

A machine finds its files by the addresses of its cards. Every host on its network can read them, so
they hold no secrets: the agent gets its token at its first lookup.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import logging
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, TypeGuard

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain.states import State
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.boot import loaders, medium, modes, sources
from ironic_lite.images import cache, checksums, local_files, published

LOG = logging.getLogger(__name__)

# Files for dnsmasq: one host file per card, and one options file per node. Mostly pure.
#
# dnsmasq reads new files in its dhcp-hostsdir and dhcp-optsdir by itself. It ignores a card whose
# file says ``ignore``.

KNOWN_TAG = "ironic"
"""The tag of all cards of booting nodes."""

VENDOR_CLASS = 60  # RFC 2132, 9.13; UEFI 2.10, 24.7.3
HTTP_CLIENT = "HTTPClient"
"""Vendor class of firmware that boots by HTTP, which it must also find in the answer."""
BOOT_FILE = 67  # RFC 2132, 9.5
TFTP_NAME = 66  # RFC 2132, 9.4
TFTP_ADDRESS = 150  # RFC 5859
NEXT_SERVER = 255  # siaddr of RFC 2131, in dnsmasq's words

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_HOST_FILE = re.compile(r"ironic-(?P<address>[0-9a-f]{2}(?::[0-9a-f]{2}){5})\.conf")
_OPTIONS_FILE = re.compile(rf"ironic-(?P<node>{_UUID})\.conf")
_LEADS = re.compile(rf"[0-9a-f:]+,set:(?P<node>{_UUID}),")
_LINE_BYTES = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class DnsmasqFile:
    """A dnsmasq file as it was found.

    ``address``: the card of the file, None for the options of a node. ``node``: the node of the
    options that the file has or refers to, None for an ignored card.
    """

    file: pathlib.Path
    address: str | None
    node: str | None
    stamp: tuple[int, int]


def dnsmasq_files(before: float) -> Iterator[DnsmasqFile]:
    """Yield the existing dnsmasq files.

    :param before: seconds since the epoch; files written later are left out.
    """
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    conf = config.CONF.dnsmasq
    for folder, form in ((conf.dhcp_hostsdir, _HOST_FILE), (conf.dhcp_optsdir, _OPTIONS_FILE)):
        for file in pathlib.Path(folder).glob("ironic-*.conf"):
            about, stamp = form.fullmatch(file.name), published.seen(file, before)
            if about and stamp:
                yield DnsmasqFile(file, *_lease_facts(file, about), stamp)


def _lease_facts(file: pathlib.Path, about: re.Match[str]) -> tuple[str | None, str | None]:
    facts = about.groupdict()
    if "node" in facts:
        return None, facts["node"]
    text = ""
    with contextlib.suppress(OSError), file.open("rb") as opened:
        text = opened.read(_LINE_BYTES).decode("ascii", "replace")
    leads = _LEADS.match(text)
    return facts["address"], leads and leads["node"]


def withdraw_file(one: DnsmasqFile) -> bool:
    """Withdraw a dnsmasq file, unless its content has changed; return whether it was withdrawn.

    A card with a boot loader is set to ignored, because dnsmasq remembers deleted files until its
    restart. The file of an ignored card is deleted.

    :raises errors.LocalFileError: the file cannot be changed.
    """
    if published.seen(one.file, float("inf")) != one.stamp:
        return False
    if one.address is not None and one.node is not None:
        published.write(one.file, ignored_line(one.address))
    else:
        published.remove(one.file)
    return True


def host_line(address: str, tag: str) -> str:
    """Return the host line of a card that boots from the network."""
    return f"{address.lower()},set:{tag},set:{KNOWN_TAG}\n"


def ignored_line(address: str) -> str:
    """Return the host line of a card that does not boot from the network."""
    return f"{address.lower()},ignore\n"


def option_lines(tag: str, files: Mapping[str, str], server: str | None) -> str:
    """Return the options of a node, one per line.

    :param files: condition -> boot file: a tag of dnsmasq, such as ``ipxe`` or ``!ipxe``, or "".
    :param server: the TFTP server's address, None if all boot files are URLs.
    :raises errors.InvalidParameter: a file name has a comma, which separates options, or a
        character that cannot be printed.
    """
    lines = []
    for condition, name in files.items():
        if "," in name or not name.isprintable():
            reason = f"{name!r} has a comma or a character that cannot be printed"
            raise errors.InvalidParameter(path="boot file", reason=reason)
        when = f"tag:{condition}," if condition else ""
        lines.append(f"tag:{tag},{when}{BOOT_FILE},{name}")
    if server is None:
        lines.append(f"tag:{tag},{VENDOR_CLASS},{HTTP_CLIENT}")
    else:
        servers = (TFTP_NAME, TFTP_ADDRESS, NEXT_SERVER)
        lines += [f"tag:{tag},{option},{server}" for option in servers]
    return "".join(f"{line}\n" for line in lines)


def offer_files(
    node: base.Node, addresses: Sequence[str], files: Mapping[str, str], *, by_http: bool
) -> None:
    """Make dnsmasq offer these cards their boot files; do nothing if dnsmasq is not managed.

    :param by_http: the files are URLs, for firmware that boots by HTTP.
    :raises errors.LocalFileError: a file cannot be written.
    """
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    # Options first, because a known card without options boots nothing.
    server = None if by_http else tftp_server()
    published.write(_options_file(node), option_lines(node.uuid, files, server))
    for address in addresses:
        published.write(_host_file(address), host_line(address, node.uuid))


def ignore_cards(node: base.Node, addresses: Sequence[str]) -> None:
    """Make dnsmasq ignore these cards."""
    if config.CONF.dhcp.dhcp_provider != "dnsmasq":
        return
    for address in addresses:
        published.write(_host_file(address), ignored_line(address))
    published.remove(_options_file(node))


def tftp_server() -> str:
    """Return the address of the TFTP server.

    :raises errors.MissingParameter: no option names it.
    """
    given: str | None = config.CONF.pxe.tftp_server or config.CONF.my_ip
    return given or published.host(published.base())


def _host_file(address: str) -> pathlib.Path:
    return pathlib.Path(config.CONF.dnsmasq.dhcp_hostsdir) / f"ironic-{address.lower()}.conf"


def _options_file(node: base.Node) -> pathlib.Path:
    return pathlib.Path(config.CONF.dnsmasq.dhcp_optsdir) / f"ironic-{node.uuid}.conf"


NOTE = "network_boot"
"""Key of the boot files: ``{"params": {...}, "mode": ..., "iso": ..., "of_secret": ..., "files":
{...}}``.

``iso`` is true for an ISO image. ``of_secret`` is their `sources.run_mark`, which the word secret
hides from readers of the node. ``files`` has the identity of each large file by name.
"""
CARDS = "boot_cards"
"""Key of the addresses of the cards that have files."""
PREPARED = "network_boot_prepared"
"""Key of ``of_secret`` and ``files`` of the instance's files that are not yet in their place."""

PARTS = ("kernel", "ramdisk")
ISO = "boot.iso"
"""File name of an instance that is an ISO image, instead of kernel and ramdisk."""
AUTHORITY = "authority.cpio"
"""File name of a second ramdisk, by which agents trust ``[agent]api_ca_file``."""
_AHEAD = ".prepared-"
"""Prefix of the names of these files."""
_DEPLOYED = (State.ACTIVE, State.ADOPTING)
"""States without a ramdisk, in which a machine boots the instance on its disk."""


class NetworkBoot(base.Boot):
    """Writes the files of a node, configures the DHCP server, and sets the boot device."""

    over_network: ClassVar[bool] = True
    boots_iso: ClassVar[bool] = False
    """True if an instance may be an ISO image, see `texts_of_iso`."""
    loader: ClassVar[str]
    """The kind of loader in the names of options: ``ipxe`` or ``pxe``."""
    by_http: ClassVar[bool] = False
    """True if firmware loads the loader by HTTP from `root`, which only UEFI can; else by TFTP."""

    # -- overridden by interfaces ---------------------------------------------------------

    @abc.abstractmethod
    def root(self) -> pathlib.Path:
        """Return the folder of all files."""

    @abc.abstractmethod
    def texts(
        self, node: base.Node, addresses: Sequence[str], words: Sequence[str], authority: bool
    ) -> Mapping[str, str]:
        """Return the loaders' configuration files: path below `root` -> text.

        :param words: the command line without BOOTIF.
        :param authority: the node has the file ``AUTHORITY``.
        """

    def texts_of_iso(self, node: base.Node, addresses: Sequence[str]) -> Mapping[str, str]:
        """Return these files for an ISO image; called only if `boots_iso`."""
        raise NotImplementedError

    @abc.abstractmethod
    def texts_of_disk(self, node: base.Node, addresses: Sequence[str]) -> Mapping[str, str]:
        """Return these files for a machine that boots its disk."""

    @abc.abstractmethod
    def names(self, node: base.Node, addresses: Iterable[str]) -> Sequence[str]:
        """Return the paths of all files that this node can have, in either boot mode."""

    @abc.abstractmethod
    def boot_files(self, node: base.Node) -> Mapping[str, str]:
        """Return the boot files for the DHCP server, see `option_lines`."""

    def check_settings(self) -> None:
        """Check the options that this boot interface needs.

        :raises errors.MissingParameter: naming an option.
        """

    # -- settings -------------------------------------------------------------------------

    def property_groups(self) -> settings.GroupedFields:
        """Return the keys about ramdisks and boot devices."""
        return sources.GROUPS

    def validate(self, task: base.Task) -> None:
        """Check that a deploy ramdisk can be booted; see `check_ramdisk`."""
        self.check_ramdisk(task, "deploy")

    def check_ramdisk(self, task: base.Task, mode: str) -> None:
        """Check that a ramdisk can be booted.

        :raises errors.InvalidParameter, errors.MissingParameter: naming the faults.
        """
        if self._boot_parts(task.node, mode).iso is not None:
            sources.check_iso(task.node.instance_info)
        modes.wanted(task.node)
        _kernel_words(task.node, {}, mode)
        self.check_settings()
        if self.by_http:
            self._check_http_loader(task.node)
        _boot_cards(task)

    def _check_http_loader(self, node: base.Node) -> None:
        modes.require_uefi(node, instead=self.loader)
        option, name = boot_loader(node, self.loader)
        if not (self.root() / name).is_file():
            reason = (
                f"{self.root() / name} does not exist: put the loader there, or name its source in "
                "[pxe]loader_file_paths"
            )
            raise errors.InvalidParameter(path=option, reason=reason)

    # -- ramdisk --------------------------------------------------------------------------

    def prepare_ramdisk(
        self, task: base.Task, params: Mapping[str, str], mode: str = "deploy"
    ) -> None:
        """Write the files, configure the DHCP server, and boot from the network once.

        :raises errors.Error: a part is not available or cannot be written, or the BMC refused.
        """
        task.keep(NOTE, self._write_files(task, params, mode))
        modes.bring(task, modes.wanted(task.node))
        self._choose_device(task, persistent=False)

    def clean_up_ramdisk(self, task: base.Task, mode: str = "deploy") -> None:
        """Remove the files; the DHCP server ignores the machine from now on."""
        node, addresses = task.node, _addresses(task)
        # Folders may be shared, and the files may be another conductor's.
        task.confirm_lock(changes=True)
        ignore_cards(node, addresses)
        texts = [self.root() / name for name in self.names(node, addresses)]
        parts = [self.root() / node.uuid / part for part in (*PARTS, ISO, AUTHORITY)]
        published.remove(*texts, *parts)
        self._keep_cards(task, ())
        self._remove_ahead(task)
        published.remove_folder(self.root() / node.uuid)
        task.keep(NOTE, None)

    # -- instance -------------------------------------------------------------------------

    @cache.holding()
    def check_instance(self, task: base.Task) -> None:
        """Fetch the files of the instance, and compare them with their checksums.

        They wait beside those from which the machine still boots.

        :raises errors.Error: a file is not available, or its checksum differs.
        """
        parts = self._boot_parts(task.node, sources.INSTANCE)
        of, folder = _mark(task.node, parts), self.root() / task.node.uuid
        if _has_files(task.recall(PREPARED), of, folder, _AHEAD):
            return
        self._remove_ahead(task)
        found = _fetched_files(task.node, parts)
        task.confirm_lock(changes=True)  # fetching may have taken long
        for name, (local, check) in found.items():
            published.place(local, folder / f"{_AHEAD}{name}", check)
        task.keep(PREPARED, {"of_secret": of, "files": _identities(found, folder, _AHEAD)})

    def prepare_instance(self, task: base.Task) -> None:
        """Boot from the disk from now on, or over the network if the instance is a ramdisk."""
        if task.driver.deploy.boots_ramdisk:
            task.keep(NOTE, self._write_files(task, {}, sources.INSTANCE))
            self._choose_device(task, persistent=True)
            return
        self.clean_up_ramdisk(task)
        self._write_disk_texts(task)
        if modes.keeps_own_order(task.node, (task.node.properties or {}).get("vendor")):
            LOG.info("Node %s: its firmware keeps its own boot order", task.node.uuid)
            return
        modes.settle(task, "disk", persistent=True)

    def clean_up_instance(self, task: base.Task) -> None:
        """Remove the boot files."""
        self.clean_up_ramdisk(task)

    # -- another conductor ----------------------------------------------------------------

    def lacks_files(self, task: base.Task) -> bool:
        """Return whether the machine's boot files are missing or outdated on this conductor.

        They are outdated if the node returns to a conductor that it has left.
        """
        node, note = task.node, task.recall(NOTE) or {}
        if note:
            wanted, cards = self._boot_texts(task, note, kept=True), _boot_cards(task)
        else:
            wanted = self._disk_texts(task) if node.provision_state in _DEPLOYED else {}
            cards = _addresses(task) if wanted else []
        folder = self.root() / node.uuid
        gone = any(not (folder / name).exists() for name in note.get("files", ()))
        if gone or (wanted and _left_cards(task, cards)):
            return True
        return any(_read(self.root() / name) != text for name, text in wanted.items())

    def take_over(self, task: base.Task) -> None:
        """Write the files again, and configure the DHCP server."""
        if not self.lacks_files(task):
            return
        note = task.recall(NOTE)
        LOG.info("Node %s: writing its boot files on this conductor", task.node.uuid)
        if note:
            self._write_files(task, note["params"], note["mode"])
        else:
            self._write_disk_texts(task)

    # -- details --------------------------------------------------------------------------

    def _choose_device(self, task: base.Task, *, persistent: bool) -> None:
        """Boot from the network, by PXE where the BMC cannot choose HTTP."""
        if self.by_http:
            try:
                modes.settle(task, "uefihttp", persistent=persistent)
            except errors.InvalidParameter as why:
                LOG.warning("Node %s: it is told to boot by PXE: %s", task.node.uuid, why)
            else:
                return
        modes.settle(task, "pxe", persistent=persistent)

    def _first_file(self, node: base.Node) -> str:
        """Return the boot file that the firmware loads."""
        name = boot_loader(node, self.loader)[1]
        return published.url(name) if self.by_http else name

    @cache.holding()
    def _write_files(self, task: base.Task, params: Mapping[str, str], mode: str) -> Json:
        """Write all files; return the note about them."""
        node, addresses = task.node, _boot_cards(task)
        parts = self._boot_parts(node, mode)
        note = {"params": dict(params), "mode": mode, "iso": parts.iso is not None}
        texts = self._boot_texts(task, note)
        of, folder = _mark(node, parts), self.root() / node.uuid
        found = self._files_here(task, of)
        # A kernel does not boot with the ramdisk of another release, so both are fetched together.
        found = found if found is not None else _fetched_files(node, parts)
        task.confirm_lock(changes=True)  # fetching may have taken long
        # Files exist before and as long as a text that refers to them.
        for name, (local, check) in found.items():
            if local != folder / name:
                published.place(local, folder / name, check)
        note |= {"of_secret": of, "files": _identities(found, folder)}
        for path, text in texts.items():
            published.write(self.root() / path, text)
        stale = {*self.names(node, addresses), f"{node.uuid}/{AUTHORITY}"} - set(texts)
        published.remove(*(self.root() / name for name in stale))
        self._keep_cards(task, addresses)
        published.remove(*(folder / name for name in (*PARTS, ISO) if name not in found))
        self._remove_ahead(task)
        offer_files(node, addresses, self.boot_files(node), by_http=self.by_http)
        return note

    def _disk_texts(self, task: base.Task) -> Mapping[str, bytes]:
        """Return the texts that a deployed machine keeps, by the options none."""
        conf = config.CONF.pxe
        wanted = conf.ipxe_fallback_script or conf.enable_netboot_fallback
        if not wanted or task.driver.deploy.boots_ramdisk:
            return {}
        return _encoded(self.texts_of_disk(task.node, _addresses(task)))

    def _write_disk_texts(self, task: base.Task) -> None:
        texts = self._disk_texts(task)
        for path, text in texts.items():
            task.confirm_lock(changes=True)
            published.write(self.root() / path, text)
        self._keep_cards(task, _addresses(task) if texts else ())

    def _keep_cards(self, task: base.Task, addresses: Sequence[str]) -> None:
        """Note the cards that have files; remove the files of other cards that had some.

        Such a card may belong to another node now, whose files stay.
        """
        for name in self.names(task.node, _left_cards(task, addresses)):
            if task.node.uuid.encode() in (_read(self.root() / name) or b""):
                task.confirm_lock(changes=True)
                published.remove(self.root() / name)
        task.keep(CARDS, list(addresses) or None)

    def _remove_ahead(self, task: base.Task) -> None:
        folder = self.root() / task.node.uuid
        task.confirm_lock(changes=True)
        published.remove(*(folder / f"{_AHEAD}{name}" for name in (*PARTS, ISO)))
        task.keep(PREPARED, None)

    def _files_here(self, task: base.Task, of: str) -> _Files | None:
        """Return the files that this run has fetched for the same boot, None if one is gone."""
        folder = self.root() / task.node.uuid
        for key, ahead in ((PREPARED, _AHEAD), (NOTE, "")):
            note = task.recall(key)
            if _has_files(note, of, folder, ahead):
                return {name: (folder / f"{ahead}{name}", None) for name in note["files"]}
        return None

    def _boot_texts(
        self, task: base.Task, note: JsonView, *, kept: bool = False
    ) -> Mapping[str, bytes]:
        """Return all small files.

        :param kept: authorities that cannot be read now have not changed.
        """
        node, addresses = task.node, _boot_cards(task)
        if note.get("iso"):
            return _encoded(self.texts_of_iso(node, addresses))
        try:
            archive = None if note["mode"] == sources.INSTANCE else medium.authority_archive()
        except errors.LocalFileError:
            if not kept:
                raise
            archive = _read(self.root() / node.uuid / AUTHORITY)
        words = _kernel_words(node, note["params"], note["mode"])
        texts = _encoded(self.texts(node, addresses, words, archive is not None))
        return {**texts, **({f"{node.uuid}/{AUTHORITY}": archive} if archive else {})}

    def _boot_parts(self, node: base.Node, mode: str) -> sources.Parts:
        return sources.parts(node, mode, whole=self.boots_iso and mode == sources.INSTANCE)


LOADERS: Mapping[str, Mapping[str, str]] = {
    "ipxe": {"bios": "ipxe_bootfile_name", "uefi": "uefi_ipxe_bootfile_name"},
    "pxe": {"bios": "pxe_bootfile_name", "uefi": "uefi_pxe_bootfile_name"},
}
"""Options of [pxe] with the names of loaders, by kind and boot mode."""
_BY_ARCH = {"ipxe": "ipxe_bootfile_name_by_arch", "pxe": "pxe_bootfile_name_by_arch"}


def boot_loader(node: base.Node, kind: str) -> tuple[str, str]:
    """Return the option that names the loader of a machine, and its file name.

    :param kind: ``ipxe`` or ``pxe``.
    """
    conf, by_arch = config.CONF.pxe, _BY_ARCH[kind]
    mode, arch = modes.wanted(node), str((node.properties or {}).get("cpu_arch") or "")
    found = conf[by_arch].get(f"{arch}-{mode}") or conf[by_arch].get(arch)
    if found:
        return f"[pxe]{by_arch}", found
    option = LOADERS[kind][mode]
    return f"[pxe]{option}", conf[option]


_Check = Callable[[pathlib.Path], object]
_Files = Mapping[str, tuple[pathlib.Path, _Check | None]]


def _mark(node: base.Node, parts: sources.Parts) -> str:
    said = checksums.wanted(node.instance_info) if parts.iso is not None else None
    return sources.run_mark(node, parts, said)


def _identities(names: Iterable[str], folder: pathlib.Path, ahead: str = "") -> Json:
    """Return the identity of each file by name."""
    return {name: list(checksums.content_stamp(folder / f"{ahead}{name}")) for name in names}


def _has_files(
    note: JsonView | None, of: str, folder: pathlib.Path, ahead: str = ""
) -> TypeGuard[JsonView]:
    """Return whether these very files are here, and have the mark.

    The folder of a conductor that had the node before may have files of an earlier boot.
    """
    if not note or note.get("of_secret") != of:
        return False
    try:
        return bool(_identities(note["files"], folder, ahead) == note["files"])
    except OSError:
        return False


def _fetched_files(node: base.Node, parts: sources.Parts) -> _Files:
    """Return the files that a machine loads: file name at the node -> a local file.

    Each comes with the check for `published.place`.
    """
    if parts.iso is not None:
        image = sources.fetch_iso(node.instance_info)
        return {ISO: (image.file, image.prove)}
    urls = zip(PARTS, (parts.kernel, parts.ramdisk), strict=True)
    return {name: (cache.fetch(str(url), f"{parts.place}{name}"), None) for name, url in urls}


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in texts.items()}


def _read(file: pathlib.Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _addresses(task: base.Task) -> list[str]:
    return [port.address for port in task.ports]


def _left_cards(task: base.Task, addresses: Iterable[str]) -> list[str]:
    """Return the cards that had files, and are not among the addresses."""
    return sorted({*(task.recall(CARDS) or ())} - {*addresses})


def _boot_cards(task: base.Task) -> list[str]:
    """Return the addresses of the cards that may boot.

    :raises errors.MissingParameter: the node has no such card.
    """
    found = [port.address for port in task.ports if port.pxe_enabled]
    if not found:
        raise errors.MissingParameter(
            f"Node {task.node.uuid} has no port with pxe_enabled, but boots over the network: add "
            "one with the address of its card by POST /v1/ports.",
            path="ports",
        )
    return found


def _kernel_words(node: base.Node, params: Mapping[str, str], mode: str) -> list[str]:
    if mode == sources.INSTANCE:
        return loaders.kernel_words({}, loaders.instance_parameters(node))
    debug = "1" if LOG.isEnabledFor(logging.DEBUG) else None
    own = {loaders.API_URL: sources.api_url(), **params, "ipa-debug": debug}
    append = loaders.operator_parameters(node, config.CONF.pxe.kernel_append_params)
    return loaders.kernel_words(own, append)


def with_card(words: Sequence[str], address: str) -> list[str]:
    """Return a command line that names the card it was booted from."""
    return [*words, f"BOOTIF=01-{loaders.dashed_address(address)}"]


def place_common_files() -> None:
    """Copy the loaders of [pxe]loader_file_paths, and write the script with the fallback.

    :raises config.ConfigError: a name is not that of a file, or a source cannot be read.
    :raises errors.LocalFileError, errors.DiskFull: a file cannot be written.
    """
    conf, enabled = config.CONF.pxe, set(config.CONF.enabled_boot_interfaces)
    roots = [published.folder(), *([pathlib.Path(conf.tftp_root)] if enabled & _BY_TFTP else [])]
    for name, source in conf.loader_file_paths.items():
        try:
            if pathlib.Path(name).name != name or name.startswith("."):
                raise config.ConfigError(reason=f"[pxe]loader_file_paths: {name!r} is no file name")
            content = local_files.read_regular(pathlib.Path(source))
        except OSError as why:
            reason = f"[pxe]loader_file_paths: cannot read {source}: {why.strerror}"
            raise config.ConfigError(reason=reason) from None
        for root in roots:
            published.write(root / name, content)
    if conf.ipxe_fallback_script and enabled & _BY_IPXE:
        published.write(published.folder() / ENTRY, _entry_script())


# The boot interface ``ipxe``: iPXE itself by TFTP, everything else by HTTP.

ENTRY = "boot.ipxe"
"""The script that a DHCP server names; it chains to the machine's own script."""
_BY_TFTP, _BY_IPXE = frozenset({"ipxe", "pxe"}), frozenset({"ipxe", "http-ipxe"})


class IPXEBoot(NetworkBoot):
    """Boot scripts by card address, below ``[deploy]http_root``."""

    boots_iso: ClassVar[bool] = True
    loader: ClassVar[str] = "ipxe"

    def root(self) -> pathlib.Path:
        """Return ``[deploy]http_root``."""
        return published.root()

    def texts(
        self, node: base.Node, addresses: Sequence[str], words: Sequence[str], authority: bool
    ) -> Mapping[str, str]:
        """Return a script for each card, and the entry script."""
        kernel, ramdisk, archive = (
            published.url(f"{node.uuid}/{part}") for part in (*PARTS, AUTHORITY)
        )
        scripts = {
            _script_name(address): loaders.ipxe(
                kernel,
                ramdisk,
                with_card(words, address),
                authority=archive if authority else None,
                timeout=config.CONF.pxe.ipxe_timeout,
            )
            for address in addresses
        }
        return {ENTRY: _entry_script(), **scripts}

    def texts_of_iso(self, node: base.Node, addresses: Sequence[str]) -> Mapping[str, str]:
        """Return the same script for each card, and the entry script."""
        script = loaders.ipxe_iso(published.url(f"{node.uuid}/{ISO}"))
        return {ENTRY: _entry_script(), **{_script_name(address): script for address in addresses}}

    def texts_of_disk(self, node: base.Node, addresses: Sequence[str]) -> Mapping[str, str]:
        """Return the same script for each card, and the entry script."""
        script = loaders.ipxe_disk(node.uuid)
        return {ENTRY: _entry_script(), **{_script_name(address): script for address in addresses}}

    def names(self, node: base.Node, addresses: Iterable[str]) -> Sequence[str]:
        """Return the scripts of the cards."""
        return [_script_name(address) for address in addresses]

    def boot_files(self, node: base.Node) -> Mapping[str, str]:
        """Return iPXE for other loaders, and the entry script for iPXE."""
        return {"!ipxe": self._first_file(node), "ipxe": published.url(ENTRY)}

    def check_settings(self) -> None:
        """Check that the options name the HTTP and TFTP servers."""
        published.base()
        tftp_server()


class HTTPIPXEBoot(IPXEBoot):
    """The boot interface ``http-ipxe``: firmware loads iPXE by HTTP, too."""

    by_http: ClassVar[bool] = True

    def check_settings(self) -> None:
        """Check that the options name the HTTP server."""
        published.base()


def _entry_script() -> str:
    return loaders.ipxe_entry(config.CONF.pxe.ipxe_fallback_script)


def _script_name(address: str) -> str:
    return f"pxelinux.cfg/{loaders.dashed_address(address)}"


# The boot interface ``pxe``: everything by TFTP, for machines that cannot run iPXE.

GRUB_ENTRY = "grub/grub.cfg"
"""The first file that GRUB reads; it loads the file of the machine's card."""


class PXEBoot(NetworkBoot):
    """Files by card address below ``[pxe]tftp_root``, for pxelinux and GRUB."""

    loader: ClassVar[str] = "pxe"

    def root(self) -> pathlib.Path:
        """Return ``[pxe]tftp_root``."""
        return pathlib.Path(config.CONF.pxe.tftp_root)

    def texts(
        self, node: base.Node, addresses: Sequence[str], words: Sequence[str], authority: bool
    ) -> Mapping[str, str]:
        """Return a file for each card, for the loader of the node's boot mode."""
        kernel, ramdisk = (f"/{node.uuid}/{part}" for part in PARTS)
        archive = f"/{node.uuid}/{AUTHORITY}" if authority else None
        lines = {address: with_card(words, address) for address in addresses}
        if modes.wanted(node) == "bios":
            return {
                _pxelinux_file(address): loaders.syslinux(kernel, ramdisk, line, authority=archive)
                for address, line in lines.items()
            }
        files = {
            _grub_file(address): loaders.grub(kernel, ramdisk, line, authority=archive)
            for address, line in lines.items()
        }
        return {GRUB_ENTRY: loaders.grub_entry(), **files}

    def texts_of_disk(self, node: base.Node, addresses: Sequence[str]) -> Mapping[str, str]:
        """Return a file for each card and loader."""
        return {
            GRUB_ENTRY: loaders.grub_entry(),
            **{_grub_file(address): loaders.grub_disk(node.uuid) for address in addresses},
            **{_pxelinux_file(address): loaders.syslinux_disk(node.uuid) for address in addresses},
        }

    def names(self, node: base.Node, addresses: Iterable[str]) -> Sequence[str]:
        """Return the files of both loaders."""
        return [name(address) for address in addresses for name in (_pxelinux_file, _grub_file)]

    def boot_files(self, node: base.Node) -> Mapping[str, str]:
        """Return the loader of the node's boot mode and architecture."""
        return {"": self._first_file(node)}

    def check_settings(self) -> None:
        """Check that an option names the TFTP server."""
        if config.CONF.dhcp.dhcp_provider == "dnsmasq":
            tftp_server()


class HTTPBoot(PXEBoot):
    """The boot interface ``http``: firmware and GRUB load all files by HTTP."""

    by_http: ClassVar[bool] = True

    def root(self) -> pathlib.Path:
        """Return ``[deploy]http_root``."""
        return published.root()

    def check_settings(self) -> None:
        """Check the URL of the HTTP server, because GRUB knows only its host and port.

        :raises errors.InvalidParameter: it is https, or has a path.
        """
        url = published.base()
        if not re.fullmatch("http://[^/]+", url, re.IGNORECASE):
            reason = f"GRUB reads no files from {url}: use plain http without a path, or http-ipxe"
            raise errors.InvalidParameter(path="[deploy]http_url", reason=reason)


def _pxelinux_file(address: str) -> str:
    return f"pxelinux.cfg/01-{loaders.dashed_address(address)}"


def _grub_file(address: str) -> str:
    return f"{address.lower()}.conf"
