"""The WSGI module serves from its environment alone, and says in one line what is wrong with it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

from ironic_lite.db.engine import session

CALL = """
import sys
from ironic_lite.api import wsgi
from tests.support.wsgi_client import Client
answer = Client(wsgi.application).get("/v1/nodes")
print(answer.status, answer.body.decode())
print("eventlet" in sys.modules and sys.modules["eventlet"] is not None)
print(wsgi.config.CONF.api.max_limit)
"""


def run(code: str, config: pathlib.Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "IRONIC_LITE_CONFIG_FILES": str(config)}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_any_server_can_serve_it(
    tmp_path: pathlib.Path, make_sqlite: Callable[[], session.Database]
) -> None:
    config = tmp_path / "api.conf"
    url = make_sqlite().url.render_as_string()
    config.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n"
        "[api]\nmax_limit = 7\n"
    )
    done = run(CALL, config)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ['200 {"nodes":[]}', "False", "7"]


def test_a_database_without_tables_is_told_to_the_caller(tmp_path: pathlib.Path) -> None:
    config = tmp_path / "api.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    (tmp_path / "ironic-lite.sqlite").touch()
    done = run(CALL, config)
    (answer,) = (line for line in done.stdout.splitlines() if line.startswith("500 "))
    assert "ironic-lite-dbsync upgrade" in answer


def test_missing_database_file_is_not_created_and_answered_503(tmp_path: pathlib.Path) -> None:
    config = tmp_path / "api.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    done = run(CALL, config)
    assert any(line.startswith("503 ") for line in done.stdout.splitlines()), done.stderr
    assert not (tmp_path / "ironic-lite.sqlite").exists()


def test_a_bad_configuration_is_one_line_and_status_2(tmp_path: pathlib.Path) -> None:
    config = tmp_path / "api.conf"
    config.write_text("[api]\nmax_limit = many\n")
    done = run("import ironic_lite.api.wsgi", config)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "max_limit" in done.stderr
