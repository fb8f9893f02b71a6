"""Rules of objects of nodes that have their own paths: ports, portgroups and volumes."""

from __future__ import annotations

from ironic_lite.api.policy.personas import (
    ANY_READER,
    ATTACHES,
    CREATES,
    MANAGES,
    NODE,
    READER,
    RUNS,
    SEES,
    Rule,
    any_of,
)

RULES = (
    Rule(
        "baremetal:port:get",
        SEES,
        "Show a port.",
        (
            "GET /ports/{ident}",
            "GET /nodes/{ident}/ports",
            "GET /nodes/{ident}/ports/detail",
            "GET /portgroups/{ident}/ports",
            "GET /portgroups/{ident}/ports/detail",
        ),
        NODE,
    ),
    Rule(
        "baremetal:port:list",
        ANY_READER,
        "List the ports of the own project's nodes.",
        ("GET /ports", "GET /ports/detail"),
    ),
    Rule("baremetal:port:list_all", READER, "List all ports."),
    Rule("baremetal:port:create", CREATES, "Add ports.", ("POST /ports",), NODE),
    Rule("baremetal:port:update", MANAGES, "Change ports.", ("PATCH /ports/{ident}",), NODE),
    Rule("baremetal:port:delete", CREATES, "Remove ports.", ("DELETE /ports/{ident}",), NODE),
    Rule(
        "baremetal:portgroup:get",
        SEES,
        "Show a portgroup.",
        (
            "GET /portgroups/{ident}",
            "GET /nodes/{ident}/portgroups",
            "GET /nodes/{ident}/portgroups/detail",
        ),
        NODE,
    ),
    Rule(
        "baremetal:portgroup:list",
        ANY_READER,
        "List the portgroups of the own project's nodes.",
        ("GET /portgroups", "GET /portgroups/detail"),
    ),
    Rule("baremetal:portgroup:list_all", READER, "List all portgroups."),
    Rule("baremetal:portgroup:create", CREATES, "Add portgroups.", ("POST /portgroups",), NODE),
    Rule(
        "baremetal:portgroup:update",
        MANAGES,
        "Change portgroups.",
        ("PATCH /portgroups/{ident}",),
        NODE,
    ),
    Rule(
        "baremetal:portgroup:delete",
        CREATES,
        "Remove portgroups.",
        ("DELETE /portgroups/{ident}",),
        NODE,
    ),
    Rule(
        "baremetal:volume:get",
        SEES,
        "Show a volume connector or target.",
        (
            "GET /volume/connectors/{ident}",
            "GET /volume/targets/{ident}",
            "GET /nodes/{ident}/volume",
            "GET /nodes/{ident}/volume/connectors",
            "GET /nodes/{ident}/volume/targets",
        ),
        NODE,
    ),
    Rule(
        "baremetal:volume:list",
        ANY_READER,
        "List the volume connectors and targets of the own project's nodes.",
        ("GET /volume", "GET /volume/connectors", "GET /volume/targets"),
    ),
    Rule("baremetal:volume:list_all", READER, "List all volume connectors and targets."),
    Rule(
        "baremetal:volume:create",
        ATTACHES,
        "Add volume connectors and targets.",
        ("POST /volume/connectors", "POST /volume/targets"),
        NODE,
    ),
    Rule(
        "baremetal:volume:update",
        RUNS,
        "Change volume connectors and targets.",
        ("PATCH /volume/connectors/{ident}", "PATCH /volume/targets/{ident}"),
        NODE,
    ),
    Rule(
        "baremetal:volume:delete",
        ATTACHES,
        "Remove volume connectors and targets.",
        ("DELETE /volume/connectors/{ident}", "DELETE /volume/targets/{ident}"),
        NODE,
    ),
    Rule(
        "baremetal:volume:view_target_properties",
        any_of(READER, "role:admin"),
        "See the properties of volume targets.",
        about=NODE,
    ),
)
