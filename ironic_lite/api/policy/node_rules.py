"""The record of a rule, the checks that defaults are composed of, and the rules of nodes."""

from __future__ import annotations

import dataclasses
import re

SYSTEM = ("system",)
BOTH = ("system", "project")
ANYONE = ""
"""The check that every caller passes, even without a login."""
LOGGED_IN = "@"
"""The check that every caller with a login passes."""

VENDOR_METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
VENDOR_PLACES = ("/vendor_passthru", "/vendor_passthru/{method}")
"""HTTP methods of vendor passthru, and its paths below an object."""

NODE, ALLOCATION, RUNBOOK, BATCH = "node", "allocation", "runbook", "batch"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A policy rule.

    ``check`` is the default, in the language of oslo.policy. ``operations`` are the routes that it
    guards, as ``GET /nodes/{ident}``. ``about`` is the kind of object whose owner the check uses,
    "" for none. ``scope`` are the token scopes that may pass.
    """

    name: str
    check: str
    says: str
    operations: tuple[str, ...] = ()
    about: str = ""
    scope: tuple[str, ...] = BOTH

    @property
    def public(self) -> bool:
        """True if its routes need no login; the override of a policy file is still checked."""
        return self.check == ANYONE

    @property
    def lists(self) -> bool:
        """True if the rule is for listing the caller's own objects; ``..._all`` lists the rest."""
        return not self.about and self.name.endswith(":list")


# -- personas --------------------------------------------------------------------------------


def any_of(*checks: str) -> str:
    """Return the check that is passed if one of these is passed."""
    return " or ".join(f"({check})" for check in checks)


def of(role: str, owner: str) -> str:
    """Return the check of a role in the owning project; ``owner`` is a key of the target."""
    return f"role:{role} and project_id:%({owner})s"


OWNED_OR_LEASED = "(project_id:%(node.owner)s or project_id:%(node.lessee)s)"
ADMIN = "role:admin and system_scope:all"
SERVICE = "role:service and system_scope:all"
MEMBER = "(role:member and system_scope:all) or rule:service_role"
READER = f"(role:reader and system_scope:all) or ({SERVICE}) or rule:service_role"
OWNER_SERVICE = of("service", "node.owner")
OWNER_ADMIN, OWNER_MANAGER = of("admin", "node.owner"), of("manager", "node.owner")
LESSEE = (of("admin", "node.lessee"), of("manager", "node.lessee"))
ANY_READER = "(role:reader) or (role:service)"

SEES = any_of(READER, f"role:reader and {OWNED_OR_LEASED}", OWNER_SERVICE)
USES = any_of(MEMBER, f"role:member and {OWNED_OR_LEASED}", SERVICE)
RUNS = any_of(MEMBER, SERVICE, of("member", "node.owner"), *LESSEE, OWNER_SERVICE)
CREATES = any_of(ADMIN, SERVICE, OWNER_ADMIN, OWNER_MANAGER, OWNER_SERVICE)
MANAGES = any_of(MEMBER, SERVICE, OWNER_ADMIN, OWNER_MANAGER, OWNER_SERVICE)
OWNS = any_of(MEMBER, SERVICE, of("member", "node.owner"), OWNER_SERVICE)
OWNER_SEES = any_of(READER, SERVICE, of("reader", "node.owner"), OWNER_SERVICE)
ATTACHES = any_of(MEMBER, SERVICE, OWNER_ADMIN, OWNER_MANAGER, *LESSEE, OWNER_SERVICE)
ALLOCATES = any_of(MEMBER, of("member", "allocation.owner"))
RUNBOOKS = any_of(MEMBER, of("manager", "runbook.owner"), "role:service")


# Rules of nodes; "GET ." stands for "GET /nodes/{ident}".


def rule(
    name: str,
    check: str,
    says: str,
    *operations: str,
    about: str = "",
    scope: tuple[str, ...] = BOTH,
) -> Rule:
    """Return a rule of this service, whose names begin with ``baremetal:``."""
    return Rule(f"baremetal:{name}", check, says, operations, about, scope)


def node_rule(name: str, check: str, says: str, *operations: str) -> Rule:
    """Return a rule of nodes; ``.`` begins a path below one."""
    paths = (re.sub(r"^(\w+) \.", r"\1 /nodes/{ident}", each) for each in operations)
    return rule(f"node:{name}", check, says, *paths, about=NODE)


_IRONICS = (
    node_rule("create", any_of(ADMIN, SERVICE), "Enroll nodes.", "POST /nodes"),
    rule(
        "node:create:self_owned_node",
        "(role:admin) or (role:service)",
        "Enroll nodes that the own project owns ([api]project_admin_can_manage_own_nodes).",
    ),
    rule(
        "node:list",
        ANY_READER,
        "List, count and search the nodes that the own project owns or leases.",
        "GET /nodes",
        "GET /nodes/detail",
        "GET /stats/nodes",
        "GET /search",
    ),
    rule("node:list_all", READER, "List, count and search all nodes."),
    node_rule(
        "get",
        SEES,
        "Show a node; to other callers the node does not exist.",
        "GET .",
        "GET ./children",
    ),
    rule(
        "node:get:filter_threshold",
        READER,
        "See all fields of nodes; for other callers the next four rules are checked.",
    ),
    node_rule("get:last_error", OWNER_SEES, "See last_error of a node."),
    node_rule("get:reservation", OWNER_SEES, "See which conductor holds the lock of a node."),
    node_rule("get:driver_internal_info", OWNER_SEES, "See driver_internal_info of a node."),
    node_rule("get:driver_info", OWNER_SEES, "See driver_info of a node."),
    node_rule("update", USES, "Change fields of a node that have no rule of their own.", "PATCH ."),
    node_rule("update_extra", USES, "Change extra of a node."),
    node_rule("update_instance_info", RUNS, "Change instance_info or instance_name of a node."),
    node_rule("update:driver_info", OWNS, "Change driver_info of a node."),
    node_rule("update:properties", OWNS, "Change properties of a node."),
    node_rule("update:chassis_uuid", ADMIN, "Change the chassis of a node."),
    node_rule("update:instance_uuid", OWNS, "Change instance_uuid of a node."),
    node_rule("update:lessee", OWNS, "Change the lessee of a node."),
    node_rule("update:owner", MEMBER, "Change the owner of a node."),
    rule(
        "node:update_owner_provisioned",
        ADMIN,
        "Change the owner of an active node.",
        about=NODE,
        scope=SYSTEM,
    ),
    node_rule("update:driver_interfaces", MANAGES, "Change driver and interfaces of a node."),
    node_rule("update:network_data", OWNS, "Change network_data of a node."),
    node_rule("update:conductor_group", MEMBER, "Change the conductor group of a node."),
    node_rule("update:name", OWNS, "Change the name of a node."),
    node_rule("update:retired", OWNS, "Retire a node, or end its retirement."),
    node_rule("update:shard", ADMIN, "Change the shard of a node."),
    node_rule("update:parent_node", MEMBER, "Change the parent of a node."),
    node_rule("update:disable_power_off", ADMIN, "Change disable_power_off of a node."),
    node_rule("disable_cleaning", ADMIN, "Set automated_clean of a node to false."),
    node_rule("delete", ADMIN, "Delete a node.", "DELETE ."),
    node_rule(
        "delete:self_owned_node",
        "role:admin and project_id:%(node.owner)s",
        "Delete a node that the own project owns ([api]project_admin_can_manage_own_nodes).",
    ),
    node_rule(
        "validate",
        RUNS,
        "Validate the interfaces of a node.",
        "GET ./validate",
        "GET /nodes/validate",
    ),
    node_rule(
        "set_maintenance",
        RUNS,
        "Begin maintenance of a node.",
        "PUT ./maintenance",
        "PUT /nodes/maintenance",
        "PUT /nodes/maintenance/{node_ident}",
    ),
    node_rule(
        "clear_maintenance",
        RUNS,
        "End maintenance of a node.",
        "DELETE ./maintenance",
        "DELETE /nodes/maintenance",
        "DELETE /nodes/maintenance/{node_ident}",
    ),
    node_rule(
        "get_boot_device",
        MANAGES,
        "See the boot device of a node.",
        "GET ./management/boot_device",
        "GET ./management/boot_device/supported",
        "GET /nodes/management/boot_device",
        "GET /nodes/management/boot_device/{node_ident}",
    ),
    node_rule(
        "set_boot_device",
        MANAGES,
        "Set a boot device.",
        "PUT ./management/boot_device",
        "PUT ./management/boot_device/supported",
        "PUT /nodes/management/boot_device/{node_ident}",
    ),
    node_rule(
        "get_indicator_state",
        SEES,
        "See the indicators of a node.",
        "GET ./management/indicators",
        "GET ./management/indicators/{component}",
        "GET ./management/indicators/{component}/{indicator}",
    ),
    node_rule(
        "set_indicator_state",
        OWNS,
        "Switch the indicators of a node.",
        "PUT ./management/indicators/{component}",
        "PUT ./management/indicators/{component}/{indicator}",
    ),
    node_rule("inject_nmi", MANAGES, "Send an NMI to a node.", "PUT ./management/inject_nmi"),
    node_rule(
        "get_states",
        SEES,
        "See the states of a node.",
        "GET ./states",
        "GET /nodes/states",
        "GET /nodes/states/{node_ident}",
    ),
    node_rule("set_power_state", USES, "Switch the power of a node.", "PUT ./states/power"),
    node_rule("set_boot_mode", USES, "Change the boot mode of a node.", "PUT ./states/boot_mode"),
    node_rule("set_secure_boot", USES, "Switch secure boot of a node.", "PUT ./states/secure_boot"),
    node_rule("set_provision_state", RUNS, "Request a verb for a node.", "PUT ./states/provision"),
    node_rule("set_provision_state:clean_steps", RUNS, "Choose the steps of a cleaning."),
    node_rule("set_provision_state:service_steps", RUNS, "Choose the steps of a service."),
    node_rule("set_raid_state", OWNS, "Set target_raid_config of a node.", "PUT ./states/raid"),
    node_rule(
        "get_console",
        OWNS,
        "See the console address of a node.",
        "GET ./states/console",
        "GET /nodes/states/console",
        "GET /nodes/states/console/{node_ident}",
    ),
    node_rule(
        "set_console_state",
        OWNS,
        "Start and stop a console.",
        "PUT ./states/console",
        "PUT /nodes/states/console/{node_ident}",
    ),
    node_rule("vif:list", SEES, "List the attached networks of a node.", "GET ./vifs"),
    node_rule("vif:attach", RUNS, "Attach a network to a node.", "POST ./vifs"),
    node_rule("vif:detach", RUNS, "Detach a network from a node.", "DELETE ./vifs/{vif}"),
    node_rule("traits:list", SEES, "List the traits of a node.", "GET ./traits"),
    node_rule(
        "traits:set",
        MANAGES,
        "Set the traits of a node, or add one.",
        "PUT ./traits",
        "PUT ./traits/{trait}",
    ),
    node_rule(
        "traits:delete",
        MANAGES,
        "Remove the traits of a node, or one.",
        "DELETE ./traits",
        "DELETE ./traits/{trait}",
    ),
    node_rule("bios:get", SEES, "See the BIOS settings.", "GET ./bios", "GET ./bios/{setting}"),
    node_rule("firmware:get", SEES, "See the versions of firmware.", "GET ./firmware"),
    node_rule(
        "history:get",
        OWNER_SEES,
        "See the history of a node.",
        "GET ./history",
        "GET ./history/{entry}",
    ),
    node_rule("inventory:get", OWNER_SEES, "See the inventory of a node.", "GET ./inventory"),
    node_rule("vmedia:attach", USES, "Put an image into a virtual drive.", "POST ./vmedia"),
    node_rule(
        "vmedia:detach",
        USES,
        "Take images out of virtual drives.",
        "DELETE ./vmedia",
        "DELETE ./vmedia/{device_types}",
    ),
    node_rule("vmedia:get", SEES, "See the virtual drives of a node.", "GET ./vmedia"),
    node_rule(
        "vendor_passthru",
        ADMIN,
        "Call a vendor method of a node.",
        "GET ./vendor_passthru/methods",
        *(f"{verb} .{place}" for verb in VENDOR_METHODS for place in VENDOR_PLACES),
    ),
)

OWN_NODE_RULES = (
    node_rule(
        "runs:get",
        OWNER_SEES,
        "See the runs of a node in the own project's time; those under way need no rule.",
        "GET ./runs",
        "GET ./runs/{run}",
    ),
    node_rule(
        "runs:stop",
        RUNS,
        "Stop a run at its next step.",
        "PUT ./runs/{run}/stop",
        "DELETE ./runs/{run}/stop",
    ),
    rule(
        "run:get",
        OWNER_SEES,
        "See a run of the own project's time; one under way needs no rule.",
        "GET /runs/{run}",
        about=NODE,
    ),
    node_rule("log:get", OWNER_SEES, "See the logs of a node's runs.", "GET ./runs/{run}/log"),
    node_rule(
        "hold:get",
        OWNER_SEES,
        "See reasons and ended holds of the own project's time; holds in force need no rule.",
        "GET ./holds",
    ),
    node_rule("hold:create", MANAGES, "Hold a node.", "POST ./holds"),
    node_rule("hold:delete", MANAGES, "End a hold of a node.", "DELETE ./holds/{hold}"),
    node_rule("data_state:set", MANAGES, "Declare the state of a node's data.", "PUT ./data_state"),
    node_rule("set_provision_state:waive_steps", MANAGES, "Waive steps of a retry."),
    node_rule("plan", RUNS, "See what a verb would do to a node.", "POST ./plan"),
    node_rule("steps:get", RUNS, "See the clean steps of a node.", "GET ./cleaning/steps"),
)
"""Rules that Ironic does not have."""

NODE_RULES = (*_IRONICS, *OWN_NODE_RULES)


# Rules of objects of nodes that have their own paths: ports, portgroups and volumes.

RULES_BELOW_NODES = (
    rule(
        "port:get",
        SEES,
        "Show a port.",
        "GET /ports/{ident}",
        "GET /nodes/{ident}/ports",
        "GET /nodes/{ident}/ports/detail",
        "GET /portgroups/{ident}/ports",
        "GET /portgroups/{ident}/ports/detail",
        about=NODE,
    ),
    rule(
        "port:list",
        ANY_READER,
        "List the ports of the own project's nodes.",
        "GET /ports",
        "GET /ports/detail",
    ),
    rule("port:list_all", READER, "List all ports."),
    rule("port:create", CREATES, "Add ports.", "POST /ports", about=NODE),
    rule("port:update", MANAGES, "Change ports.", "PATCH /ports/{ident}", about=NODE),
    rule("port:delete", CREATES, "Remove ports.", "DELETE /ports/{ident}", about=NODE),
    rule(
        "portgroup:get",
        SEES,
        "Show a portgroup.",
        "GET /portgroups/{ident}",
        "GET /nodes/{ident}/portgroups",
        "GET /nodes/{ident}/portgroups/detail",
        about=NODE,
    ),
    rule(
        "portgroup:list",
        ANY_READER,
        "List the portgroups of the own project's nodes.",
        "GET /portgroups",
        "GET /portgroups/detail",
    ),
    rule("portgroup:list_all", READER, "List all portgroups."),
    rule("portgroup:create", CREATES, "Add portgroups.", "POST /portgroups", about=NODE),
    rule(
        "portgroup:update", MANAGES, "Change portgroups.", "PATCH /portgroups/{ident}", about=NODE
    ),
    rule(
        "portgroup:delete", CREATES, "Remove portgroups.", "DELETE /portgroups/{ident}", about=NODE
    ),
    rule(
        "volume:get",
        SEES,
        "Show a volume connector or target.",
        "GET /volume/connectors/{ident}",
        "GET /volume/targets/{ident}",
        "GET /nodes/{ident}/volume",
        "GET /nodes/{ident}/volume/connectors",
        "GET /nodes/{ident}/volume/targets",
        about=NODE,
    ),
    rule(
        "volume:list",
        ANY_READER,
        "List the volume connectors and targets of the own project's nodes.",
        "GET /volume",
        "GET /volume/connectors",
        "GET /volume/targets",
    ),
    rule("volume:list_all", READER, "List all volume connectors and targets."),
    rule(
        "volume:create",
        ATTACHES,
        "Add volume connectors and targets.",
        "POST /volume/connectors",
        "POST /volume/targets",
        about=NODE,
    ),
    rule(
        "volume:update",
        RUNS,
        "Change volume connectors and targets.",
        "PATCH /volume/connectors/{ident}",
        "PATCH /volume/targets/{ident}",
        about=NODE,
    ),
    rule(
        "volume:delete",
        ATTACHES,
        "Remove volume connectors and targets.",
        "DELETE /volume/connectors/{ident}",
        "DELETE /volume/targets/{ident}",
        about=NODE,
    ),
    rule(
        "volume:view_target_properties",
        any_of(READER, "role:admin"),
        "See the properties of volume targets.",
        about=NODE,
    ),
)
