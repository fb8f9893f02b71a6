"""Rules of resources that do not belong to nodes."""

from __future__ import annotations

from ironic_lite.api.policy.personas import (
    ADMIN,
    ALLOCATES,
    ALLOCATION,
    ANY_READER,
    ANYONE,
    BATCH,
    LOGGED_IN,
    MEMBER,
    READER,
    RUNBOOK,
    RUNBOOKS,
    SYSTEM,
    VENDOR_METHODS,
    VENDOR_PLACES,
    Rule,
    any_of,
    of,
)

# Rules that other rules or policy files of older deployments refer to.
NAMED = (
    Rule(
        "service_role",
        "role:service and project_name:%(config.service_project_name)s",
        "The service role in the project of services, where options raise it to system scope.",
    ),
    Rule("public_api", "is_public_api:True", "For older policy files: routes without login."),
    Rule("admin_api", "role:admin or role:administrator", "For older policy files."),
    Rule(
        "is_member",
        "(project_domain_id:default or project_domain_id:None) and "
        "(project_name:demo or project_name:baremetal)",
        "For older policy files.",
    ),
    Rule(
        "is_observer",
        "rule:is_member and (role:observer or role:baremetal_observer)",
        "For older policy files.",
    ),
    Rule(
        "is_admin",
        "rule:admin_api or (rule:is_member and role:baremetal_admin)",
        "For older policy files.",
    ),
    Rule("is_node_owner", "project_id:%(node.owner)s", "For older policy files."),
    Rule("is_node_lessee", "project_id:%(node.lessee)s", "For older policy files."),
    Rule("is_allocation_owner", "project_id:%(allocation.owner)s", "For older policy files."),
)


_OTHERS = (
    Rule("baremetal:shards:get", READER, "List the shards.", ("GET /shards",)),
    Rule(
        "baremetal:chassis:get",
        READER,
        "Show chassis.",
        (
            "GET /chassis",
            "GET /chassis/detail",
            "GET /chassis/{ident}",
            "GET /chassis/{ident}/nodes",
            "GET /chassis/{ident}/nodes/detail",
        ),
        scope=SYSTEM,
    ),
    Rule("baremetal:chassis:create", ADMIN, "Add chassis.", ("POST /chassis",), scope=SYSTEM),
    Rule(
        "baremetal:chassis:update",
        MEMBER,
        "Change chassis.",
        ("PATCH /chassis/{ident}",),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:chassis:delete",
        ADMIN,
        "Remove chassis.",
        ("DELETE /chassis/{ident}",),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:driver:get",
        READER,
        "Show hardware types.",
        ("GET /drivers", "GET /drivers/{name}"),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:driver:get_properties",
        READER,
        "Show the keys of driver_info that a hardware type reads.",
        ("GET /drivers/{name}/properties",),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:driver:get_raid_logical_disk_properties",
        READER,
        "Show the keys of target_raid_config that a hardware type reads.",
        ("GET /drivers/{name}/raid/logical_disk_properties",),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:driver:vendor_passthru",
        ADMIN,
        "Call a vendor method of a hardware type.",
        (
            "GET /drivers/{name}/vendor_passthru/methods",
            *(
                f"{verb} /drivers/{{name}}{place}"
                for verb in VENDOR_METHODS
                for place in VENDOR_PLACES
            ),
        ),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:conductor:get",
        READER,
        "Show conductors.",
        (
            "GET /conductors",
            "GET /conductors/{hostname}",
            "GET /conductors/{hostname}/counters",
        ),
    ),
    Rule(
        "baremetal:events:post", ADMIN, "Report external events.", ("POST /events",), scope=SYSTEM
    ),
    Rule(
        "baremetal:deploy_template:get",
        READER,
        "Show deploy templates.",
        ("GET /deploy_templates", "GET /deploy_templates/{ident}"),
    ),
    Rule(
        "baremetal:deploy_template:create",
        ADMIN,
        "Add deploy templates.",
        ("POST /deploy_templates",),
    ),
    Rule(
        "baremetal:deploy_template:update",
        ADMIN,
        "Change deploy templates.",
        ("PATCH /deploy_templates/{ident}",),
    ),
    Rule(
        "baremetal:deploy_template:delete",
        ADMIN,
        "Remove deploy templates.",
        ("DELETE /deploy_templates/{ident}",),
    ),
    Rule(
        "baremetal:inspection_rule:get",
        READER,
        "Show an inspection rule.",
        ("GET /inspection_rules/{ident}",),
    ),
    Rule(
        "baremetal:inspection_rule:list_all",
        READER,
        "List inspection rules.",
        ("GET /inspection_rules",),
    ),
    Rule(
        "baremetal:inspection_rule:create",
        ADMIN,
        "Add inspection rules.",
        ("POST /inspection_rules",),
    ),
    Rule(
        "baremetal:inspection_rule:update",
        ADMIN,
        "Change inspection rules.",
        ("PATCH /inspection_rules/{ident}",),
    ),
    Rule(
        "baremetal:inspection_rule:delete",
        ADMIN,
        "Remove inspection rules.",
        ("DELETE /inspection_rules", "DELETE /inspection_rules/{ident}"),
    ),
)

_ALLOCATIONS = (
    Rule(
        "baremetal:allocation:get",
        any_of(READER, of("reader", "allocation.owner")),
        "Show an allocation.",
        ("GET /allocations/{ident}", "GET /nodes/{ident}/allocation"),
        ALLOCATION,
    ),
    Rule(
        "baremetal:allocation:list",
        ANY_READER,
        "List the own project's allocations.",
        ("GET /allocations",),
    ),
    Rule("baremetal:allocation:list_all", READER, "List all allocations."),
    Rule(
        "baremetal:allocation:create",
        any_of(MEMBER, "role:member"),
        "Request an allocation.",
        ("POST /allocations",),
    ),
    Rule(
        "baremetal:allocation:create_restricted",
        MEMBER,
        "Request an allocation with a named owner.",
    ),
    Rule(
        "baremetal:allocation:update",
        ALLOCATES,
        "Change allocations.",
        ("PATCH /allocations/{ident}",),
        ALLOCATION,
    ),
    Rule(
        "baremetal:allocation:delete",
        ALLOCATES,
        "Delete allocations.",
        ("DELETE /allocations/{ident}", "DELETE /nodes/{ident}/allocation"),
        ALLOCATION,
    ),
)

_RUNBOOK_RULES = (
    Rule(
        "baremetal:runbook:get",
        any_of(READER, of("reader", "runbook.owner"), "role:service"),
        "Show a runbook.",
        ("GET /runbooks/{ident}", "GET /runbooks/{ident}/traits"),
        RUNBOOK,
    ),
    Rule(
        "baremetal:runbook:list",
        ANY_READER,
        "List public runbooks and those of the own project.",
        ("GET /runbooks",),
    ),
    Rule("baremetal:runbook:list_all", READER, "List all runbooks."),
    Rule(
        "baremetal:runbook:create",
        any_of(MEMBER, "role:manager", "role:service"),
        "Add runbooks.",
        ("POST /runbooks",),
    ),
    Rule(
        "baremetal:runbook:update",
        RUNBOOKS,
        "Change runbooks.",
        (
            "PATCH /runbooks/{ident}",
            *(
                f"{verb} /runbooks/{{ident}}/traits{one}"
                for verb in ("PUT", "DELETE")
                for one in ("", "/{trait}")
            ),
        ),
        RUNBOOK,
    ),
    Rule(
        "baremetal:runbook:delete",
        RUNBOOKS,
        "Remove runbooks.",
        ("DELETE /runbooks/{ident}",),
        RUNBOOK,
    ),
    Rule("baremetal:runbook:update:public", MEMBER, "Make runbooks public.", about=RUNBOOK),
    Rule("baremetal:runbook:update:owner", MEMBER, "Change the owner of runbooks.", about=RUNBOOK),
    Rule("baremetal:runbook:use", RUNBOOKS, "Run a runbook on a node.", about=RUNBOOK),
)

_PUBLIC = (
    Rule(
        "baremetal:node:ipa_heartbeat",
        ANYONE,
        "Send the heartbeat of a ramdisk.",
        ("POST /heartbeat", "POST /heartbeat/{ident}"),
    ),
    Rule("baremetal:driver:ipa_lookup", ANYONE, "Look up the node of a ramdisk.", ("GET /lookup",)),
    Rule(
        "baremetal:driver:ipa_continue_inspection",
        ANYONE,
        "Send the inspection report of a ramdisk.",
        ("POST /continue_inspection",),
    ),
)


OWN = (
    Rule(
        "baremetal:whoami:get",
        LOGGED_IN,
        "Show who one is, and which rules one passes.",
        ("GET /whoami",),
    ),
    Rule("baremetal:metrics:get", READER, "Read the metrics of the whole service at /metrics."),
    Rule(
        "baremetal:doctor:get",
        READER,
        "Examine the service and its nodes.",
        ("GET /doctor",),
    ),
    Rule(
        "baremetal:statistics:get",
        READER,
        "Read durations and failures of the steps of all nodes.",
        ("GET /stats/steps",),
    ),
    Rule(
        "baremetal:event:list",
        ANY_READER,
        "Follow the events of the own project's nodes.",
        ("GET /events",),
    ),
    Rule("baremetal:event:list_all", READER, "Follow the events of all nodes."),
    Rule(
        "baremetal:hold:list", ANY_READER, "List holds of the own project's nodes.", ("GET /holds",)
    ),
    Rule("baremetal:hold:list_all", READER, "List the holds of all nodes."),
    Rule(
        "baremetal:erasure:list",
        ANY_READER,
        "Read erasure records of the own project's nodes.",
        ("GET /erasures", "GET /erasures/{erasure}", "GET /erasures/{erasure}/signature"),
    ),
    Rule("baremetal:erasure:list_all", READER, "Read the erasure records of all nodes."),
    Rule(
        "baremetal:erasure:key",
        ANYONE,
        "Read the public keys of erasure records.",
        ("GET /erasures/keys/{key}",),
    ),
    Rule("baremetal:run:list", ANY_READER, "List runs of the own project's nodes.", ("GET /runs",)),
    Rule("baremetal:run:list_all", READER, "List the runs of all nodes."),
    Rule(
        "baremetal:webhook:get",
        ADMIN,
        "Show webhooks and their failed deliveries.",
        ("GET /webhooks", "GET /webhooks/{ident}", "GET /webhooks/{ident}/failed"),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:webhook:create",
        ADMIN,
        "Add webhooks, which receive the events of all nodes.",
        ("POST /webhooks",),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:webhook:update",
        ADMIN,
        "Change webhooks, and send their events again.",
        ("PATCH /webhooks/{ident}", "POST /webhooks/{ident}/replay"),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:webhook:delete",
        ADMIN,
        "Remove webhooks.",
        ("DELETE /webhooks/{ident}",),
        scope=SYSTEM,
    ),
    Rule(
        "baremetal:batch:get",
        any_of(READER, of("reader", "batch.owner")),
        "Show a batch and its nodes.",
        ("GET /batches/{ident}", "GET /batches/{ident}/nodes"),
        BATCH,
    ),
    Rule(
        "baremetal:batch:list",
        ANY_READER,
        "List the own project's batches.",
        ("GET /batches",),
    ),
    Rule("baremetal:batch:list_all", READER, "List all batches."),
    Rule(
        "baremetal:batch:create",
        any_of(MEMBER, "role:member"),
        "Begin a batch; the rules of its request are checked for each node.",
        ("POST /batches",),
    ),
    Rule(
        "baremetal:batch:update",
        any_of(MEMBER, of("member", "batch.owner")),
        "Pause, resume, abort and delete a batch.",
        ("PUT /batches/{ident}/state", "DELETE /batches/{ident}"),
        BATCH,
    ),
    # Ironic needs no login for these routes either.
    Rule(
        "baremetal:root:get",
        ANYONE,
        "See the versions of the API.",
        ("GET ", "GET /", "HEAD ", "HEAD /", "GET /openapi", "GET /openapi.json"),
    ),
)
"""Rules that Ironic does not have."""

RULES = (*_OTHERS, *_ALLOCATIONS, *_RUNBOOK_RULES, *_PUBLIC, *OWN)
