"""Rules of nodes; "GET ." stands for "GET /nodes/{ident}"."""

from __future__ import annotations

import re

from ironic_lite.api.policy.personas import (
    ADMIN,
    ANY_READER,
    MANAGES,
    MEMBER,
    NODE,
    OWNER_SEES,
    OWNS,
    READER,
    RUNS,
    SEES,
    SERVICE,
    SYSTEM,
    USES,
    VENDOR_METHODS,
    VENDOR_PLACES,
    Rule,
    any_of,
)


def _node_rule(name: str, check: str, says: str, *operations: str) -> Rule:
    paths = tuple(re.sub(r"^(\w+) \.", r"\1 /nodes/{ident}", each) for each in operations)
    return Rule(f"baremetal:node:{name}", check, says, paths, NODE)


_IRONICS = (
    _node_rule("create", any_of(ADMIN, SERVICE), "Enroll nodes.", "POST /nodes"),
    Rule(
        "baremetal:node:create:self_owned_node",
        "(role:admin) or (role:service)",
        "Enroll nodes that the own project owns ([api]project_admin_can_manage_own_nodes).",
    ),
    Rule(
        "baremetal:node:list",
        ANY_READER,
        "List and count the nodes that the own project owns or leases.",
        ("GET /nodes", "GET /nodes/detail", "GET /stats/nodes"),
    ),
    Rule("baremetal:node:list_all", READER, "List and count all nodes."),
    _node_rule(
        "get",
        SEES,
        "Show a node; to other callers the node does not exist.",
        "GET .",
        "GET ./children",
    ),
    Rule(
        "baremetal:node:get:filter_threshold",
        READER,
        "See all fields of nodes; for other callers the next four rules are checked.",
    ),
    _node_rule("get:last_error", OWNER_SEES, "See last_error of a node."),
    _node_rule("get:reservation", OWNER_SEES, "See which conductor holds the lock of a node."),
    _node_rule("get:driver_internal_info", OWNER_SEES, "See driver_internal_info of a node."),
    _node_rule("get:driver_info", OWNER_SEES, "See driver_info of a node."),
    _node_rule(
        "update", USES, "Change fields of a node that have no rule of their own.", "PATCH ."
    ),
    _node_rule("update_extra", USES, "Change extra of a node."),
    _node_rule("update_instance_info", RUNS, "Change instance_info or instance_name of a node."),
    _node_rule("update:driver_info", OWNS, "Change driver_info of a node."),
    _node_rule("update:properties", OWNS, "Change properties of a node."),
    _node_rule("update:chassis_uuid", ADMIN, "Change the chassis of a node."),
    _node_rule("update:instance_uuid", OWNS, "Change instance_uuid of a node."),
    _node_rule("update:lessee", OWNS, "Change the lessee of a node."),
    _node_rule("update:owner", MEMBER, "Change the owner of a node."),
    Rule(
        "baremetal:node:update_owner_provisioned",
        ADMIN,
        "Change the owner of an active node.",
        about=NODE,
        scope=SYSTEM,
    ),
    _node_rule("update:driver_interfaces", MANAGES, "Change driver and interfaces of a node."),
    _node_rule("update:network_data", OWNS, "Change network_data of a node."),
    _node_rule("update:conductor_group", MEMBER, "Change the conductor group of a node."),
    _node_rule("update:name", OWNS, "Change the name of a node."),
    _node_rule("update:retired", OWNS, "Retire a node, or end its retirement."),
    _node_rule("update:shard", ADMIN, "Change the shard of a node."),
    _node_rule("update:parent_node", MEMBER, "Change the parent of a node."),
    _node_rule("update:disable_power_off", ADMIN, "Change disable_power_off of a node."),
    _node_rule("disable_cleaning", ADMIN, "Set automated_clean of a node to false."),
    _node_rule("delete", ADMIN, "Delete a node.", "DELETE ."),
    _node_rule(
        "delete:self_owned_node",
        "role:admin and project_id:%(node.owner)s",
        "Delete a node that the own project owns ([api]project_admin_can_manage_own_nodes).",
    ),
    _node_rule(
        "validate",
        RUNS,
        "Validate the interfaces of a node.",
        "GET ./validate",
        "GET /nodes/validate",
    ),
    _node_rule(
        "set_maintenance",
        RUNS,
        "Begin maintenance of a node.",
        "PUT ./maintenance",
        "PUT /nodes/maintenance",
        "PUT /nodes/maintenance/{node_ident}",
    ),
    _node_rule(
        "clear_maintenance",
        RUNS,
        "End maintenance of a node.",
        "DELETE ./maintenance",
        "DELETE /nodes/maintenance",
        "DELETE /nodes/maintenance/{node_ident}",
    ),
    _node_rule(
        "get_boot_device",
        MANAGES,
        "See the boot device of a node.",
        "GET ./management/boot_device",
        "GET ./management/boot_device/supported",
        "GET /nodes/management/boot_device",
        "GET /nodes/management/boot_device/{node_ident}",
    ),
    _node_rule(
        "set_boot_device",
        MANAGES,
        "Set a boot device.",
        "PUT ./management/boot_device",
        "PUT ./management/boot_device/supported",
        "PUT /nodes/management/boot_device/{node_ident}",
    ),
    _node_rule(
        "get_indicator_state",
        SEES,
        "See the indicators of a node.",
        "GET ./management/indicators",
        "GET ./management/indicators/{component}",
        "GET ./management/indicators/{component}/{indicator}",
    ),
    _node_rule(
        "set_indicator_state",
        OWNS,
        "Switch the indicators of a node.",
        "PUT ./management/indicators/{component}",
        "PUT ./management/indicators/{component}/{indicator}",
    ),
    _node_rule("inject_nmi", MANAGES, "Send an NMI to a node.", "PUT ./management/inject_nmi"),
    _node_rule(
        "get_states",
        SEES,
        "See the states of a node.",
        "GET ./states",
        "GET /nodes/states",
        "GET /nodes/states/{node_ident}",
    ),
    _node_rule("set_power_state", USES, "Switch the power of a node.", "PUT ./states/power"),
    _node_rule("set_boot_mode", USES, "Change the boot mode of a node.", "PUT ./states/boot_mode"),
    _node_rule(
        "set_secure_boot", USES, "Switch secure boot of a node.", "PUT ./states/secure_boot"
    ),
    _node_rule("set_provision_state", RUNS, "Request a verb for a node.", "PUT ./states/provision"),
    _node_rule("set_provision_state:clean_steps", RUNS, "Choose the steps of a cleaning."),
    _node_rule("set_provision_state:service_steps", RUNS, "Choose the steps of a service."),
    _node_rule("set_raid_state", OWNS, "Set target_raid_config of a node.", "PUT ./states/raid"),
    _node_rule(
        "get_console",
        OWNS,
        "See the console address of a node.",
        "GET ./states/console",
        "GET /nodes/states/console",
        "GET /nodes/states/console/{node_ident}",
    ),
    _node_rule(
        "set_console_state",
        OWNS,
        "Start and stop a console.",
        "PUT ./states/console",
        "PUT /nodes/states/console/{node_ident}",
    ),
    _node_rule("vif:list", SEES, "List the attached networks of a node.", "GET ./vifs"),
    _node_rule("vif:attach", RUNS, "Attach a network to a node.", "POST ./vifs"),
    _node_rule("vif:detach", RUNS, "Detach a network from a node.", "DELETE ./vifs/{vif}"),
    _node_rule("traits:list", SEES, "List the traits of a node.", "GET ./traits"),
    _node_rule(
        "traits:set",
        MANAGES,
        "Set the traits of a node, or add one.",
        "PUT ./traits",
        "PUT ./traits/{trait}",
    ),
    _node_rule(
        "traits:delete",
        MANAGES,
        "Remove the traits of a node, or one.",
        "DELETE ./traits",
        "DELETE ./traits/{trait}",
    ),
    _node_rule("bios:get", SEES, "See the BIOS settings.", "GET ./bios", "GET ./bios/{setting}"),
    _node_rule("firmware:get", SEES, "See the versions of firmware.", "GET ./firmware"),
    _node_rule(
        "history:get",
        OWNER_SEES,
        "See the history of a node.",
        "GET ./history",
        "GET ./history/{entry}",
    ),
    _node_rule("inventory:get", OWNER_SEES, "See the inventory of a node.", "GET ./inventory"),
    _node_rule("vmedia:attach", USES, "Put an image into a virtual drive.", "POST ./vmedia"),
    _node_rule(
        "vmedia:detach",
        USES,
        "Take images out of virtual drives.",
        "DELETE ./vmedia",
        "DELETE ./vmedia/{device_types}",
    ),
    _node_rule("vmedia:get", SEES, "See the virtual drives of a node.", "GET ./vmedia"),
    _node_rule(
        "vendor_passthru",
        ADMIN,
        "Call a vendor method of a node.",
        "GET ./vendor_passthru/methods",
        *(f"{verb} .{place}" for verb in VENDOR_METHODS for place in VENDOR_PLACES),
    ),
)

OWN = (
    _node_rule(
        "runs:get",
        OWNER_SEES,
        "See the runs of a node in the own project's time; those under way need no rule.",
        "GET ./runs",
        "GET ./runs/{run}",
    ),
    _node_rule(
        "runs:stop",
        RUNS,
        "Stop a run at its next step.",
        "PUT ./runs/{run}/stop",
        "DELETE ./runs/{run}/stop",
    ),
    Rule(
        "baremetal:run:get",
        OWNER_SEES,
        "See a run of the own project's time; one under way needs no rule.",
        ("GET /runs/{run}",),
        about=NODE,
    ),
    _node_rule("log:get", OWNER_SEES, "See the logs of a node's runs.", "GET ./runs/{run}/log"),
    _node_rule(
        "why:get",
        OWNER_SEES,
        "See why a node is in its state, with its last error and its last run.",
        "GET ./why",
    ),
    _node_rule(
        "hold:get",
        OWNER_SEES,
        "See reasons and ended holds of the own project's time; holds in force need no rule.",
        "GET ./holds",
    ),
    _node_rule("hold:create", MANAGES, "Hold a node.", "POST ./holds"),
    _node_rule("hold:delete", MANAGES, "End a hold of a node.", "DELETE ./holds/{hold}"),
    _node_rule("erasures:get", OWNER_SEES, "See the erasure records of a node.", "GET ./erasures"),
    _node_rule(
        "data_state:set", MANAGES, "Declare the state of a node's data.", "PUT ./data_state"
    ),
    _node_rule("set_provision_state:waive_steps", MANAGES, "Waive steps of a retry."),
    _node_rule("plan", RUNS, "See what a verb would do to a node.", "POST ./plan"),
    _node_rule("steps:get", RUNS, "See the clean steps of a node.", "GET ./cleaning/steps"),
)
"""Rules that Ironic does not have."""

RULES = (*_IRONICS, *OWN)
