"""API clients of each role and project, with the headers that keystone's middleware writes."""

from __future__ import annotations

from typing import Any

from ironic_lite.api import middleware
from ironic_lite.api.http import request
from ironic_lite.api.policy import enforcement
from ironic_lite.core.context import Context
from tests.support.wsgi_client import Client, Response

OWNER, LESSEE, STRANGER = "p-owner", "p-lessee", "p-stranger"
IMPLIED = {
    "admin": "admin,manager,member,reader",
    "manager": "manager,member,reader",
    "member": "member,reader",
    "reader": "reader",
    "service": "service",
}


class Known:
    """Takes who asks from headers as the middleware writes them."""

    def __init__(self, asker: enforcement.AccessFactory) -> None:
        self.asker = asker

    def __call__(self, environ: request.Environ, request_id: str) -> Context:
        call = environ[request.CALL]
        call.access = self.asker.anonymous() if call.public else self.asker.access(environ)
        return request.anonymous(environ, request_id)


class Callers:
    """Clients by role and project; project None is the whole system."""

    def __init__(self, application: middleware.Wsgi) -> None:
        self.application = application

    def __call__(self, role: str, project: str | None = None) -> As:
        headers = {"X-Roles": IMPLIED[role], "X-User-Id": "somebody"}
        if project is None:
            headers["OpenStack-System-Scope"] = "all"
        else:
            headers["X-Project-Id"] = project
        return As(self.application, headers)


class As(Client):
    """A client that sends who it is."""

    def __init__(self, application: middleware.Wsgi, headers: dict[str, str]) -> None:
        super().__init__(application)
        self._who = headers

    def at(self, version: int | str) -> As:
        """Return the same caller, speaking minor version ``version``."""
        other = As(self.app, self._who)
        other.version = f"1.{version}"
        return other

    def request(self, method: str, path: str, json: Any = None, **more: Any) -> Response:
        more["headers"] = {**self._who, **(more.get("headers") or {})}
        return super().request(method, path, json, **more)
