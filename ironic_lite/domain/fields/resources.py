"""The fields of resources beside nodes."""

from __future__ import annotations

import dataclasses

from ironic_lite.domain.fields.field import Access, Field, Type, computed, flag, free_form, moment

R = Access.READ

PORT: tuple[Field, ...] = (
    Field("uuid", access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at"),
    moment("updated_at"),
    Field("address", brief=True, required=True, length=64),
    Field("available_for_dynamic_portgroup", 111, Type.BOOLEAN, required=True, default=True),
    Field("category", 101, length=80),
    Field("description", 97),
    free_form("extra"),
    free_form("internal_info", 18, R),
    Field("is_smartnic", 53, Type.BOOLEAN, required=True, default=False),
    free_form("local_link_connection", 19),
    Field("name", 88),
    Field("node_uuid", required=True, length=36),
    Field("physical_network", 34, length=64),
    Field("portgroup_uuid", 24, length=36),
    Field("pxe_enabled", 19, Type.BOOLEAN, required=True, default=True),
    Field("vendor", 100, length=32),
    computed("links", 1, Type.LIST),
)

CHASSIS: tuple[Field, ...] = (
    Field("uuid", access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at"),
    moment("updated_at"),
    Field("description", brief=True),
    free_form("extra"),
    computed("links", 1, Type.LIST),
)

DEPLOY_TEMPLATE: tuple[Field, ...] = (
    Field("uuid", 55, access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at", 55),
    moment("updated_at", 55),
    Field("name", 55, brief=True, required=True),
    free_form("extra", 55),
    computed("links", 55, Type.LIST),
    Field("steps", 55, Type.LIST, sort=False, secret=True, required=True),
)

ALLOCATION: tuple[Field, ...] = tuple(
    dataclasses.replace(field, brief=True)
    for field in (
        Field("uuid", 52, access=Access.CREATE, required=True, length=36),
        moment("created_at", 52),
        moment("updated_at", 52),
        Field("candidate_nodes", 52, Type.LIST, Access.CREATE, sort=False, empty=[]),
        free_form("extra", 52),
        Field("last_error", 52, access=R),
        Field("name", 52),
        Field("node_uuid", 52, access=R, length=36),
        Field("owner", 60, access=Access.CREATE),
        Field("resource_class", 52, access=Access.CREATE, length=80),
        Field("state", 52, access=R, length=15),
        Field("traits", 52, Type.LIST, Access.CREATE, sort=False, empty=[]),
        computed("links", 52, Type.LIST),
    )
)

RUNBOOK: tuple[Field, ...] = (
    Field("uuid", 92, access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at", 92),
    moment("updated_at", 92),
    Field("name", 92, brief=True, required=True),
    Field("description", 112),
    flag("disable_ramdisk", 92),
    free_form("extra", 92),
    Field("owner", 92),
    flag("public", 92),
    computed("links", 92, Type.LIST),
    Field("steps", 92, Type.LIST, sort=False, secret=True, required=True),
    Field("traits", 112, Type.LIST, R, sort=False, empty=[]),
)

INSPECTION_RULE: tuple[Field, ...] = (
    Field("uuid", 96, access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at", 96),
    moment("updated_at", 96),
    Field("description", 96, brief=True),
    Field("phase", 96, brief=True, required=True, default="main", length=16),
    Field("priority", 96, Type.INTEGER, brief=True, required=True, default=0),
    flag("sensitive", 96),
    computed("links", 96, Type.LIST),
    # Null for a sensitive rule.
    Field("actions", 96, Type.LIST, sort=False, secret=True, required=True),
    Field("conditions", 96, Type.LIST, sort=False, secret=True, required=True, default=[]),
)
