"""Options of [redfish]: sessions with BMCs, and time limits of their operations."""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_lite.core.options import rows, vocabulary

REDFISH = (
    rows.allowed_networks("BMCs of the hardware type redfish"),
    cfg.StrOpt(
        "ca_folder",
        default="/etc/ironic-lite/ca",
        help="Folder of the PEM files, and folders of such files, that "
        "driver_info/redfish_verify_ca may name, by relative or absolute path.",
    ),
    cfg.StrOpt(
        "kernel_append_params",
        default="nofb vga=normal",
        help="Further kernel parameters of ramdisks that are booted from virtual media. A node's "
        "driver_info/kernel_append_params decides for that node.",
    ),
    cfg.StrOpt(
        "auth_type",
        default="auto",
        choices=[
            ("auto", "session, and basic if the BMC does not support sessions"),
            ("session", "a session of the Redfish session service"),
            ("basic", "user and password with each request"),
        ],
        help="How to log in to BMCs. A node's driver_info/redfish_auth_type decides for that node.",
    ),
    cfg.IntOpt(
        "connection_attempts",
        default=3,
        min=1,
        help="How many times a connection to a BMC is tried before it counts as unreachable.",
    ),
    rows.seconds("connection_retry_interval", 2, "Seconds between two such tries."),
    rows.seconds("connect_timeout", 10, "Seconds connecting to a BMC may take.", least=1),
    rows.seconds("read_timeout", 60, "Seconds a BMC may take to answer a request.", least=1),
    cfg.IntOpt(
        "connection_cache_size",
        default=10000,
        min=0,
        help="Sessions with BMCs kept open, 13 KiB each; 0 opens one for each task. With fewer "
        "sessions than BMCs, some reads of the power state need a login.",
    ),
    rows.seconds(
        "raid_config_status_interval",
        60,
        "Longest pause in seconds between two polls of a task that creates or deletes a volume.",
    ),
    rows.seconds(
        "raid_config_timeout",
        14400,
        "Seconds a step may take to create or delete all its volumes, a restart of the machine "
        "included.",
        least=1,
    ),
    rows.seconds(
        "bmc_silence_timeout",
        900,
        "Seconds a BMC that creates or deletes volumes may give no usable answer: a restarting "
        "BMC takes one to five minutes, and may refuse logins meanwhile.",
        least=1,
    ),
    rows.seconds(
        "bios_config_timeout",
        1800,
        "Seconds a machine that was restarted for BIOS settings may take until it is up and shows "
        "them: it may test all its memory, and boot two or three times.",
        least=1,
    ),
    rows.seconds(
        "bios_config_status_interval",
        15,
        "Seconds between two polls of a machine that was restarted for BIOS settings.",
        least=1,
    ),
    rows.seconds(
        "boot_mode_config_timeout",
        900,
        "Seconds a machine that was restarted for a new boot mode or secure boot may take until "
        "its BMC shows it; 0 does not wait.",
    ),
    rows.seconds(
        "firmware_update_status_interval",
        60,
        "Seconds between two polls of a firmware update.",
        least=1,
    ),
    rows.seconds(
        "firmware_update_overall_timeout",
        7200,
        "Seconds all updates of one step may take together; 0 sets no limit.",
    ),
    rows.seconds(
        "firmware_update_bmc_timeout",
        300,
        "Seconds a BMC may be silent during a firmware update, and after an update of its own may "
        "show the previous version.",
    ),
    rows.seconds(
        "firmware_update_wait_unresponsive_bmc",
        0,
        "Seconds a BMC may be silent during a firmware update, if longer than "
        "firmware_update_bmc_timeout. A node's driver_info/firmware_update_unresponsive_bmc_wait "
        "decides for that node.",
    ),
    rows.seconds(
        "firmware_update_bmc_version_check_interval",
        30,
        "Seconds between two checks for the BMC's new version.",
        least=1,
    ),
    rows.seconds(
        "firmware_update_reboot_delay",
        300,
        "Seconds a machine that was restarted for new firmware may show the previous version.",
    ),
    rows.seconds(
        "firmware_update_unseen_wait",
        1800,
        "Seconds a machine is left alone if its BMC accepted firmware, but shows no task, no "
        "progress and no new version; then see firmware_update_unseen_restart.",
    ),
    cfg.BoolOpt(
        "firmware_update_unseen_restart",
        default=False,
        help="Whether such a machine is restarted after firmware_update_unseen_wait. If the BMC "
        "still writes the firmware, the restart may destroy the machine. Without it the step "
        "fails, and its error says that the firmware may need a restart by hand.",
    ),
    rows.seconds(
        "firmware_update_nic_starting_wait",
        30,
        "Seconds the update of a network card may take to start without a restart; then the "
        "machine is restarted.",
    ),
    cfg.IntOpt(
        "firmware_update_required_successes",
        default=3,
        min=0,
        help="How many times in a row a BMC must answer after a firmware update; 0 does not check.",
    ),
    rows.seconds(
        "firmware_update_validation_interval", 30, "Seconds between two such checks.", least=1
    ),
    rows.seconds(
        "firmware_update_resource_validation_timeout",
        480,
        "Seconds within which a BMC must have given these answers; 0 does not check.",
    ),
    cfg.StrOpt(
        "default_inspection_hooks",  # a text, as [inspector]default_hooks
        default="validate-interfaces,ports,architecture",
        help="The value of $default_inspection_hooks in inspection_hooks.",
    ),
    cfg.Opt(
        "inspection_hooks",
        type=types.List(types.String(choices=vocabulary.HOOKS)),
        default="$default_inspection_hooks",
        help="Hooks that the inspect interface redfish runs on the inventory, in this order. "
        "Hooks that they require are added.",
    ),
)
