"""Options of [conductor], by subject."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite.core import networks
from ironic_lite.core.options.declare import (
    Group,
    IPNetwork,
    StepPriorities,
    StepSeconds,
    boot_modes,
    items,
    mapping,
    number,
    repeated,
    seconds,
    switch,
    text,
)


def _sweep(default: int, help: str) -> int:
    return seconds(default, f"{help} 0 turns it off.")


def _limit(what: str, old: Sequence[tuple[str, str]] = ()) -> int:
    return seconds(
        1800,
        f"A node that waits longer than this many seconds for {what} fails. 0 waits for ever.",
        old=old,
    )


def _boot_file(what: str) -> str | None:
    return text(None, f"URL of {what}, for nodes whose driver_info names none.")


def _boot_file_by_arch(name: str) -> dict[str, str]:
    """Declare the same option by ``cpu_arch`` of node properties."""
    return mapping(
        {},
        f"The same by properties/cpu_arch, as arch:URL; it comes before {name}.",
        sample_default={"x86_64": f"file:///srv/boot/x86_64.{name.rpartition('_')[2]}"},
    )


class ConductorOptions(Group):
    """Options of [conductor]."""

    # Membership
    conductor_group: str = text(
        "",
        "This conductor drives only nodes with the same value in their conductor_group field; case "
        "is ignored.",
        max_length=255,
        regex=r"^[A-Za-z0-9._-]*$",
    )
    heartbeat_interval: int = seconds(10, "Seconds between two heartbeats.", least=1)
    heartbeat_timeout: int = seconds(
        60,
        "Seconds after its last heartbeat at which a conductor counts as dead: other conductors "
        "take its nodes over and its locks expire.",
        least=2,
    )
    hash_ring_reset_interval: int = seconds(
        15,
        "Seconds between two reads of the living conductors, which share the nodes.",
        old=[("DEFAULT", "hash_ring_reset_interval")],
    )
    graceful_shutdown_timeout: int = seconds(
        60,
        "Seconds a stopping conductor waits for its running work. 0 waits for ever.",
        old=[("DEFAULT", "graceful_shutdown_timeout")],
    )
    drain_shutdown_timeout: int = seconds(
        1800,
        "The same when SIGUSR2 stops the conductor, as before the maintenance of a machine.",
        old=[("DEFAULT", "drain_shutdown_timeout")],
    )

    # Work on nodes
    processes: int = number(
        1,
        "Processes of this conductor, to use several processor cores. Each is a conductor of its "
        "own, with a share of the nodes: the first has the name [DEFAULT]host, the others host:2, "
        "host:3 and so on. With SQLite, 2 help fleets with Redfish BMCs; more need PostgreSQL or "
        "MariaDB.",
        min=1,
        max=64,
    )
    workers_pool_size: int = number(
        100,
        "Threads of each process that work on nodes. When all are busy, requests get 503.",
        min=4,
    )
    reserved_workers_pool_percentage: int = number(
        5,
        "Share of workers_pool_size kept for requests of the API, so that sweeps and agents cannot "
        "starve them.",
        min=0,
        max=50,
    )
    workers_project_percentage: int = number(
        50,
        "Share of workers_pool_size, and of the threads that answer calls, for the nodes that one "
        "project owns; its further requests get 503. 100 sets no limit. Nodes without owner have "
        "none.",
        min=1,
        max=100,
    )
    periodic_max_workers: int = number(8, "Threads one periodic sweep may use at once.", min=1)
    work_timeout: int = seconds(
        2 * 3600,
        "Seconds after which work on a node counts as hung: meanwhile it sends nothing to its "
        "machine, does not pause, ends no step and saves nothing. The work is given up, and the "
        "node fails with last_error. Fetching an image counts as progress only at its end. 0 waits "
        "for ever.",
    )
    busy_timeout: int = seconds(
        24 * 3600,
        "Seconds for which work on a node may last without an end or a wait, such as in the state "
        "cleaning, even with progress: then the work is given up as well. Waits have limits of "
        "their own. 0 sets no limit.",
    )
    max_concurrent_deploy: int = number(
        250, "Nodes deploying at once, in all conductors together. More requests get 503.", min=1
    )
    max_concurrent_clean: int = number(
        50,
        "Nodes cleaning or being deleted at once, in all conductors together. More requests get "
        "503.",
        min=1,
    )
    automatic_lessee: bool = switch(True, "False means automatic_lessee_source = none.")
    automatic_lessee_source: str = text(
        "instance",
        "Where a deployment reads the project that becomes the node's lessee, if the node has "
        "none. Its teardown removes that lessee again.",
        choices=[
            ("instance", "instance_info/project_id, which Nova writes"),
            ("request", "the project of the token that asks for the deployment"),
            ("none", "no lessee is set"),
        ],
    )
    node_locked_retry_attempts: int = number(
        3,
        "How many times a request tries to lock a node, or to write a locked one, before it gets "
        "409. Conductor and API both use it.",
        min=0,
    )
    node_locked_retry_interval: int = seconds(
        1, "Seconds between two such tries. The API polls more often within the same time."
    )

    # Cleaning, rescue and steps
    automated_clean_enable: bool = switch(
        True,
        "Clean nodes automatically before they become available. A node's automated_clean field, "
        "if set, decides for that node.",
        old=[("conductor", "automated_clean"), ("conductor", "clean_nodes")],
    )
    automated_cleaning_step_source: str = text(
        "autogenerated",
        "Which steps automated cleaning runs.",
        choices=[
            ("autogenerated", "the drivers' steps, by their priorities"),
            ("runbook", "a runbook; a node without a runbook fails"),
            ("hybrid", "the runbook named for the node, or the drivers' steps without one"),
        ],
    )
    automated_cleaning_runbook: str | None = text(
        None, "UUID or name of the runbook that cleans nodes without a runbook of their own."
    )
    automated_cleaning_runbook_by_resource_class: dict[str, str] = mapping(
        {},
        "UUID or name of a runbook by the resource_class of nodes, as class:runbook; it comes "
        "before automated_cleaning_runbook.",
        sample_default={"baremetal.gpu": "clean-gpu"},
    )
    automated_cleaning_runbook_from_node: bool = switch(
        False,
        "Let cleaning_runbook in a node's driver_info name the runbook, before the other options. "
        "Any client that may write driver_info can then choose what is cleaned.",
    )
    automated_cleaning_runbook_validate_traits: bool = switch(
        True, "Let a runbook clean only nodes that share a trait with it; other nodes fail."
    )
    clean_step_priority_override: list[dict[str, float]] | None = repeated(
        StepPriorities(),
        "Priority of a clean step in automated cleaning, as interface.step:priority; 0 leaves the "
        "step out. May be given several times.",
        sample_default=["deploy.erase_devices:0"],
    )
    verify_step_priority_override: list[dict[str, float]] | None = repeated(
        StepPriorities(whole=True),
        "Priority of a verify step, as interface.step:priority; 0 leaves the step out. May be "
        "given several times.",
        sample_default=["management.detect_vendor:0"],
    )
    allow_provisioning_in_maintenance: bool = switch(
        True,
        "Let nodes in maintenance be provided and cleaned, and continue their work. False refuses "
        "this, and a clean, deployment, service or rescue whose node enters maintenance fails at "
        "the next heartbeat or poll; a step that must not be interrupted ends first.",
    )
    disallowed_deployment_boot_modes: list[str] = boot_modes(
        "Boot modes in which no node is deployed or rebuilt."
    )
    allow_deleting_available_nodes: bool = switch(
        True, "Let a node be deleted while it is available."
    )
    power_off_after_verify: bool = switch(
        False, "Power a node off when its credentials are verified."
    )
    poweroff_in_cleanfail: bool = switch(
        False,
        "Power a machine off when its clean has failed, even during a step. It stays on if a step "
        "of its firmware interface has failed, because its BMC may still write. Aborted cleans "
        "leave it on.",
    )
    poweroff_in_servicefail: bool = switch(
        False, "The same for service, whose machines hold instances."
    )
    rescue_password_hash_algorithm: str = text(
        "sha256",
        "How a rescue password is hashed before the rescue ramdisk gets it.",
        choices=("sha256", "sha512"),
    )
    require_rescue_password_hashed: bool = switch(
        True,
        "Keep only the hash of a rescue password. False keeps the password too, until the rescue "
        "ends, for ramdisks that cannot take a hash.",
    )
    poll_timeout: int = seconds(
        7 * 24 * 3600,
        "A step, an inspection or a rescue fails when its driver has reported for this many "
        "seconds that the operation continues. Each such report counts as a heartbeat for the "
        "other timeouts, so only this limit ends a wait on a machine that always reports so. 0 "
        "sets no limit.",
    )
    step_deadline: list[dict[str, float]] | None = repeated(
        StepSeconds(),
        "Seconds that a step may be under way in all, as interface.step:seconds. A waiting step "
        "fails then, with or without heartbeats; a step that the conductor itself runs is only "
        "reported as overdue. May be given several times.",
        sample_default=["deploy.erase_devices:43200"],
    )
    automatic_retries: int = number(
        0,
        "Retries of a run that the service makes by itself, 1, 5 and 15 minutes after a failure "
        "that may be temporary, such as an unreachable BMC or agent.",
        min=0,
        max=3,
    )
    max_conductor_wait_step_seconds: int = seconds(
        30, "The longest sleep, in seconds, that a reserved step named wait may ask for."
    )
    permit_child_node_step_async_result: bool = switch(
        False,
        "Treat a step as done that continues asynchronously on a child node. Its end is then not "
        "checked.",
    )

    # Waits and power
    clean_callback_timeout: int = _limit("a clean step to end")
    deploy_callback_timeout: int = _limit("a deploy step to end")
    service_callback_timeout: int = _limit("a service step to end")
    rescue_callback_timeout: int = _limit("a rescue to end")
    inspect_wait_timeout: int = _limit(
        "an inspection to end", old=[("conductor", "inspect_timeout")]
    )
    check_provision_state_interval: int = _sweep(
        60,
        "Seconds between two checks of waiting nodes against their limits, of overdue steps, and "
        "of the nodes of dead conductors, which are taken over.",
    )
    sync_power_state_interval: int = _sweep(
        120, "Seconds between two reads of the power state of nodes."
    )
    sync_power_state_workers: int = number(
        64,
        "Machines whose power state is read at the same time. Half as many more may be machines "
        "that were slow lately, as many silent ones, and as many lost ones.",
        min=1,
    )
    power_failure_recovery_interval: int = _sweep(
        300, "Seconds between two tries of nodes lost to a power failure."
    )
    power_state_sync_max_retries: int = number(
        3,
        "Failed power reads in a row after which a node goes into maintenance with the fault "
        "'power failure'.",
        min=0,
    )
    force_power_state_during_sync: bool = switch(
        True,
        "Set the power of a machine back to the state in the database. If false, the database "
        "follows the machine.",
    )
    enable_health_monitoring: bool = switch(
        True,
        "Record the health of machines, which their BMCs report with the power state. If false, "
        "nodes keep their last health.",
    )
    power_state_change_timeout: int = seconds(
        60, "Seconds a machine may take to be powered on or off.", least=2
    )
    soft_power_off_timeout: int = seconds(
        600, "Seconds a machine may take to shut down its operating system.", least=1
    )

    # History
    node_history_max_entries: int = number(
        300,
        "History entries kept of each node, with all events since the oldest of them; as many "
        "runs, and twenty times as many other events. 0 keeps everything.",
        min=0,
    )
    node_history_minimum_days: int = seconds(
        0, "Days for which no history of a node is removed, whatever its size."
    )
    removed_node_history_days: int = seconds(
        90,
        "Days for which the events of a node are kept after it was deleted, and those of a "
        "resource without a node, such as a runbook, after the last one. 0 keeps them.",
    )
    node_history_cleanup_interval: int = _sweep(
        86400, "Seconds between two removals of old history."
    )
    node_history_cleanup_batch_count: int = seconds(
        1000,
        "Events removed in one transaction. A removal continues, with pauses for other writers, "
        "until all old events are gone. 0 turns it off.",
    )

    # Images
    file_url_allowed_paths: list[str] = items(
        ["/var/lib/ironic-lite/images", "/srv/ironic-lite", "/var/lib/ironic"],
        "Folders of this machine whose files the fields of a node may name by file:// URLs. "
        "Options may name any file.",
    )
    image_blocked_networks: list[str] = items(
        list(networks.METADATA),
        "Networks, as 192.0.2.0/24, from which this service fetches no image, kernel or ramdisk, "
        "and which no inspection rule calls. The default has the addresses of clouds' metadata "
        "services. Add the networks of all services that trust this machine and, unless images are "
        "served on this machine, 0.0.0.0/8, 127.0.0.0/8, ::/128 and ::1/128.",
        item_type=IPNetwork(),
    )
    image_cache_size: int = number(
        20480,
        "MiB that fetched kernels, ramdisks and images may take, with running downloads and the "
        "files that machines use; also the size limit of one file. The least recently used go "
        "first, and earlier if the disk is full.",
        min=1,
        old=[("pxe", "image_cache_size")],
    )
    use_cached_images_offline: bool = switch(
        False,
        "Use a cached image with the wanted sha256 or sha512 if its server does not answer. Only "
        "for an address without query and login that the image was fetched from before; an answer "
        "such as 403 or 404 always ends the deployment.",
    )
    permitted_image_formats: list[str] = items(
        ["raw", "gpt", "qcow2"], "Allowed formats of images, detected by content."
    )
    disable_deep_image_inspection: bool = switch(
        False,
        "Trust the declared format of images, and skip the detection. The deploying user writes "
        "the image: qcow2 can name files of the machine that reads it.",
    )

    conductor_always_validates_images: bool = switch(
        False,
        "Fetch, check and serve all images of instances by the conductor, as if "
        "image_download_source were local everywhere.",
    )
    disable_support_for_checksum_files: bool = switch(
        False, "Refuse checksums of images that are the URL of a file with them."
    )
    disable_zstandard_decompression: bool = switch(
        False, "Refuse images of registries that are compressed with zstd, instead of unpacking."
    )

    # Ramdisks and boot files
    deploy_kernel: str | None = _boot_file("the kernel of the ramdisk that cleans and deploys")
    deploy_kernel_by_arch: dict[str, str] = _boot_file_by_arch("deploy_kernel")
    deploy_ramdisk: str | None = _boot_file("the ramdisk that cleans and deploys")
    deploy_ramdisk_by_arch: dict[str, str] = _boot_file_by_arch("deploy_ramdisk")
    rescue_kernel: str | None = _boot_file("the kernel of the ramdisk that rescues")
    rescue_kernel_by_arch: dict[str, str] = _boot_file_by_arch("rescue_kernel")
    rescue_ramdisk: str | None = _boot_file("the ramdisk that rescues")
    rescue_ramdisk_by_arch: dict[str, str] = _boot_file_by_arch("rescue_ramdisk")
    bootloader: str | None = _boot_file(
        "the image of an EFI system partition that virtual media start kernels from"
    )
    bootloader_by_arch: dict[str, str] = _boot_file_by_arch("bootloader")
    batch_interval: int = _sweep(
        2,
        "Seconds between two looks of a conductor at the open batches that it owns.",
    )
    sync_local_state_interval: int = _sweep(
        180,
        "Seconds between two checks for nodes from another conductor, whose boot files are to be "
        "made here, and for old files of nodes that no longer exist or use them.",
    )

    # Erasure
    clean_level: str = text(
        "clear",
        "Level of erasure of every disk at which the data of a node count as gone.",
        choices=["clear", "purge"],
    )
    require_clean_data: bool = switch(
        False,
        "Fail automated cleaning that does not prove the erasure of every disk, refuse to make "
        "such a node available, and let allocations pass it by.",
    )
    evidence_key_file: str | None = text(
        None,
        "PEM file with the Ed25519 private key that signs erasure records. Unset, records are not "
        "signed. A new key is used from the next start on; public keys are kept. A file that every "
        "user may use is refused: give it mode 0600.",
    )
