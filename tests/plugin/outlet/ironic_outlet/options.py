"""The options of group [outlet]. They are registered when the driver is imported, which is before
any of its methods is called."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "outlet"
OPTIONS = (
    cfg.FloatOpt("timeout", default=5.0, min=0.1, help="Seconds a rack may take to answer."),
    cfg.StrOpt("label_prefix", default="", help="What each label on the display begins with."),
)

cfg.CONF.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[str, tuple[cfg.Opt, ...]]]:
    """Return the options for oslo-config-generator: the entry point of oslo.config.opts."""
    return [(GROUP, OPTIONS)]


def check() -> None:
    """Read each value once: a bad one keeps the driver from being loaded, and is found at start.

    :raises ValueError: naming the option.
    """
    for option in OPTIONS:
        try:
            cfg.CONF[GROUP][option.dest]
        except (cfg.Error, ValueError) as why:
            raise ValueError(f"[{GROUP}]{option.name}: {why}") from None
