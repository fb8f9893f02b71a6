"""Options of [ipmi] and [console]: ipmitool and its serial consoles."""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_lite.core.options import rows, values

IPMI = (
    rows.allowed_networks("BMCs of the hardware type ipmi"),
    rows.seconds(
        "command_retry_timeout",
        60,
        "Seconds a command to a BMC may take, with all its retries; then ipmitool is killed.",
        least=5,
    ),
    rows.seconds(
        "min_command_interval",
        5,
        "Seconds without commands to a BMC that reported to be busy. Successful commands follow "
        "each other at once.",
        least=1,
    ),
    cfg.IntOpt(
        "max_processes",
        default=64,
        min=1,
        help="Processes of ipmitool a conductor runs at once. A silent BMC keeps one busy for 12 "
        "seconds.",
    ),
    cfg.BoolOpt(
        "disable_boot_timeout",
        default=True,
        help="Tell BMCs to keep a boot device for longer than the minute of IPMI. A node's "
        "driver_info/ipmi_disable_boot_timeout decides for that node.",
    ),
    cfg.ListOpt(
        "cipher_suite_versions",
        default=[],
        item_type=types.Integer(min=0, max=17),
        sample_default=["3", "17"],
        help="Cipher suites to try on nodes without driver_info/ipmi_cipher_suite, the last one "
        "first. Unset, ipmitool asks the BMC for its best, and 17 and 3 are tried where that one "
        "opens no session.",
    ),
    cfg.ListOpt(
        "additional_retryable_ipmi_errors",
        default=[],
        help="Further error texts of ipmitool after which a command is sent again.",
    ),
)

CONSOLE = (
    cfg.IPOpt(
        "socat_address",
        default="127.0.0.1",
        help="IP address of this conductor's machine at which consoles are reached by TCP. "
        "Consoles ask for no password: leave it on loopback, or on a network whose every "
        "host may see every console.",
    ),
    cfg.MultiOpt(
        "port_range",
        item_type=values.PortRange(),
        sample_default=["10000:19999"],
        help="TCP ports, first:last, for consoles of nodes without "
        "driver_info/ipmi_terminal_port. May be given several times. Unset, those nodes "
        "have no console.",
    ),
    rows.seconds(
        "terminal_timeout",
        600,
        "Seconds without a byte in either direction after which a console's connection is closed; "
        "0 never closes it.",
    ),
    rows.seconds(
        "subprocess_timeout",
        10,
        "Seconds a console's program may take to listen; then it is killed.",
        least=1,
    ),
    rows.seconds(
        "subprocess_checking_interval",
        1,
        "Seconds between two checks that the programs of consoles run, and for conductors that "
        "joined or left.",
        least=1,
    ),
)
