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
    members,
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

Json = dict[str, Any]

_SINCE = 55
_PLACE = "/deploy_templates"
_ONE = f"{_PLACE}/{{ident}}"
_LONGEST = 255


class DeployTemplates(members.Controller):
    """The collection /v1/deploy_templates and its members."""

    family = deploy_templates
    word = "deploy_template"

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
        self.tell(request, "created", row)
        location = f"{request.base}/v1{_PLACE}/{row['uuid']}"
        request.answer.headers.append(("Location", location))
        return _document(request, row)

    @expose.expose("PATCH", _ONE, types.word, since=_SINCE, body=expose.WHOLE)
    def update(self, request: Request, ident: str) -> Json:
        """Change a deploy template by a JSON PATCH; deployments under way go on as they began."""
        known, patch = _ident(ident), request.json

        def judge(before: Json) -> Json:
            changes = patches.deploy_template(before, patch, version=request.version)
            self._refuse_disallowed(changes)
            return changes

        return _document(request, self.change(request, known, judge))

    @expose.expose("DELETE", _ONE, types.word, since=_SINCE, status=HTTPStatus.NO_CONTENT)
    def delete(self, request: Request, ident: str) -> None:
        """Remove a deploy template; deployments under way go on as they began."""
        self.remove(request, _ident(ident))

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
