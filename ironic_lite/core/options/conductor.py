"""Options of [conductor], by subject; `CONDUCTOR` joins them."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.core import networks
from ironic_lite.core.options import rows, values

_MEMBERSHIP = (
    cfg.StrOpt(
        "conductor_group",
        default="",
        max_length=255,
        regex=r"^[A-Za-z0-9._-]*$",
        help="This conductor drives only nodes with the same value in their conductor_group "
        "field; case is ignored.",
    ),
    rows.seconds("heartbeat_interval", 10, "Seconds between two heartbeats.", least=1),
    rows.seconds(
        "heartbeat_timeout",
        60,
        "Seconds after its last heartbeat at which a conductor counts as dead: other conductors "
        "take its nodes over and its locks expire.",
        least=2,
    ),
    rows.seconds(
        "hash_ring_reset_interval",
        15,
        "Seconds between two reads of the living conductors, which share the nodes.",
    ),
    rows.seconds(
        "graceful_shutdown_timeout",
        60,
        "Seconds a stopping conductor waits for its running work. 0 waits for ever.",
    ),
    rows.seconds(
        "drain_shutdown_timeout",
        1800,
        "The same when SIGUSR2 stops the conductor, as before the maintenance of a machine.",
    ),
)

_WORK = (
    cfg.IntOpt(
        "processes",
        default=1,
        min=1,
        max=64,
        help="Processes of this conductor, to use several processor cores. Each is a conductor of "
        "its own, with a share of the nodes: the first has the name [DEFAULT]host, the others "
        "host:2, host:3 and so on. More than 1 needs PostgreSQL or MariaDB to be faster.",
    ),
    cfg.IntOpt(
        "workers_pool_size",
        default=100,
        min=4,
        help="Threads of each process that work on nodes. When all are busy, requests get 503.",
    ),
    cfg.IntOpt(
        "reserved_workers_pool_percentage",
        default=5,
        min=0,
        max=50,
        help="Share of workers_pool_size kept for requests of the API, so that sweeps and agents "
        "cannot starve them.",
    ),
    cfg.IntOpt(
        "workers_project_percentage",
        default=50,
        min=1,
        max=100,
        help="Share of workers_pool_size, and of the threads that answer calls, for the nodes that "
        "one project owns; its further requests get 503. 100 sets no limit. Nodes without owner "
        "have none.",
    ),
    cfg.IntOpt(
        "periodic_max_workers",
        default=8,
        min=1,
        help="Threads one periodic sweep may use at once.",
    ),
    rows.seconds(
        "work_timeout",
        2 * 3600,
        "Seconds after which work on a node counts as hung: meanwhile it sends nothing to its "
        "machine, does not pause, ends no step and saves nothing. The work is given up, and the "
        "node fails with last_error. Fetching an image counts as progress only at its end. 0 "
        "waits for ever.",
    ),
    rows.seconds(
        "busy_timeout",
        24 * 3600,
        "Seconds for which work on a node may last without an end or a wait, such as in the state "
        "cleaning, even with progress: then the work is given up as well. Waits have limits of "
        "their own. 0 sets no limit.",
    ),
    cfg.IntOpt(
        "max_concurrent_deploy",
        default=250,
        min=1,
        help="Nodes deploying at once, in all conductors together. More requests get 503.",
    ),
    cfg.IntOpt(
        "max_concurrent_clean",
        default=50,
        min=1,
        help="Nodes cleaning or being deleted at once, in all conductors together. More requests "
        "get 503.",
    ),
    cfg.StrOpt(
        "automatic_lessee_source",
        default="instance",
        choices=[
            ("instance", "instance_info/project_id, which Nova writes"),
            ("request", "the project of the token that asks for the deployment"),
            ("none", "no lessee is set"),
        ],
        help="Where a deployment reads the project that becomes the node's lessee, if the node has "
        "none. Its teardown removes that lessee again.",
    ),
    cfg.IntOpt(
        "node_locked_retry_attempts",
        default=3,
        min=0,
        help="How many times a request tries to lock a node, or to write a locked one, before it "
        "gets 409. Conductor and API both use it.",
    ),
    rows.seconds(
        "node_locked_retry_interval",
        1,
        "Seconds between two such tries. The API polls more often within the same time.",
    ),
)

_LIFE = (
    cfg.BoolOpt(
        "automated_clean_enable",
        default=True,
        deprecated_opts=[
            cfg.DeprecatedOpt("automated_clean", group="conductor"),
            cfg.DeprecatedOpt("clean_nodes", group="conductor"),
        ],
        help="Clean nodes automatically before they become available. A node's automated_clean "
        "field, if set, decides for that node.",
    ),
    cfg.StrOpt(
        "automated_cleaning_step_source",
        default="autogenerated",
        choices=[
            ("autogenerated", "the drivers' steps, by their priorities"),
            ("runbook", "a runbook; a node without a runbook fails"),
            ("hybrid", "the runbook named for the node, or the drivers' steps without one"),
        ],
        help="Which steps automated cleaning runs.",
    ),
    cfg.StrOpt(
        "automated_cleaning_runbook",
        help="UUID or name of the runbook that cleans nodes without a runbook of their own.",
    ),
    cfg.DictOpt(
        "automated_cleaning_runbook_by_resource_class",
        default={},
        sample_default={"baremetal.gpu": "clean-gpu"},
        help="UUID or name of a runbook by the resource_class of nodes, as class:runbook; it comes "
        "before automated_cleaning_runbook.",
    ),
    cfg.BoolOpt(
        "automated_cleaning_runbook_from_node",
        default=False,
        help="Let cleaning_runbook in a node's driver_info name the runbook, before the other "
        "options. Any client that may write driver_info can then choose what is cleaned.",
    ),
    cfg.BoolOpt(
        "automated_cleaning_runbook_validate_traits",
        default=True,
        help="Let a runbook clean only nodes that share a trait with it; other nodes fail.",
    ),
    cfg.MultiOpt(
        "clean_step_priority_override",
        item_type=values.StepPriorities(),
        default={},
        sample_default=["deploy.erase_devices:0"],
        help="Priority of a clean step in automated cleaning, as interface.step:priority; 0 leaves "
        "the step out. May be given several times.",
    ),
    cfg.MultiOpt(
        "verify_step_priority_override",
        item_type=values.StepPriorities(whole=True),
        default={},
        sample_default=["management.detect_vendor:0"],
        help="Priority of a verify step, as interface.step:priority; 0 leaves the step out. May be "
        "given several times.",
    ),
    cfg.BoolOpt(
        "allow_provisioning_in_maintenance",
        default=True,
        help="Let nodes in maintenance be provided and cleaned, and continue their work. False "
        "refuses this, and a clean, deployment, service or rescue whose node enters "
        "maintenance fails at the next heartbeat or poll; a step that must not be "
        "interrupted ends first.",
    ),
    cfg.BoolOpt(
        "allow_deleting_available_nodes",
        default=True,
        help="Let a node be deleted while it is available.",
    ),
    cfg.BoolOpt(
        "power_off_after_verify",
        default=False,
        help="Power a node off when its credentials are verified.",
    ),
    cfg.BoolOpt(
        "poweroff_in_cleanfail",
        default=False,
        help="Power a machine off when its clean has failed, even during a step. It stays on if a "
        "step of its firmware interface has failed, because its BMC may still write. Aborted "
        "cleans leave it on.",
    ),
    cfg.BoolOpt(
        "poweroff_in_servicefail",
        default=False,
        help="The same for service, whose machines hold instances.",
    ),
    cfg.StrOpt(
        "rescue_password_hash_algorithm",
        default="sha256",
        choices=("sha256", "sha512"),
        help="How a rescue password is hashed before the rescue ramdisk gets it.",
    ),
    cfg.BoolOpt(
        "require_rescue_password_hashed",
        default=True,
        help="Keep only the hash of a rescue password. False keeps the password too, until the "
        "rescue ends, for ramdisks that cannot take a hash.",
    ),
    rows.seconds(
        "poll_timeout",
        7 * 24 * 3600,
        "A step, an inspection or a rescue fails when its driver has reported for this many "
        "seconds that the operation continues. Each such report counts as a heartbeat for the "
        "other timeouts, so only this limit ends a wait on a machine that always reports so. 0 "
        "sets no limit.",
    ),
    cfg.MultiOpt(
        "step_deadline",
        item_type=values.StepSeconds(),
        default={},
        sample_default=["deploy.erase_devices:43200"],
        help="Seconds that a step may be under way in all, as interface.step:seconds. A waiting "
        "step fails then, with or without heartbeats; a step that the conductor itself runs is "
        "only reported as overdue. May be given several times.",
    ),
    cfg.IntOpt(
        "automatic_retries",
        default=0,
        min=0,
        max=3,
        help="Retries of a run that the service makes by itself, 1, 5 and 15 minutes after a "
        "failure that may be temporary, such as an unreachable BMC or agent.",
    ),
    rows.seconds(
        "max_conductor_wait_step_seconds",
        30,
        "The longest sleep, in seconds, that a reserved step named wait may ask for.",
    ),
    cfg.BoolOpt(
        "permit_child_node_step_async_result",
        default=False,
        help="Treat a step as done that continues asynchronously on a child node. Its end is "
        "then not checked.",
    ),
)

_WATCH = (
    rows.limit("clean_callback_timeout", "a clean step to end"),
    rows.limit("deploy_callback_timeout", "a deploy step to end"),
    rows.limit("service_callback_timeout", "a service step to end"),
    rows.limit("rescue_callback_timeout", "a rescue to end"),
    rows.limit(
        "inspect_wait_timeout",
        "an inspection to end",
        deprecated_opts=[cfg.DeprecatedOpt("inspect_timeout", group="conductor")],
    ),
    rows.sweep(
        "check_provision_state_interval",
        60,
        "Seconds between two checks of waiting nodes against their limits, of overdue steps, and "
        "of the nodes of dead conductors, which are taken over.",
    ),
    rows.sweep(
        "sync_power_state_interval", 120, "Seconds between two reads of the power state of nodes."
    ),
    cfg.IntOpt(
        "sync_power_state_workers",
        default=64,
        min=1,
        help="Machines whose power state is read at the same time. Half as many more may be "
        "machines that were slow lately, as many silent ones, and as many lost ones.",
    ),
    rows.sweep(
        "power_failure_recovery_interval",
        300,
        "Seconds between two tries of nodes lost to a power failure.",
    ),
    cfg.IntOpt(
        "power_state_sync_max_retries",
        default=3,
        min=0,
        help="Failed power reads in a row after which a node goes into maintenance with the fault "
        "'power failure'.",
    ),
    cfg.BoolOpt(
        "force_power_state_during_sync",
        default=True,
        help="Set the power of a machine back to the state in the database. If false, the "
        "database follows the machine.",
    ),
    rows.seconds(
        "power_state_change_timeout",
        60,
        "Seconds a machine may take to be powered on or off.",
        least=2,
    ),
    rows.seconds(
        "soft_power_off_timeout",
        600,
        "Seconds a machine may take to shut down its operating system.",
        least=1,
    ),
)

_HISTORY = (
    cfg.IntOpt(
        "node_history_max_entries",
        default=300,
        min=0,
        help="History entries kept of each node, with all events since the oldest of them; as "
        "many runs, and twenty times as many other events. 0 keeps everything.",
    ),
    rows.seconds(
        "node_history_minimum_days",
        0,
        "Days for which no history of a node is removed, whatever its size.",
    ),
    rows.seconds(
        "removed_node_history_days",
        90,
        "Days for which the events of a node are kept after it was deleted, and those of a "
        "resource without a node, such as a runbook, after the last one. 0 keeps them.",
    ),
    rows.sweep(
        "node_history_cleanup_interval", 86400, "Seconds between two removals of old history."
    ),
    rows.seconds(
        "node_history_cleanup_batch_count",
        1000,
        "Events removed in one transaction. A removal continues, with pauses for other writers, "
        "until all old events are gone. 0 turns it off.",
    ),
)

_IMAGES = (
    cfg.ListOpt(
        "file_url_allowed_paths",
        default=["/var/lib/ironic-lite/images", "/srv/ironic-lite", "/var/lib/ironic"],
        help="Folders of this machine whose files the fields of a node may name by file:// URLs. "
        "Options may name any file.",
    ),
    cfg.ListOpt(
        "image_blocked_networks",
        default=list(networks.METADATA),
        item_type=values.IPNetwork(),
        help="Networks, as 192.0.2.0/24, from which this service fetches no image, kernel or "
        "ramdisk, and which no inspection rule calls. The default has the addresses of "
        "clouds' metadata services. Add the networks of all services that trust this "
        "machine and, unless images are served on this machine, 0.0.0.0/8, 127.0.0.0/8, "
        "::/128 and ::1/128.",
    ),
    cfg.IntOpt(
        "image_cache_size",
        default=20480,
        min=1,
        deprecated_opts=[cfg.DeprecatedOpt("image_cache_size", group="pxe")],
        help="MiB that fetched kernels, ramdisks and images may take, with running downloads and "
        "the files that machines use; also the size limit of one file. The least recently used "
        "go first, and earlier if the disk is full.",
    ),
    cfg.BoolOpt(
        "use_cached_images_offline",
        default=False,
        help="Use a cached image with the wanted sha256 or sha512 if its server does not answer. "
        "Only for an address without query and login that the image was fetched from before; an "
        "answer such as 403 or 404 always ends the deployment.",
    ),
    cfg.ListOpt(
        "permitted_image_formats",
        default=["raw", "gpt", "qcow2"],
        help="Allowed formats of images, detected by content.",
    ),
    cfg.BoolOpt(
        "disable_deep_image_inspection",
        default=False,
        help="Trust the declared format of images, and skip the detection. The deploying user "
        "writes the image: qcow2 can name files of the machine that reads it.",
    ),
)

_RAMDISKS = (
    *rows.by_arch("deploy_kernel", "the kernel of the ramdisk that cleans and deploys"),
    *rows.by_arch("deploy_ramdisk", "the ramdisk that cleans and deploys"),
    *rows.by_arch("rescue_kernel", "the kernel of the ramdisk that rescues"),
    *rows.by_arch("rescue_ramdisk", "the ramdisk that rescues"),
    *rows.by_arch(
        "bootloader",
        "the image of an EFI system partition that virtual media start kernels from",
    ),
    rows.sweep(
        "batch_interval",
        2,
        "Seconds between two looks at open batches, to start the nodes of this conductor in them.",
    ),
    rows.sweep(
        "sync_local_state_interval",
        180,
        "Seconds between two checks for nodes from another conductor, whose boot files are to be "
        "made here, and for old files of nodes that no longer exist or use them.",
    ),
)

_ERASURES = (
    cfg.StrOpt(
        "clean_level",
        default="clear",
        choices=["clear", "purge"],
        help="Level of erasure of every disk at which the data of a node count as gone.",
    ),
    cfg.BoolOpt(
        "require_clean_data",
        default=False,
        help="Fail automated cleaning that does not prove the erasure of every disk, refuse to "
        "make such a node available, and let allocations pass it by.",
    ),
    cfg.StrOpt(
        "evidence_key_file",
        help="PEM file with the Ed25519 private key that signs erasure records. Unset, records "
        "are not signed. A new key is used from the next start on; public keys are kept. A file "
        "that every user may use is refused: give it mode 0600.",
    ),
)

CONDUCTOR = (*_MEMBERSHIP, *_WORK, *_LIFE, *_WATCH, *_HISTORY, *_IMAGES, *_RAMDISKS, *_ERASURES)
