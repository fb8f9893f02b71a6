"""Run the API tests of ironic-tempest-plugin, unmodified, against this service: ``make tempest``.

They run in a virtual environment of their own. The stand-in for Keystone of ``tests.compare`` logs
their users in. The tests assume that a request without a version speaks the oldest, so the service
is told so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys

from tests.compare import identity
from tests.support import service

SECONDS = 900
_ROLES = {
    "admin": ("admin", "manager", "member", "reader"),
    "manager": ("manager", "member", "reader"),
    "member": ("member", "reader"),
    "reader": ("reader",),
}
_PROJECTS = {"system": None, "project": "tempest", "project_alt": "tempest-alt"}
USERS: identity.Personas = {
    f"{scope}_{role}": (roles, project)
    for scope, project in _PROJECTS.items()
    for role, roles in _ROLES.items()
}
_OLDER = "asks in an older version, which is refused before the right: docs/differences.rst"
EXPECTED = {
    "admin.test_nodes.TestNodesVif.": "needs Neutron",
    "TestInspectionRules.test_create_rule_complex_logging_conditions_actions": "reads a password "
    "back that is shown as ******",
    "TestNodeSystemReader.test_reader_cannot_set_boot_mode": _OLDER,
    "TestNodeSystemReader.test_reader_cannot_set_secure_boot": _OLDER,
}
"""Failures that are known, and why they are no fault, by a part of their names."""

_KINDS = ("console", "inspect", "raid", "bios", "firmware", "vendor", "rescue")
_ONLY_FAKE = ("boot", "deploy", "management", "power")
_INTERFACES = "\n".join(
    (
        *(f"enabled_{kind}_interfaces = fake,no-{kind}" for kind in _KINDS),
        *(f"enabled_{kind}_interfaces = fake" for kind in _ONLY_FAKE),
    )
)
_SERVICE = """
[DEFAULT]
{interfaces}
[api]
auth_strategy = keystone
default_version = 1.1
[keystone_authtoken]
www_authenticate_uri = {url}
auth_url = {url}
auth_type = password
username = ironic
password = secret
project_name = services
user_domain_id = default
project_domain_id = default
"""
_TEMPEST = """
[DEFAULT]
log_file = {folder}/tempest.log
[oslo_concurrency]
lock_path = {folder}/locks
[auth]
use_dynamic_credentials = false
test_accounts_file = {folder}/accounts.yaml
[identity]
uri_v3 = {url}/v3
auth_version = v3
region = RegionOne
[identity-feature-enabled]
api_v2 = false
[service_available]
ironic = true
[enforce_scope]
ironic = true
[compute]
build_interval = 1
build_timeout = 60
[baremetal]
driver = fake-hardware
endpoint_type = publicURL
enabled_hardware_types = fake-hardware
{interfaces}
"""
_ENDED = re.compile(r"^(?:FAIL|ERROR): (\S+)", re.MULTILINE)
_COUNT = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)


def _accounts() -> str:
    """Return the file of users, as JSON, which is YAML too."""
    rows = []
    for name, (roles, project) in USERS.items():
        place = {"project_name": project, "project_domain_name": "Default"}
        rows.append(
            {
                "username": name,
                "password": "secret",
                "user_domain_name": "Default",
                "roles": roles[:1],
                **({"system": "all"} if project is None else place),
            }
        )
    return json.dumps(rows)


def run(venv: pathlib.Path, modules: list[str]) -> str:
    """Return what the test runner prints.

    :param venv: the virtual environment of ironic-tempest-plugin.
    :param modules: names of modules of tests; none: all of the API.
    """
    python = venv.absolute() / "bin/python"
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(service.service())
        users = {**USERS, identity.SERVICE: identity.PERSONAS[identity.SERVICE]}
        keystone = identity.Identity(users, {"baremetal": found.url})
        stack.callback(keystone.close)
        values = {"url": keystone.url, "folder": found.folder, "interfaces": _INTERFACES}
        text = found.settings.read_text(encoding="utf-8") + _SERVICE.format(**values)
        found.settings.write_text(text, encoding="utf-8")
        found.session.headers["X-Auth-Token"] = "system_admin"
        found.start()
        found.up()
        (found.folder / "accounts.yaml").write_text(_accounts(), encoding="utf-8")
        (found.folder / "tempest.conf").write_text(_TEMPEST.format(**values), encoding="utf-8")
        env = service.environment(
            TEMPEST_CONFIG_DIR=str(found.folder), TEMPEST_CONFIG="tempest.conf"
        )
        command = [str(python), "-m", "testtools.run", *(modules or _all(python))]
        done = subprocess.run(
            command,
            cwd=found.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    return done.stdout


def _all(python: pathlib.Path) -> list[str]:
    """Return the names of the plugin's modules of API tests."""
    asked = "import ironic_tempest_plugin as it; print(it.__path__[0])"
    told = subprocess.run([str(python), "-c", asked], stdout=subprocess.PIPE, text=True, check=True)
    root = pathlib.Path(told.stdout.strip())
    files = sorted(root.glob("tests/api/*/test_*.py"))
    return [".".join(file.relative_to(root.parent).with_suffix("").parts) for file in files]


def main() -> int:
    """Print each failure and a count; 1 if one of them is not expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=pathlib.Path)
    parser.add_argument("modules", nargs="*")
    given = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        text = run(given.venv, given.modules)
    count = _COUNT.search(text)
    failed = _ENDED.findall(text)
    new = 0
    for name in failed:
        why = next((why for part, why in EXPECTED.items() if part in name), None)
        new += why is None
        print(f"{name}: {why or 'NOT EXPECTED'}")
    if new or count is None:
        print(text, file=sys.stderr)
    print(f"{count[1] if count else 0} run, {len(failed)} failed, {new} of them not expected")
    return int(bool(new) or count is None)


if __name__ == "__main__":
    sys.exit(main())
