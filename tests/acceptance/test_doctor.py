"""The doctor of real processes: healthy, with a stopped conductor, and with nothing running."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import time
from typing import Any

import pytest

from tests.emulators import redfish
from tests.support import certificates, service
from tests.support.service import SCRIPTS, Service

pytestmark = pytest.mark.feature("doctor")

FRESH = {"options", "programs", "file_server", "callback", "tftp"}
"""Checks that may be warnings where nothing is configured, as docs/doctor says."""


def doctor(found: Service, *words: str, **variables: str) -> tuple[int, Any]:
    """Run the command with the configuration of the service; return exit status and JSON."""
    command = [str(SCRIPTS / "ironic-lite-status"), "--config-file", str(found.settings)]
    done = subprocess.run(
        [*command, "doctor", "-f", "json", *words],
        env=service.environment(**variables),
        capture_output=True,
        text=True,
        timeout=service.PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def by_name(document: Any, where: str) -> dict[str, str]:
    """Return the results of the checks at a place."""
    found = [check for check in document["checks"] if check["where"].startswith(where)]
    assert all(bool(check["do"]) == (check["status"] != "ok") for check in found), found
    return {check["name"]: check["status"] for check in found}


def test_fresh_service_has_only_the_documented_warnings() -> None:
    with service.service() as found:
        found.start("ironic-lite")
        found.up()
        found.create("d1")
        status, document = doctor(found, "--node", "d1")
        assert (status, document["status"]) == (1, "warning")
        bad = {check["name"] for check in document["checks"] if check["status"] != "ok"}
        assert bad <= FRESH, document
        places = {check["where"].split()[0] for check in document["checks"]}
        assert places == {"this", "API", "conductor", "node"}
        assert by_name(document, "node").items() >= {"node": "ok", "settings": "ok"}.items()
        listed = subprocess.run(
            [str(SCRIPTS / "baremetal"), "doctor", "--node", "d1", "-f", "json"],
            env=service.environment(OS_AUTH_TYPE="none", OS_ENDPOINT=f"{found.url}/"),
            capture_output=True,
            text=True,
            timeout=service.PATIENCE,
            check=False,
        )
        assert listed.returncode == 1, listed.stderr
        rows = json.loads(listed.stdout)
        assert {row["name"] for row in rows} >= {"database", "conductor", "settings", "power"}


def test_paused_conductor_is_a_failed_check_and_no_hanging_request() -> None:
    with service.service() as found:
        upgrade = found.start("ironic-lite-dbsync", "upgrade")
        assert upgrade.process.wait(service.PATIENCE) == 0
        found.start("ironic-lite-api")
        programs = {host: found.start("ironic-lite-conductor", host=host) for host in ("c1", "c2")}
        service.until(
            lambda: len((found.get("/v1/conductors") or {}).get("conductors", ())) == 2, "two"
        )
        programs["c1"].process.send_signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            document = found.get("/v1/doctor")
            assert time.monotonic() - begun < service.PATIENCE
        finally:
            programs["c1"].process.send_signal(signal.SIGCONT)
        assert document["status"] == "failed"
        assert by_name(document, "conductor c1") == {"conductor": "failed"}
        assert by_name(document, "conductor c2")["conductor"] == "ok"


def test_command_works_when_nothing_runs() -> None:
    with service.service() as found:
        status, document = doctor(found)
        assert status == 2
        results = by_name(document, "this machine")
        assert (results["database"], results["schema"]) == ("failed", "unknown")
        assert (results["api"], results["disk"]) == ("failed", "ok")
        upgrade = found.start("ironic-lite-dbsync", "upgrade")
        assert upgrade.process.wait(service.PATIENCE) == 0
        status, document = doctor(found)
        assert status == 2
        results = by_name(document, "this machine")
        assert {name for name, result in results.items() if result == "failed"} == {"api"}
        assert (results["database"], results["schema"], results["write"]) == ("ok",) * 3


def test_command_logs_in_over_tls(tmp_path: pathlib.Path) -> None:
    certificate, key = certificates.write(tmp_path, 10)
    users = redfish.users(tmp_path, ann="s3cret-w0rd")
    more = (
        f"[api]\nauth_strategy = http_basic\nssl_cert_file = {certificate}\nssl_key_file = {key}\n"
        f"[DEFAULT]\nhttp_basic_auth_user_file = {users}\n"
    )
    with service.service(more, "https") as found:
        found.session.verify, found.session.auth = str(certificate), ("ann", "s3cret-w0rd")
        found.start("ironic-lite")
        found.up()
        status, document = doctor(found)
        assert (status, by_name(document, "this machine")["api"]) == (1, "warning")
        assert (
            "OS_USERNAME" in next(one for one in document["checks"] if one["name"] == "api")["do"]
        )
        status, document = doctor(found, OS_USERNAME="ann", OS_PASSWORD="s3cret-w0rd")
        assert (status, by_name(document, "this machine")["api"]) == (1, "ok")
        assert by_name(document, "API")["certificate"] == "warning"
        assert by_name(document, "this machine")["certificate"] == "warning"
        assert "s3cret" not in json.dumps(document)
