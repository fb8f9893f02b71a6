"""Options of the work that ramdisks do: deployment, agents, inspection."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.core.options.declare import (
    Group,
    PciAlias,
    PhysicalNetwork,
    Subnet,
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
    url,
)


def _priority(step: str) -> int | None:
    return number(
        None,
        f"Priority of the clean step {step} in automated cleaning; 0 leaves it out. Unset, the "
        "driver decides.",
        min=0,
    )


class DeployOptions(Group):
    """Options of [deploy]: erasure, boot, files that machines fetch."""

    fast_track: bool = switch(
        False,
        "Let ramdisks keep running between two verbs, and use a running one instead of a reboot to "
        "clean, deploy and inspect. A node's driver_info/fast_track decides for that node.",
    )
    fast_track_timeout: int = seconds(
        300, "Seconds after its last heartbeat for which an agent counts as running.", least=1
    )
    power_off_after_deploy_failure: bool = switch(
        True,
        "Power a machine off when its deployment has failed or was aborted, after the logs of its "
        "ramdisk were kept. A node's disable_power_off takes precedence, and a machine stays on if "
        "a step of its firmware interface has failed, because its BMC may still write.",
    )
    erase_devices_priority: int | None = _priority("deploy.erase_devices")
    erase_devices_metadata_priority: int | None = _priority("deploy.erase_devices_metadata")
    create_configuration_priority: int | None = _priority("raid.create_configuration")
    delete_configuration_priority: int | None = _priority("raid.delete_configuration")
    shred_random_overwrite_iterations: int = number(
        1, "How many times a disk without an erase command is overwritten with random data.", min=0
    )
    shred_final_overwrite_with_zeros: bool = switch(
        True, "Overwrite such a disk with zeros at the end."
    )
    continue_if_disk_secure_erase_fails: bool = switch(
        False, "Overwrite a disk whose erase command has failed, instead of failing the step."
    )
    enable_ata_secure_erase: bool = switch(True, "Use the erase command of ATA disks.")
    enable_nvme_secure_erase: bool = switch(True, "Use the erase command of NVMe disks.")
    erase_method: str = text(
        "clear",
        "Preferred level of erasure. With purge, a ramdisk with the hardware manager "
        "ironic-lite-evidence uses the sanitize command of disks that have one. Other ramdisks "
        "ignore this option.",
        choices=["clear", "purge"],
    )
    disk_erasure_concurrency: int = number(
        4, "How many disks of a machine are erased at once.", min=1
    )
    erase_skip_read_only: bool = switch(False, "Skip read-only disks, instead of failing the step.")
    default_boot_mode: str = text(
        "uefi",
        "Boot mode of machines without boot_mode in their capabilities.",
        choices=["bios", "uefi"],
    )
    http_root: str | None = text(
        None,
        "Folder of the files that machines and BMCs fetch by HTTP. Unset, http in state_path. A "
        "web server other than the conductor's own must be able to read it.",
        sample_default="/var/lib/ironic-lite/http",
    )
    http_url: str | None = url(
        "URL of http_root for machines and BMCs. Unset, http_host and http_port.",
        sample_default="http://192.0.2.10:8080",
    )
    external_http_url: str | None = url(
        "URL of http_root for BMCs, if it is not http_url. A node's driver_info/external_http_url "
        "decides for that node."
    )
    external_callback_url: str | None = url(
        "URL of the API for agents that boot from virtual media or by redfish-https, if they do "
        "not reach [service_catalog]endpoint_override.",
        sample_default="https://metal.example.org:6385",
    )
    http_port: int | None = option(
        cfg.PortOpt,
        None,
        "Port on which the conductor serves http_root. Unset, another web server must serve it.",
    )
    http_host: str = option(
        cfg.HostAddressOpt,
        "127.0.0.1",
        "Address of this server. Boot media hold the secrets of the ramdisks booted from them: use "
        "an address in the network of BMCs and machines, which no other client can reach.",
    )
    http_ssl_cert_file: str | None = text(
        None,
        "PEM file with the certificate chain of this server; with http_ssl_key_file the files are "
        "served by https only. BMCs and agents must trust it.",
    )
    http_ssl_key_file: str | None = text(
        None, "PEM file with the private key of http_ssl_cert_file."
    )
    http_connections: int = number(
        400,
        "Connections that are served at once, with two open files each. A further connection "
        "replaces one without a request; without such a connection, it is closed.",
        min=1,
    )
    image_server_auth_strategy: str = text(
        "noauth",
        "Login at the http and https servers of images: http_basic sends image_server_user and "
        "image_server_password. A login in the URL of an image goes before it.",
        choices=["noauth", "http_basic"],
    )
    image_server_user: str | None = text(None, "User for http_basic.")
    image_server_password: str | None = text(None, "Password for http_basic.", secret=True)
    image_server_auth_hosts: list[str] = items(
        [],
        "Hosts that get this login: names, addresses, or .example.org for all hosts below it. "
        "Callers who may deploy a node name the server of its image, and could read the login.",
        sample_default=["images.example.org", ".example.net"],
    )
    image_server_auth_permit_unknown_hosts: bool = switch(
        False,
        "Send this login to every server of images, as Ironic does. Any tenant can then read it.",
    )
    ramdisk_image_download_source: str = text(
        "http",
        "Which side fetches the ISO images of virtual media (boot_iso, deploy_iso, rescue_iso): "
        "http for the BMC itself, local for the conductor, which serves them from http_root. "
        "ramdisk_image_download_source of instance_info decides for its boot_iso.",
        choices=["http", "local"],
    )
    iso_cache_size: int = number(
        20480,
        "MiB of the boot media that nodes' media are made from; one is kept for each kernel, "
        "ramdisk and bootloader. The least recently used go first.",
        min=0,
    )


class OciOptions(Group):
    """Options of [oci]: registries of images with oci:// addresses."""

    authentication_config: str | None = text(
        None,
        "File with logins of registries, in the form of Docker's config.json. It is read at each "
        "use. A login of the node goes before it.",
        sample_default="/etc/ironic-lite/oci.json",
    )
    permit_fallback_to_http_transport: bool = switch(
        False,
        "Use plain http for registries that speak no TLS. Logins and images can then be read and "
        "changed on their way. A certificate that fails is never ignored.",
    )
    secure_cdn_registries: list[str] = items(
        ["registry.redhat.io", "registry.access.redhat.com", "docker.io", "registry-1.docker.io"],
        "Hosts, with all hosts below them, to which a redirection of a registry carries the token.",
    )
    verify_ca: str | None = text(
        None,
        "Trusted certificates of registries, as webserver_verify_ca of [DEFAULT], which is used "
        "if this is unset.",
    )


class ServiceCatalogOptions(Group):
    """Options of [service_catalog]."""

    endpoint_override: str | None = url(
        "URL of the API for the agents in ramdisks. Unset, [api]public_endpoint.",
        sample_default="http://192.0.2.10:6385",
    )


class AgentOptions(Group):
    """Options of [agent]: communication with the agents in ramdisks."""

    allowed_networks: list[str] = contacts("the agents of ramdisks")
    require_tls: bool = switch(True, "Refuse heartbeats of agents whose callback URL is not https.")
    tls_minimum_version: str = text(
        "1.3", "The oldest TLS version accepted from agents.", choices=["1.2", "1.3"]
    )
    tls_ciphers: str | None = ciphers("agents")
    command_timeout: int = seconds(60, "Seconds an agent may take to answer a request.", least=1)
    max_command_attempts: int = number(
        3, "How many times a request to a silent agent is sent.", min=1, max=100
    )
    image_download_source: str = text(
        "http",
        "Which side fetches the images of instances: http for the machine's agent, local for the "
        "conductor, which serves them from [deploy]http_root. image_download_source of "
        "instance_info or driver_info decides for a node; images of file:// are always served.",
        choices=["http", "local"],
    )
    stream_raw_images: bool = switch(
        True,
        "Let agents write raw images to disk while they download them, instead of keeping them in "
        "memory.",
    )
    allow_md5_checksum: bool = switch(False, "Accept md5 checksums of images, which can be forged.")
    api_ca_file: str | None = text(
        None,
        "PEM file of authorities. Agents trust only these for https to the API and to image "
        "servers.",
    )
    enable_bios_bootloader_install: bool = switch(
        False,
        "Accept partition images, and let agents make them bootable. An agent runs the image's own "
        "grub-install for that, unless it finds an EFI boot loader in it: the author of the image "
        "may run programs in the ramdisk (CVE-2026-43003). Whole-disk images need none of this.",
    )
    deploy_logs_collect: str = text(
        "on_failure",
        "When the logs of a ramdisk are fetched and kept: at the end of each cleaning, deployment "
        "and servicing (always), if it fails (on_failure), or never.",
        choices=["always", "on_failure", "never"],
    )
    deploy_logs_storage_backend: str = text(
        "local",
        "Where the logs are kept: local is deploy_logs_local_path of the conductor.",
        choices=["local"],
    )
    deploy_logs_local_path: str | None = text(
        None,
        "The folder for the logs; unset, agent-logs in state_path. The operator removes old ones: "
        "see docs/agent.",
    )


class InspectorOptions(Group):
    """Options of [inspector]."""

    add_ports: str = text(
        "pxe",
        "Network cards of an inspection that become ports of the node, by the hook ports.",
        choices=[
            ("all", "all network cards of the inventory"),
            ("active", "those with an IP address"),
            ("pxe", "the card that the machine has booted from; all if it is unknown"),
            ("disabled", "none"),
        ],
    )
    keep_ports: str = text(
        "all",
        "Ports of the node that stay in an inspection, by the hook ports. Ports that an instance "
        "uses always stay.",
        choices=[
            ("all", "all ports"),
            ("present", "those with a network card in the inventory"),
            ("added", "those with a network card that add_ports chooses"),
        ],
    )
    update_pxe_enabled: bool = switch(
        True,
        "Set pxe_enabled of the node's ports by the card that the machine has booted from, if it "
        "is known, by the hook ports.",
    )
    # A text, because $default_hooks of a list would have brackets and quotes.
    default_hooks: str = text(
        "ramdisk-error,validate-interfaces,ports,architecture",
        "The value of $default_hooks in hooks.",
    )
    hooks: list[str] = hook_names(
        "$default_hooks",
        "Hooks that the inspect interface agent runs on the inventory, in this order. Hooks that "
        "they require are added.",
    )
    pre_create_ports: bool = switch(
        True,
        "Add the network cards that the BMC reports as ports before a ramdisk inspects a machine "
        "whose node has no port.",
    )
    force_dhcp: bool = switch(
        False,
        "Let ramdisks that inspect use DHCP on all network cards: their media carry no "
        "network_data of the node, and they collect LLDP data.",
    )
    require_managed_boot: bool = switch(
        True,
        "Inspect only machines that the service can boot. False: a machine whose boot interface "
        "lacks a port with pxe_enabled or another setting is told to boot from the network once, "
        "where the site's own DHCP server must give it a ramdisk.",
    )
    extra_kernel_params: str = text(
        "",
        "Further kernel parameters of ramdisks that inspect, as name=value with blanks between "
        "them.",
        sample_default="ipa-inspection-collectors=default,lldp,pci-devices,logs",
    )
    disk_partitioning_spacing: bool = switch(
        True, "Leave 1 GiB of the disk out of local_gb, for partitions, by the hook root-device."
    )
    cpu_capabilities: dict[str, str] = mapping(
        {
            "vmx": "cpu_vt",
            "svm": "cpu_vt",
            "aes": "cpu_aes",
            "pse": "cpu_hugepages",
            "pdpe1gb": "cpu_hugepages_1g",
            "smx": "cpu_txt",
        },
        "Capabilities that the hook cpu-capabilities gives nodes, by flags of their processor.",
    )
    known_accelerators: str | None = text(
        None,
        "YAML file with the devices of the hook accelerators: a list pci_devices, whose entries "
        "have vendor_id, device_id and further keys. Unset, six GPUs of NVIDIA.",
    )
    extra_hardware_strict: bool = switch(
        False,
        "Let the hook extra-hardware drop all data of a machine if one of its entries does not "
        "have four parts.",
    )
    physical_network_cidr_map: list[tuple[Subnet, str]] = items(
        [],
        "Physical networks that the hook physical-network gives ports, by the address of their "
        "card: the first subnet that fits.",
        item_type=PhysicalNetwork(),
        sample_default=["192.0.2.0/24:net_a", "2001:db8::/64:net_b"],
    )
    power_off: bool = switch(
        True,
        "Power machines off after an inspection by an agent. No effect on machines whose power "
        "must stay on.",
    )


class AutoDiscoveryOptions(Group):
    """Options of [auto_discovery]."""

    enabled: bool = switch(
        False,
        "Enroll a machine whose ramdisk reports without being expected, and which no node has. Any "
        "host that reaches the API can send such a report.",
    )
    driver: str | None = text(None, "Driver of these nodes.")
    most_per_hour: int = number(
        200, "Machines that are enrolled within an hour, by all API processes together.", min=1
    )
    most_waiting: int = number(
        1000, "Enrolled machines that may be in enroll at once; then no more are enrolled.", min=1
    )


class AgentContainersOptions(Group):
    """Options of [agent_containers]: containers that steps of an agent may run."""

    allow_arbitrary_containers: bool = switch(
        False, "Let steps name any container; else only those of allowed_containers."
    )
    allowed_containers: list[str] = items([], "Images of containers that steps may name.")
    container_steps_file: str = text(
        "/etc/ironic-python-agent.d/mysteps.yaml",
        "File of the ramdisk with steps that run in containers.",
    )
    runner: str = text(
        "podman", "Program of the ramdisk that runs containers.", choices=["podman", "docker"]
    )
    pull_options: list[str] = items([], "Options of the runner when it pulls an image.")
    run_options: list[str] = items(
        ["--rm", "--network=host"], "Options of the runner when it starts a container."
    )


class InspectionRulesOptions(Group):
    """Options of [inspection_rules]."""

    built_in_rules: str | None = text(
        None,
        "YAML file with a list of inspection rules in addition to those made by requests; the API "
        "does not show them. Read again when it has changed.",
    )
    mask_secrets: str = text(
        "sensitive",
        "Inspection rules that see passwords and other secrets of node and inventory; the others "
        "see ******.",
        choices=[
            ("always", "no rule sees secrets"),
            ("sensitive", "rules that are sensitive see them"),
            ("never", "all rules see them"),
        ],
    )


class PciDevicesOptions(Group):
    """Options of [pci_devices]."""

    alias: list[tuple[tuple[str, str], str]] | None = repeated(
        PciAlias(),
        "A capability that the hook pci-devices gives nodes: the number of these devices. May be "
        "given several times.",
        sample_default=['{"vendor_id": "10de", "product_id": "2330", "name": "h100"}'],
        old=[("inspector", "pci_device_alias")],
    )
