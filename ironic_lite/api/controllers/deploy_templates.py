"""Deploy templates: steps that a deployment takes up by the traits of its instance (C13).

Deployments under way go on as they began, whatever becomes of their templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_lite.api.resources import documents, families, patches, queries
from ironic_lite.api.validation import step_lists
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import deploy_templates
from ironic_lite.db.session import Connection

Json = dict[str, Any]


class DeployTemplates(families.Named, since=55):
    """The collection /v1/deploy_templates and its members."""

    family = deploy_templates.FAMILY
    word = "deploy_template"
    shown = documents.DEPLOY_TEMPLATES
    asked = queries.DEPLOY_TEMPLATES

    def read(self, request: Request, body: Any) -> Json:
        """Return the column values of a POST; steps that are not allowed here are refused."""
        given = super().read(request, body)
        self._refuse_disallowed(given)
        return given

    def judge(self, _conn: Connection, request: Request, before: Json, patch: Any) -> Json:
        """Return the changes of a template, or refuse them."""
        changes = patches.deploy_template(before, patch, version=request.version)
        self._refuse_disallowed(changes)
        return changes

    def _refuse_disallowed(self, values: Mapping[str, Any]) -> None:
        disallowed = self.service.conf.api.disallow_deploy_steps
        lead = "Schema error for deploy template"
        step_lists.refuse_disallowed(values.get("steps", ()), disallowed, "steps", lead)
