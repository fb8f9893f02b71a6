"""The fields of resources that belong to a node."""

from __future__ import annotations

from ironic_lite.domain.fields.field import Access, Field, Type, computed, flag, free_form, moment

R = Access.READ
_VOLUME = 32

PORTGROUP: tuple[Field, ...] = (
    Field("uuid", 23, access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at", 23),
    moment("updated_at", 23),
    Field("address", 23, brief=True, length=64),
    Field("category", 103, length=80),
    flag("dynamic_portgroup", 111, R),
    free_form("extra", 23),
    free_form("internal_info", 23, R),
    Field("mode", 26),
    Field("name", 23, brief=True),
    Field("node_uuid", 23, required=True, length=36),
    Field("physical_network", 102, length=64),
    free_form("properties", 26),
    flag("standalone_ports_supported", 23, on=True),
    computed("links", 23, Type.LIST),
)

VOLUME_CONNECTOR: tuple[Field, ...] = (
    Field("uuid", _VOLUME, access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at", _VOLUME),
    moment("updated_at", _VOLUME),
    Field("connector_id", _VOLUME, brief=True, required=True),
    free_form("extra", _VOLUME),
    Field("node_uuid", _VOLUME, brief=True, required=True, length=36),
    Field("type", _VOLUME, brief=True, required=True, length=32),
    computed("links", _VOLUME, Type.LIST),
)

VOLUME_TARGET: tuple[Field, ...] = (
    Field("uuid", _VOLUME, access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at", _VOLUME),
    moment("updated_at", _VOLUME),
    Field("boot_index", _VOLUME, Type.INTEGER, brief=True, required=True),
    free_form("extra", _VOLUME),
    Field("node_uuid", _VOLUME, brief=True, required=True, length=36),
    # Connection data of Cinder or an operator, with passwords.
    free_form("properties", _VOLUME, secret=True),
    Field("volume_id", _VOLUME, brief=True, required=True, length=36),
    Field("volume_type", _VOLUME, brief=True, required=True, length=64),
    computed("links", _VOLUME, Type.LIST),
)
