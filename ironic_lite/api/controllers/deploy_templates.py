"""Deploy templates: steps that a deployment adds by the traits of its instance.

Changes of templates do not affect running deployments.

Source: C13.
"""

from __future__ import annotations

from http import HTTPStatus

from ironic_lite.api import policy
from ironic_lite.api.resources import crud, patches, queries, views
from ironic_lite.api.validation import step_lists
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import deploy_templates


class DeployTemplates(crud.NamedResourceController, since=55, below=HTTPStatus.METHOD_NOT_ALLOWED):
    """The deploy templates.

    Inherited: GET, POST /v1/deploy_templates;
    GET, PATCH, DELETE /v1/deploy_templates/{ident}.
    """

    family = deploy_templates.FAMILY
    word = "deploy_template"
    shown = views.DEPLOY_TEMPLATES
    asked = queries.DEPLOY_TEMPLATES
    roots_first = True
    found_first = ("description",)

    def read(self, request: Request, body: object) -> Json:
        """Return the column values of a POST, or refuse them."""
        given = super().read(request, body)
        self._refuse_steps(request, given)
        return given

    def judge(self, _conn: Connection, request: Request, before: Json, patch: object) -> Json:
        """Return the changes of a template, or refuse them."""
        changes = patches.deploy_template(before, patch, version=request.version)
        self._refuse_steps(request, changes)
        return changes

    def _refuse_steps(self, request: Request, values: JsonView) -> None:
        """Refuse steps that the policy forbids the caller, or that deployments forbid."""
        for rule in request.access.written(policy.of_steps(values.get("steps"))):
            request.access.demand(rule)
        disallowed = self.service.conf.api.disallow_deploy_steps
        lead = "Schema error for deploy template"
        step_lists.refuse_disallowed(values.get("steps", ()), disallowed, "steps", lead)
