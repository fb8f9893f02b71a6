"""Runbooks, named lists of steps, and deploy templates.

Traits say which nodes may run a runbook. Changes of runbooks do not affect active runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.controllers import provisioning
from ironic_lite.api.controllers.traits import TraitList
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import crud, pages, patches, queries, views
from ironic_lite.api.resources.patches import Operations
from ironic_lite.api.validation import schemas
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import resources
from ironic_lite.db.queries.nodes import MOST_TRAITS
from ironic_lite.domain import step_lists

_UPDATE = "baremetal:runbook:update"


class _Base(crud.NamedResourceController):
    family = resources.RUNBOOKS
    word = "runbook"
    shown = views.RUNBOOKS
    asked = queries.RUNBOOKS

    def look(self, _conn: Connection, request: Request, row: Json) -> None:
        """Refuse a runbook that the caller may not see; every caller may see a public runbook."""
        provisioning.judge(request, row, public=True)


class Runbooks(_Base, since=92, below=HTTPStatus.METHOD_NOT_ALLOWED):
    """The runbooks.

    Inherited: GET, POST /v1/runbooks;
    GET, PATCH, DELETE /v1/runbooks/{ident}.
    """

    def narrow(self, request: Request, where: Json) -> Json:
        """Return the filters of a list, narrowed to the runbooks that the caller may list."""
        return pages.narrowed(request, where, "runbook")

    def read(self, request: Request, body: object) -> Json:
        """Return the column values of a POST; the traits decide which nodes may run it."""
        values = super().read(request, body)
        self._refuse_steps(request, values)
        values["owner"] = _new_owner(request, values)
        if values.get("public") and values["owner"]:
            raise errors.InvalidParameter(path="owner", reason="a public runbook has no owner")
        return values

    def judge(self, _conn: Connection, request: Request, before: Json, patch: Operations) -> Json:
        """Return the changes of a runbook, or refuse them."""
        provisioning.judge(request, before, *_patch_rules(patch))
        changes = patches.runbook(before, patch, version=request.version)
        self._refuse_steps(request, changes)
        return changes

    def check_removal(self, _conn: Connection, request: Request, row: Json) -> None:
        """Refuse the removal of a runbook that the caller may not remove."""
        if request.access.limited:
            provisioning.judge(request, row)

    def _refuse_steps(self, request: Request, values: JsonView) -> None:
        """Refuse steps that the policy forbids the caller, or that cleaning and service forbid."""
        for rule in request.access.written(policy.of_steps(values.get("steps"))):
            request.access.demand(rule)
        api = self.service.conf.api
        disallowed = set(api.disallow_clean_steps) & set(api.disallow_service_steps)
        lead = "Schema error for runbook"
        schemas.refuse_disallowed_steps(values.get("steps", ()), disallowed, "steps", lead)


_write = functools.partial(
    expose.expose, since=step_lists.TRAITS_SINCE, status=HTTPStatus.NO_CONTENT
)
_delete = functools.partial(_write, "DELETE")
_put = functools.partial(_write, "PUT", body=expose.WHOLE)


class Traits(_Base):
    """The traits of a runbook: a node with one of these traits may run it."""

    @expose.expose("GET", "/runbooks/{ident}/traits", since=step_lists.TRAITS_SINCE)
    def index_of_runbook(self, request: Request, ident: str) -> TraitList:
        """Return all traits of a runbook, sorted."""
        return {"traits": self.find(request, ident)["traits"] or []}

    @_put("/runbooks/{ident}/traits")
    def replace(self, request: Request, ident: str) -> None:
        """Set all traits of a runbook."""
        if request.json in (None, {}):
            self._set_traits(
                request, ident, lambda held: held
            )  # a missing runbook is reported first
        wanted = schemas.trait_list(request.json)
        self._set_traits(request, ident, lambda _held: wanted)

    @_delete("/runbooks/{ident}/traits")
    def clear(self, request: Request, ident: str) -> None:
        """Remove all traits from a runbook; no node may run it afterwards."""
        self._set_traits(request, ident, lambda _held: [])

    @_put("/runbooks/{ident}/traits/{trait}")
    def give(self, request: Request, ident: str, trait: str) -> None:
        """Add one trait to a runbook; an existing trait is accepted."""
        place = f"/v1/runbooks/{ident}/traits"
        wanted = schemas.single_trait(request.json, trait, place)
        self._set_traits(request, ident, lambda held: sorted({*held, wanted}))
        request.answer.headers.append(("Location", f"{request.base}{place}/{wanted}"))

    @_delete("/runbooks/{ident}/traits/{trait}")
    def take(self, request: Request, ident: str, trait: str) -> None:
        """Remove one trait from a runbook; a missing trait is accepted."""
        self._set_traits(request, ident, lambda held: [one for one in held if one != trait])

    def _set_traits(
        self, request: Request, ident: str, change: Callable[[list[str]], list[str]]
    ) -> None:
        def judge(_conn: Connection, before: Json) -> Json:
            provisioning.judge(request, before)
            held = before["traits"] or []
            after = change(held)
            if len(after) > MOST_TRAITS:
                reason = (
                    f"a runbook has at most {MOST_TRAITS} traits, and this would make {len(after)}"
                )
                raise errors.InvalidParameter(path="traits", reason=reason)
            return {} if after == held else {"traits": after}

        self.alter(request, self.ident(request, ident), judge)


def _patch_rules(patch: Operations) -> tuple[str, ...]:
    """Return the names of the rules that a caller must pass for a PATCH."""
    owns = {"/owner": f"{_UPDATE}:owner", "/public": f"{_UPDATE}:public"}
    return tuple(dict.fromkeys(owns.get(each.path, _UPDATE) for each in patch)) or (_UPDATE,)


def _new_owner(request: Request, values: JsonView) -> str | None:
    """Return the owner of a new runbook: the caller's project, unless the token has system scope.

    :raises errors.InvalidParameter: a project names another owner, or makes a public runbook.
    :raises errors.Forbidden: the caller could not set the field by a PATCH.
    """
    access = request.access
    owner: str | None = values.get("owner")
    if not access.limited or access.system:
        # As a PATCH: not every caller who may add runbooks may set these fields.
        for name in ("owner", "public"):
            if values.get(name):
                access.demand(f"{_UPDATE}:{name}")
        return owner
    if values.get("public"):
        reason = "only a token with system scope can make runbooks public"
        raise errors.InvalidParameter(path="public", reason=reason)
    if owner and owner != access.project:
        reason = "only a token with system scope can create runbooks for other projects"
        raise errors.InvalidParameter(path="owner", reason=reason)
    return access.project


# Deploy templates: steps that a deployment adds by the traits of its instance. Changes of templates
# do not affect running deployments.


class DeployTemplates(crud.NamedResourceController, since=55, below=HTTPStatus.METHOD_NOT_ALLOWED):
    """The deploy templates.

    Inherited: GET, POST /v1/deploy_templates;
    GET, PATCH, DELETE /v1/deploy_templates/{ident}.
    """

    family = resources.DEPLOY_TEMPLATES
    word = "deploy_template"
    shown = views.DEPLOY_TEMPLATES
    asked = queries.DEPLOY_TEMPLATES

    def read(self, request: Request, body: object) -> Json:
        """Return the column values of a POST, or refuse them."""
        values = super().read(request, body)
        self._refuse_steps(request, values)
        return values

    def judge(self, _conn: Connection, request: Request, before: Json, patch: Operations) -> Json:
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
        schemas.refuse_disallowed_steps(values.get("steps", ()), disallowed, "steps", lead)
