"""Options of [conductor], by what they are about; `CONDUCTOR` joins them."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.options import rows, values

_MEMBERSHIP = (
    cfg.StrOpt(
        "conductor_group",
        default="",
        max_length=255,
        regex=r"^[A-Za-z0-9._-]*$",
        help="This conductor drives only nodes whose conductor_group field says the same; upper "
        "and lower case are one.",
    ),
    rows.seconds("heartbeat_interval", 10, "Seconds between two signs of life.", least=1),
    rows.seconds(
        "heartbeat_timeout",
        60,
        "Seconds after its last sign of life at which a conductor counts as dead: others take "
        "its nodes over and its locks run out.",
        least=2,
    ),
    rows.seconds(
        "hash_ring_reset_interval",
        15,
        "Seconds after which the share of nodes among conductors is read anew.",
    ),
    rows.seconds(
        "graceful_shutdown_timeout",
        60,
        "Seconds a stopping conductor waits for its running work. 0 waits for ever.",
    ),
    rows.seconds(
        "drain_shutdown_timeout",
        1800,
        "The same where SIGUSR2 asks for the stop, as before the maintenance of a machine.",
    ),
)

_WORK = (
    cfg.IntOpt(
        "workers_pool_size",
        default=100,
        min=4,
        help="Threads that work on nodes. Beyond that, requests get 503.",
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
        "periodic_max_workers",
        default=8,
        min=1,
        help="Threads one periodic sweep may use at once.",
    ),
    cfg.IntOpt(
        "max_concurrent_deploy",
        default=250,
        min=1,
        help="Nodes deploying at once, in all conductors together. Beyond that, requests get 503.",
    ),
    cfg.IntOpt(
        "max_concurrent_clean",
        default=50,
        min=1,
        help="Nodes cleaning or being deleted at once, in all conductors together. Beyond that, "
        "requests get 503.",
    ),
    cfg.IntOpt(
        "node_locked_retry_attempts",
        default=3,
        min=0,
        help="How often a locked node is tried again before a request gets 409.",
    ),
    rows.seconds("node_locked_retry_interval", 1, "Seconds between two such tries."),
)

_LIFE = (
    cfg.BoolOpt(
        "automated_clean_enable",
        default=True,
        deprecated_opts=[
            cfg.DeprecatedOpt("automated_clean", group="conductor"),
            cfg.DeprecatedOpt("clean_nodes", group="conductor"),
        ],
        help="Clean nodes by themselves before they become available. A node's automated_clean "
        "field, if set, decides for that node.",
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
        help="Let nodes in maintenance be provided and cleaned, and go on with what they were "
        "doing. False refuses that, and a clean, deployment, service or rescue whose node enters "
        "maintenance fails at the next heartbeat or poll; a step that must not be cut short ends "
        "first.",
    ),
    cfg.BoolOpt(
        "allow_deleting_available_nodes",
        default=True,
        help="Let a node be removed while it is available.",
    ),
    cfg.BoolOpt(
        "power_off_after_verify",
        default=False,
        help="Power a node off when its credentials are verified.",
    ),
    cfg.BoolOpt(
        "poweroff_in_cleanfail",
        default=False,
        help="Power a machine off when its clean has failed, whatever it was in the middle of: one "
        "that was writing firmware may not start again. Aborted cleans leave it on.",
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
        "A step, an inspection or a rescue fails when its driver has answered for this many "
        "seconds that it goes on. Each such answer counts as a sign of life for the other "
        "time-outs, so this is what ends a wait on a machine that says so for ever. 0 waits on.",
    ),
    rows.seconds(
        "max_conductor_wait_step_seconds",
        30,
        "The longest sleep, in seconds, that a reserved step named wait may ask for.",
    ),
    cfg.BoolOpt(
        "permit_child_node_step_async_result",
        default=False,
        help="Take a step that goes on by itself on a child node for done. Nobody then looks "
        "whether it ends well.",
    ),
)

_WATCH = (
    rows.limit("clean_callback_timeout", "a clean step to end"),
    rows.limit("deploy_callback_timeout", "a deploy step to end"),
    rows.limit("service_callback_timeout", "a service step to end"),
    rows.limit("rescue_callback_timeout", "a rescue to end"),
    rows.limit("inspect_wait_timeout", "an inspection to end"),
    rows.sweep(
        "check_provision_state_interval",
        60,
        "How often waiting nodes are checked against their limits, and nodes of dead conductors "
        "are taken over.",
    ),
    rows.sweep("sync_power_state_interval", 120, "How often the power state of nodes is read."),
    cfg.IntOpt(
        "sync_power_state_workers",
        default=64,
        min=1,
        help="Machines whose power state is read at the same time. Half as many more may be those "
        "that were silent or slow lately, and as many again those that are lost.",
    ),
    rows.sweep(
        "power_failure_recovery_interval",
        300,
        "How often nodes lost to a power failure are tried again.",
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
        help="Set the power of a machine back to what the database says. If false, the database "
        "follows the machine.",
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
        "Seconds a machine may take to shut its system down.",
        least=1,
    ),
)

_HISTORY = (
    cfg.IntOpt(
        "node_history_max_entries",
        default=300,
        min=0,
        help="Entries of history kept of each node, with all events since the oldest of them; as "
        "many runs, and twenty times as many other events. 0 keeps everything.",
    ),
    rows.seconds(
        "node_history_minimum_days",
        0,
        "Days for which nothing of a node's history is removed, however much it is.",
    ),
    rows.seconds(
        "removed_node_history_days",
        90,
        "Days for which the events of a node are kept after it has been removed. 0 keeps them.",
    ),
    rows.sweep("node_history_cleanup_interval", 86400, "How often old history is removed."),
    rows.seconds(
        "node_history_cleanup_batch_count",
        1000,
        "Events removed in one transaction. A clean-up goes on, with pauses in which others write, "
        "until all that is too old is gone. 0 turns it off.",
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
        default=["169.254.0.0/16", "fe80::/10"],
        help="Networks, as 192.0.2.0/24, from which this service fetches nothing, whatever a node "
        "says: those of your clouds' metadata services, and of what else trusts this machine.",
    ),
    cfg.IntOpt(
        "image_cache_size",
        default=20480,
        min=1,
        help="MiB that fetched kernels, ramdisks and images may take; also the largest one that is "
        "fetched. What was used longest ago goes first.",
    ),
    cfg.ListOpt(
        "permitted_image_formats",
        default=["raw", "gpt", "qcow2"],
        help="What an image may be, as its content says.",
    ),
    cfg.BoolOpt(
        "disable_deep_image_inspection",
        default=False,
        help="Believe what is said of images, and do not look into them. An image is written by "
        "whoever deploys it: qcow2 can name files of the machine that reads it.",
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
        "sync_local_state_interval",
        180,
        "How often nodes that came from another conductor are looked for, whose boot files are to "
        "be made here; and old files of nodes that are no more, or do not mean them any more.",
    ),
)

CONDUCTOR = (*_MEMBERSHIP, *_WORK, *_LIFE, *_WATCH, *_HISTORY, *_IMAGES, *_RAMDISKS)
