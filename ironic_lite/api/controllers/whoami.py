"""The caller and the caller's rights, which Ironic does not tell."""

from __future__ import annotations

import functools
import importlib.metadata

from ironic_lite.api.resources import own_rights
from ironic_lite.api.service import Service
from ironic_lite.api.window import files
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.domain import versions


class Whoami(expose.Controller):
    """/v1/whoami."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._rights = own_rights.OwnRights()

    @expose.expose("GET", "/whoami")
    def show(self, request: Request) -> Json:
        """Return the caller, the rules that the caller passes, and the service's version."""
        access, api = request.access, self.service.conf.api
        rights = self._rights.of(access)
        return {
            "auth": api.auth_strategy,
            "user": request.who.user,
            "project": access.project,
            "roles": list(access.roles),
            "system": access.system or not access.limited,
            "expires_at": access.expires_at,
            "rules": list(rights.of_any),
            "own_rules": list(rights.of_own),
            "release": _release(),
            "version": versions.MAX_VERSION,
            "window": files.window().hash if api.enable_window else None,
        }


@functools.cache
def _release() -> str:
    return importlib.metadata.version("ironic_lite")
