"""Options of [ipmi] and [console]: ipmitool, and the serial consoles behind it."""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_lite.options import rows, values

IPMI = (
    rows.seconds(
        "command_retry_timeout",
        60,
        "Seconds a command to a BMC may take, with all its repetitions; then ipmitool is killed.",
        least=5,
    ),
    rows.seconds(
        "min_command_interval",
        5,
        "Seconds for which a BMC is left alone after it said that it is busy. Commands that went "
        "well follow each other at once.",
        least=1,
    ),
    cfg.IntOpt(
        "max_processes",
        default=64,
        min=1,
        help="Processes of ipmitool a conductor runs at once. A BMC that does not answer keeps one "
        "busy for 12 seconds.",
    ),
    cfg.BoolOpt(
        "disable_boot_timeout",
        default=True,
        help="Tell BMCs to keep a boot device for longer than the minute that IPMI gives it. A "
        "node's driver_info/ipmi_disable_boot_timeout decides for that node.",
    ),
    cfg.ListOpt(
        "cipher_suite_versions",
        default=[],
        item_type=types.Integer(min=0, max=17),
        sample_default=["3", "17"],
        help="Cipher suites to try on nodes without driver_info/ipmi_cipher_suite, the last one "
        "first. Unset, ipmitool asks the BMC for its best.",
    ),
    cfg.ListOpt(
        "additional_retryable_ipmi_errors",
        default=[],
        help="Further words of ipmitool's errors after which a command is sent again.",
    ),
)

CONSOLE = (
    cfg.IPOpt(
        "socat_address",
        default="127.0.0.1",
        help="IP address of this conductor's machine at which consoles are reached by TCP. Nobody "
        "who reaches it is asked for a password: leave it on loopback, or on a network of those "
        "alone who may see every console.",
    ),
    cfg.MultiOpt(
        "port_range",
        item_type=values.PortRange(),
        sample_default=["10000:19999"],
        help="TCP ports, the first and the last, for consoles of nodes without "
        "driver_info/ipmi_terminal_port. May be given several times. Unset, those have none.",
    ),
    rows.seconds(
        "terminal_timeout",
        600,
        "Seconds without a byte in either direction after which a console's connection is ended; 0 "
        "leaves it.",
    ),
    rows.seconds(
        "subprocess_timeout",
        10,
        "Seconds a console's program has to begin to listen; then it is killed.",
        least=1,
    ),
    rows.seconds(
        "subprocess_checking_interval",
        1,
        "Seconds between two looks whether the programs of consoles still run, and whether "
        "conductors came or went.",
        least=1,
    ),
)
