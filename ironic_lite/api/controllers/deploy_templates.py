"""Deploy templates: steps that a deployment takes up by the traits of its instance (C13)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import clock, errors
from ironic_lite.api import (
    documents,
    expose,
    happenings,
    pages,
    patches,
    queries,
    rules,
    schemas,
    step_lists,
    types,
)
from ironic_lite.api.exchange import Request
from ironic_lite.db import deploy_templates
from ironic_lite.db.session import Connection

Json = dict[str, Any]

_SINCE = 55
_PLACE = "/deploy_templates"
_ONE = f"{_PLACE}/{{ident}}"
_LONGEST = 255


class DeployTemplates(expose.Controller):
    """The collection /v1/deploy_templates and its members."""

    @expose.expose("GET", _PLACE, since=_SINCE, raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of deploy templates."""
        query = pages.query(self.service, request, queries.DEPLOY_TEMPLATES)
        return pages.read(
            self.service, request, query, documents.DEPLOY_TEMPLATES, deploy_templates.page
        )

    @expose.expose("GET", _ONE, types.word, since=_SINCE, raw_query=True)
    def show(self, request: Request, ident: str) -> Json:
        """Return one deploy template, whole or the fields asked for."""
        chosen = queries.one(queries.DEPLOY_TEMPLATES, request.query, version=request.version)
        known = _ident(ident)
        row = self.service.database.read(lambda conn: deploy_templates.get(conn, known))
        return _document(request, row, chosen)

    @expose.expose("POST", _PLACE, since=_SINCE, status=HTTPStatus.CREATED, body=expose.WHOLE)
    def create(self, request: Request) -> Json:
        """Add a deploy template."""
        given = schemas.deploy_template(request.json, version=request.version)
        self._refuse_disallowed(given)
        row = {
            "uuid": str(uuid.uuid4()),
            "extra": {},
            "updated_at": None,
            **given,
            "created_at": clock.now(),
        }
        self.service.database.write(lambda conn: deploy_templates.insert(conn, row))
        self._tell(request, "deploy_template_created", row)
        location = f"{request.base}/v1{_PLACE}/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return _document(request, row)

    @expose.expose("PATCH", _ONE, types.word, since=_SINCE, body=expose.WHOLE)
    def update(self, request: Request, ident: str) -> Json:
        """Change a deploy template by a JSON PATCH; deployments under way go on as they began."""
        known, patch = _ident(ident), request.json

        def write(conn: Connection) -> tuple[Json, Json]:
            # Held, so that of two patches that add a step none is lost.
            before = deploy_templates.get(conn, known, hold=True)
            changes = patches.deploy_template(before, patch, version=request.version)
            if changes:
                self._refuse_disallowed(changes)
                changes["updated_at"] = clock.now()
                deploy_templates.update(conn, before["uuid"], changes)
            return changes, {**before, **changes}

        changes, row = self.service.database.write(write)
        if changes:
            self._tell(request, "deploy_template_updated", row)
        return _document(request, row)

    @expose.expose("DELETE", _ONE, types.word, since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Remove a deploy template; deployments under way go on as they began."""
        known, listened = _ident(ident), self.service.notifier.on

        def write(conn: Connection) -> Json | None:
            gone = deploy_templates.get(conn, known) if listened else None
            deploy_templates.delete(conn, known)
            return gone

        gone = self.service.database.write(write)
        if gone:
            self._tell(request, "deploy_template_deleted", gone)

    def _tell(self, request: Request, kind: str, row: Json) -> None:
        """Tell listeners; history is of nodes, and keeps nothing of this."""
        self.service.notifier.tell(request.who, [happenings.of(request.who, None, kind)], row)

    def _refuse_disallowed(self, values: Mapping[str, Any]) -> None:
        disallowed = self.service.conf.api.disallow_deploy_steps
        lead = "Schema error for deploy template"
        step_lists.refuse_disallowed(values.get("steps", ()), disallowed, "steps", lead)


def _ident(ident: str) -> str:
    """Return what stands for a template in a path: its UUID, or its name.

    :raises errors.DeployTemplateNotFound: nothing that a template could be called.
    """
    if rules.uuid_like(ident):
        return rules.uuid(ident, "deploy template")
    if not ident.isascii() or len(ident) > _LONGEST:
        raise errors.DeployTemplateNotFound(template=ident[:_LONGEST])
    return ident


def _document(request: Request, row: Json, chosen: tuple[str, ...] | None = None) -> Json:
    return pages.member(request, documents.DEPLOY_TEMPLATES, row, chosen)
