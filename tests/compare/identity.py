"""A stand-in for OpenStack Identity with a token for each persona."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import fixture

from tests.support import identity_server

Personas = Mapping[str, tuple[tuple[str, ...], str | None]]
"""Roles and project by name; the project is None for the whole system."""

OWNER = "p-owner"
SERVICE = "service"
PERSONAS: Personas = {
    "admin": (("admin", "manager", "member", "reader"), None),
    "member": (("member", "reader"), None),
    "reader": (("reader",), None),
    "owner-member": (("member", "reader"), OWNER),
    "owner-reader": (("reader",), OWNER),
    "norole": (("nothing",), OWNER),
    SERVICE: (("service",), "services"),
}


class Identity(identity_server.IdentityServer):
    """An identity service with a token for each persona.

    The token of a persona is its name. Another user who logs in gets the token `SERVICE`.

    :param endpoints: URLs of other services, by type, for the catalog.
    """

    def __init__(
        self, personas: Personas = PERSONAS, endpoints: Mapping[str, str] | None = None
    ) -> None:
        self._personas = personas
        self.users: dict[str, str] = {}
        """The users of tokens that are not those of users of their names."""
        self._endpoints = dict(endpoints or {})
        super().__init__()
        self._endpoints["identity"] = self.url

    def validate(self, token: str, caller: str | None) -> identity_server.Answer:
        """Return status and body for a token; every caller may ask."""
        del caller
        if token in self._personas:
            return 200, self._token(token)
        return 404, {"error": {"code": 404}}

    def forget(self, token: str) -> None:
        """Let a token be invalid from now on."""
        self._personas = {name: one for name, one in self._personas.items() if name != token}

    def add(self, token: str, persona: tuple[tuple[str, ...], str | None]) -> None:
        """Let a token be valid from now on."""
        self._personas = {**self._personas, token: persona}

    def login(self, body: bytes) -> tuple[Mapping[str, Any], str]:
        """Return the token of the user that the body names, or `SERVICE`."""
        user = json.loads(body)["auth"]["identity"]["password"]["user"]
        token = user["name"] if user.get("name") in self._personas else SERVICE
        return self._token(token), token

    def _token(self, name: str) -> dict[str, Any]:
        roles, project = self._personas[name]
        user = self.users.get(name, name)
        token = fixture.V3Token(user_id=f"u-{user}", user_name=user)
        if project is None:
            token.set_system_scope()
        else:
            token.set_project_scope(id=project, name=project)
        for role in roles:
            token.add_role(name=role, id=role)
        for kind, url in self._endpoints.items():
            token.add_service(kind).add_standard_endpoints(public=url, internal=url, admin=url)
        for stamp in ("issued_at", "expires_at"):  # as Keystone writes them; tempest reads no other
            token.root[stamp] = token.root[stamp].replace("+00:00", "Z")
        return dict(token)
