"""Options of drivers: netboot, ipmitool and its consoles, Redfish, simulated machines."""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_lite.core.options.declare import (
    Group,
    PortRange,
    ciphers,
    contacts,
    hook_names,
    items,
    mapping,
    number,
    option,
    repeated,
    seconds,
    switch,
    text,
)


def _by_arch(name: str, example: str) -> dict[str, str]:
    return mapping(
        {},
        "The same by properties/cpu_arch, or by that and the boot mode (aarch64, x86_64-bios); "
        f"the name with the boot mode comes first, and both before {name} and uefi_{name}.",
        sample_default={"aarch64": example},
    )


class PxeOptions(Group):
    """Options of [pxe]: booting over the network."""

    kernel_append_params: str = text(
        "nofb vga=normal",
        "Further kernel parameters of ramdisks that are booted over the network. A node's "
        "driver_info/kernel_append_params decides for that node.",
        old=[("pxe", "pxe_append_params")],
    )
    tftp_root: str = text("/tftpboot", "Folder of the files that machines fetch by TFTP.")
    tftp_server: str | None = option(
        cfg.HostAddressOpt,
        None,
        "Address of the TFTP server. Unset, [DEFAULT]my_ip, or the host of [deploy]http_url.",
        sample_default="192.0.2.10",
    )
    ipxe_bootfile_name: str = text(
        "undionly.kpxe", "iPXE for machines in BIOS mode, a file in tftp_root."
    )
    uefi_ipxe_bootfile_name: str = text(
        "snponly.efi", "iPXE for machines in UEFI mode, a file in tftp_root."
    )
    ipxe_bootfile_name_by_arch: dict[str, str] = _by_arch("ipxe_bootfile_name", "ipxe-arm64.efi")
    pxe_bootfile_name: str = text(
        "pxelinux.0", "Loader for machines in BIOS mode without iPXE, a file in tftp_root."
    )
    uefi_pxe_bootfile_name: str = text(
        "bootx64.efi", "Loader for machines in UEFI mode without iPXE, a file in tftp_root."
    )
    pxe_bootfile_name_by_arch: dict[str, str] = _by_arch("pxe_bootfile_name", "grubaa64.efi")
    boot_retry_timeout: int | None = number(
        None,
        "Seconds without a lookup of its ramdisk after which a machine that boots over the network "
        "is switched off and on, at most ten times in a wait. It should be below the time-outs of "
        "waits, such as [conductor]deploy_callback_timeout. Unset, machines are not restarted.",
        min=60,
        sample_default=1200,
    )
    boot_retry_check_interval: int = seconds(
        90, "Seconds between two looks for such machines.", least=1
    )
    loader_file_paths: dict[str, str] = mapping(
        {},
        "Loaders that a conductor copies at its start into http_root, and into tftp_root if ipxe "
        "or pxe is enabled: file name there, and path of the source.",
        sample_default={"snponly.efi": "/usr/lib/ipxe/snponly.efi"},
    )
    ipxe_fallback_script: str | None = text(
        None,
        "iPXE script for machines without a script of their own: a file in http_root, or a URL. A "
        "deployed machine then keeps a script that boots its disk.",
        sample_default="inspector.ipxe",
        regex=r"^[!-~]*$",
    )
    enable_netboot_fallback: bool = switch(
        False,
        "Let a deployed machine keep boot files that boot its disk, for machines that try the "
        "network first at each start.",
    )
    ipxe_timeout: int = seconds(
        0, "Seconds for which iPXE waits for data of kernel and ramdisk; 0 is its own limit."
    )
    default_ephemeral_format: str = text(
        "ext4",
        "File system of the partition for temporary data of partition images, unless "
        "instance_info/ephemeral_format names another.",
    )


class DhcpOptions(Group):
    """Options of [dhcp]."""

    dhcp_provider: str = text(
        "none",
        "The DHCP server that tells machines what to boot.",
        choices=[
            ("none", "a DHCP server that gives every machine the same loader"),
            (
                "dnsmasq",
                "files for dnsmasq, one per card: it answers only machines of this service",
            ),
        ],
    )


class DnsmasqOptions(Group):
    """Options of [dnsmasq]."""

    dhcp_hostsdir: str = text(
        "/etc/dnsmasq.d/hostsdir.d", "The folder of dnsmasq's option dhcp-hostsdir."
    )
    dhcp_optsdir: str = text(
        "/etc/dnsmasq.d/optsdir.d", "The folder of dnsmasq's option dhcp-optsdir."
    )


class FakeOptions(Group):
    """Options of [fake]: simulated machines."""

    step_seconds: float = option(
        cfg.FloatOpt,
        0,
        "Seconds a step takes on fake-hardware. A node's driver_info/fake_step_seconds decides for "
        "that node.",
        min=0,
    )


class IpmiOptions(Group):
    """Options of [ipmi]: ipmitool."""

    allowed_networks: list[str] = contacts("BMCs of the hardware type ipmi")
    command_retry_timeout: int = seconds(
        60,
        "Seconds a command to a BMC may take, with all its retries; then ipmitool is killed.",
        least=5,
    )
    min_command_interval: int = seconds(
        5,
        "Seconds without commands to a BMC that reported to be busy. Successful commands follow "
        "each other at once.",
        least=1,
    )
    max_processes: int = number(
        64,
        "Processes of ipmitool a conductor runs at once. A silent BMC keeps one busy for 12 "
        "seconds.",
        min=1,
    )
    disable_boot_timeout: bool = switch(
        True,
        "Tell BMCs to keep a boot device for longer than the minute of IPMI. A node's "
        "driver_info/ipmi_disable_boot_timeout decides for that node.",
    )
    cipher_suite_versions: list[int] = items(
        [],
        "Cipher suites to try on nodes without driver_info/ipmi_cipher_suite, the last one first. "
        "Unset, ipmitool asks the BMC for its best, and 17 and 3 are tried where that one opens no "
        "session.",
        item_type=types.Integer(min=0, max=17),
        sample_default=["3", "17"],
    )
    additional_retryable_ipmi_errors: list[str] = items(
        [], "Further error texts of ipmitool after which a command is sent again."
    )


class ConsoleOptions(Group):
    """Options of [console]: serial consoles of ipmitool."""

    socat_address: str = option(
        cfg.IPOpt,
        "127.0.0.1",
        "IP address of this conductor's machine at which consoles are reached by TCP. Consoles ask "
        "for no password: leave it on loopback, or on a network whose every host may see every "
        "console.",
    )
    port_range: list[range] | None = repeated(
        PortRange(),
        "TCP ports, first:last, for consoles of nodes without driver_info/ipmi_terminal_port. May "
        "be given several times. Unset, those nodes have no console.",
        sample_default=["10000:19999"],
    )
    terminal_timeout: int = seconds(
        600,
        "Seconds without a byte in either direction after which a console's connection is closed; "
        "0 never closes it.",
    )
    subprocess_timeout: int = seconds(
        10, "Seconds a console's program may take to listen; then it is killed.", least=1
    )
    subprocess_checking_interval: int = seconds(
        1,
        "Seconds between two checks that the programs of consoles run, and for conductors that "
        "joined or left.",
        least=1,
    )


class DracOptions(Group):
    """Options of [drac]: time limits of jobs of Dell machines (hardware type idrac)."""

    boot_device_job_status_timeout: int = seconds(
        30,
        "Seconds an iDRAC may take to make its virtual drive the boot device, where that is a job.",
        least=1,
    )
    raid_job_timeout: int = seconds(
        300,
        "Seconds an iDRAC may take to convert disks to RAID mode, or to clear foreign "
        "configurations.",
        least=1,
    )


class RedfishOptions(Group):
    """Options of [redfish]: sessions with BMCs, and time limits of their operations."""

    allowed_networks: list[str] = contacts("BMCs of the hardware type redfish")
    ca_folder: str = text(
        "/etc/ironic-lite/ca",
        "Folder of the PEM files, and folders of such files, that driver_info/redfish_verify_ca "
        "may name, by relative or absolute path.",
    )
    verify_ca: str | None = text(
        None,
        "PEM file, or folder of such files, with the authorities of BMCs whose nodes have no "
        "driver_info/redfish_verify_ca, or true there. Any folder will do. Unset, public ones.",
    )
    tls_minimum_version: str | None = text(
        None,
        "The oldest TLS version accepted from BMCs. Unset, 1.2. A node's "
        "driver_info/redfish_tls_minimum_version decides for that node.",
        choices=["1.1", "1.2", "1.3"],
    )
    tls_ciphers: str | None = ciphers("BMCs without driver_info/redfish_tls_ciphers")
    kernel_append_params: str = text(
        "nofb vga=normal",
        "Further kernel parameters of ramdisks that are booted from virtual media. A node's "
        "driver_info/kernel_append_params decides for that node.",
    )
    auth_type: str = text(
        "auto",
        "How to log in to BMCs. A node's driver_info/redfish_auth_type decides for that node.",
        choices=[
            ("auto", "session, and basic if the BMC does not support sessions"),
            ("session", "a session of the Redfish session service"),
            ("basic", "user and password with each request"),
        ],
    )
    keep_connections: bool = switch(
        True,
        "Keep the connection to a BMC for 4 seconds after its last use. Off, each request has one "
        "of its own. A node's driver_info/redfish_keep_connections decides for that node.",
    )
    connection_attempts: int = number(
        3, "How many times a connection to a BMC is tried before it counts as unreachable.", min=1
    )
    connection_retry_interval: int = seconds(2, "Seconds between two such tries.")
    connect_timeout: int = seconds(10, "Seconds connecting to a BMC may take.", least=1)
    read_timeout: int = seconds(60, "Seconds a BMC may take to answer a request.", least=1)
    connection_cache_size: int = number(
        10000,
        "Sessions with BMCs kept open, 13 KiB each; 0 opens one for each task. With fewer sessions "
        "than BMCs, some reads of the power state need a login.",
        min=0,
    )
    enable_verify_bmc_clock: bool = switch(
        False,
        "Set the clock of a BMC when its machine is verified, if it is wrong by more than a "
        "second. Certificates and logs of the BMC need the right time.",
    )
    raid_config_status_interval: int = seconds(
        60, "Longest pause in seconds between two polls of a task that creates or deletes a volume."
    )
    raid_config_timeout: int = seconds(
        14400,
        "Seconds a step may take to create or delete all its volumes, a restart of the machine "
        "included.",
        least=1,
    )
    bmc_silence_timeout: int = seconds(
        900,
        "Seconds a BMC that creates or deletes volumes may give no usable answer: a restarting BMC "
        "takes one to five minutes, and may refuse logins meanwhile.",
        least=1,
    )
    bios_config_timeout: int = seconds(
        1800,
        "Seconds a machine that was restarted for BIOS settings may take until it is up and shows "
        "them: it may test all its memory, and boot two or three times.",
        least=1,
    )
    bios_config_status_interval: int = seconds(
        15, "Seconds between two polls of a machine that was restarted for BIOS settings.", least=1
    )
    boot_mode_config_timeout: int = seconds(
        900,
        "Seconds a machine that was restarted for a new boot mode or secure boot may take until "
        "its BMC shows it; 0 does not wait.",
    )
    firmware_update_status_interval: int = seconds(
        60, "Seconds between two polls of a firmware update.", least=1
    )
    firmware_update_overall_timeout: int = seconds(
        7200, "Seconds all updates of one step may take together; 0 sets no limit."
    )
    firmware_update_bmc_timeout: int = seconds(
        300,
        "Seconds a BMC may be silent during a firmware update, and after an update of its own may "
        "show the previous version.",
    )
    firmware_update_wait_unresponsive_bmc: int = seconds(
        0,
        "Seconds a BMC may be silent during a firmware update, if longer than "
        "firmware_update_bmc_timeout. A node's driver_info/firmware_update_unresponsive_bmc_wait "
        "decides for that node.",
    )
    firmware_update_bmc_version_check_interval: int = seconds(
        30, "Seconds between two checks for the BMC's new version.", least=1
    )
    firmware_update_reboot_delay: int = seconds(
        300, "Seconds a machine that was restarted for new firmware may show the previous version."
    )
    firmware_update_unseen_wait: int = seconds(
        1800,
        "Seconds a machine is left alone if its BMC accepted firmware, but shows no task, no "
        "progress and no new version; then see firmware_update_unseen_restart.",
    )
    firmware_update_unseen_restart: bool = switch(
        False,
        "Whether such a machine is restarted after firmware_update_unseen_wait. If the BMC still "
        "writes the firmware, the restart may destroy the machine. Without it the step fails, and "
        "its error says that the firmware may need a restart by hand.",
    )
    firmware_update_nic_starting_wait: int = seconds(
        30,
        "Seconds the update of a network card may take to start without a restart; then the "
        "machine is restarted.",
    )
    firmware_update_required_successes: int = number(
        3,
        "How many times in a row a BMC must answer after a firmware update; 0 does not check.",
        min=0,
    )
    firmware_update_validation_interval: int = seconds(
        30, "Seconds between two such checks.", least=1
    )
    firmware_update_resource_validation_timeout: int = seconds(
        480, "Seconds within which a BMC must have given these answers; 0 does not check."
    )
    # A text, as [inspector]default_hooks.
    default_inspection_hooks: str = text(
        "validate-interfaces,ports,architecture",
        "The value of $default_inspection_hooks in inspection_hooks.",
    )
    inspection_hooks: list[str] = hook_names(
        "$default_inspection_hooks",
        "Hooks that the inspect interface redfish runs on the inventory, in this order. Hooks that "
        "they require are added.",
    )
