"""The record of a rule, and the checks that the default rules are composed of."""

from __future__ import annotations

import dataclasses

SYSTEM = ("system",)
BOTH = ("system", "project")
ANYONE = ""
"""The check that every caller passes, even without a login."""
LOGGED_IN = "@"
"""The check that every caller with a login passes."""

VENDOR_METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
VENDOR_PLACES = ("/vendor_passthru", "/vendor_passthru/{method}")
"""HTTP methods of vendor passthru, and its paths below an object."""

NODE, ALLOCATION, RUNBOOK, BATCH = "node", "allocation", "runbook", "batch"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A policy rule.

    ``check`` is the default, in the language of oslo.policy. ``operations`` are the routes that it
    guards, as ``GET /nodes/{ident}``. ``about`` is the kind of object whose owner the check uses,
    "" for none. ``scope`` are the token scopes that may pass.
    """

    name: str
    check: str
    says: str
    operations: tuple[str, ...] = ()
    about: str = ""
    scope: tuple[str, ...] = BOTH

    @property
    def public(self) -> bool:
        """True if its routes need no login; the override of a policy file is still checked."""
        return self.check == ANYONE

    @property
    def lists(self) -> bool:
        """True if the rule is for listing the caller's own objects; ``..._all`` lists the rest."""
        return not self.about and self.name.endswith(":list")


# -- personas --------------------------------------------------------------------------------


def any_of(*checks: str) -> str:
    """Return the check that is passed if one of these is passed."""
    return " or ".join(f"({check})" for check in checks)


def of(role: str, owner: str) -> str:
    """Return the check of a role in the owning project; ``owner`` is a key of the target."""
    return f"role:{role} and project_id:%({owner})s"


OWNED_OR_LEASED = "(project_id:%(node.owner)s or project_id:%(node.lessee)s)"
ADMIN = "role:admin and system_scope:all"
SERVICE = "role:service and system_scope:all"
MEMBER = "(role:member and system_scope:all) or rule:service_role"
READER = f"(role:reader and system_scope:all) or ({SERVICE}) or rule:service_role"
OWNER_SERVICE = of("service", "node.owner")
OWNER_ADMIN, OWNER_MANAGER = of("admin", "node.owner"), of("manager", "node.owner")
LESSEE = (of("admin", "node.lessee"), of("manager", "node.lessee"))
ANY_READER = "(role:reader) or (role:service)"

SEES = any_of(READER, f"role:reader and {OWNED_OR_LEASED}", OWNER_SERVICE)
USES = any_of(MEMBER, f"role:member and {OWNED_OR_LEASED}", SERVICE)
RUNS = any_of(MEMBER, SERVICE, of("member", "node.owner"), *LESSEE, OWNER_SERVICE)
CREATES = any_of(ADMIN, SERVICE, OWNER_ADMIN, OWNER_MANAGER, OWNER_SERVICE)
MANAGES = any_of(MEMBER, SERVICE, OWNER_ADMIN, OWNER_MANAGER, OWNER_SERVICE)
OWNS = any_of(MEMBER, SERVICE, of("member", "node.owner"), OWNER_SERVICE)
OWNER_SEES = any_of(READER, SERVICE, of("reader", "node.owner"), OWNER_SERVICE)
ATTACHES = any_of(MEMBER, SERVICE, OWNER_ADMIN, OWNER_MANAGER, *LESSEE, OWNER_SERVICE)
ALLOCATES = any_of(MEMBER, of("member", "allocation.owner"))
RUNBOOKS = any_of(MEMBER, of("manager", "runbook.owner"), "role:service")
