"""Connections to servers over TLS, by what the URL says: to servers of our own, on free ports."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine import session
from tests.emulators import redfish
from tests.support import private_servers


class _Tls(private_servers.Server):
    """A server with a certificate that is its own authority."""

    def _keys(self) -> tuple[str, str]:
        found = []
        for name in ("bmc.pem", "bmc.key"):
            path = self.folder / name
            if not path.exists():
                shutil.copy(self.folder.parent / name, path)
                path.chmod(0o600)
                if self._user is not None:
                    shutil.chown(path, self._user)
            found.append(str(path))
        return found[0], found[1]


class PostgreSQL(private_servers.PostgreSQL, _Tls):
    """PostgreSQL that speaks TLS, if it is asked to."""

    used = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    verified = "?sslmode=verify-full&sslrootcert={}"

    def command(self) -> list[str]:
        """Return what starts it."""
        certificate, key = self._keys()
        more = {"ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": key}
        words = [word for name, value in more.items() for word in ("-c", f"{name}={value}")]
        return [*super().command(), *words]


class MariaDB(private_servers.MariaDB, _Tls):
    """MariaDB that speaks TLS, if it is asked to."""

    used = "SELECT variable_value <> '' FROM information_schema.session_status "
    used += "WHERE variable_name = 'Ssl_cipher'"
    verified = "?ssl_ca={}&ssl_check_hostname=true"

    def command(self) -> list[str]:
        """Return what starts it."""
        certificate, key = self._keys()
        return [*super().command(), f"--ssl-cert={certificate}", f"--ssl-key={key}"]


@pytest.fixture(params=[PostgreSQL, MariaDB], ids=["postgresql", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[PostgreSQL | MariaDB]:
    with tempfile.TemporaryDirectory(prefix="tls-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        redfish.certificate(folder)
        try:
            found = request.param(folder)
        except private_servers.Lacking as why:
            pytest.skip(f"NOT TESTED: {why}")
        try:
            yield found
        finally:
            found.stop()


def test_the_url_turns_tls_on_and_has_it_verified(server: PostgreSQL | MariaDB) -> None:
    plain = server.url(server.port)
    own = plain + server.verified.format(server.folder.parent / "bmc.pem")
    with contextlib.closing(session.open_database(own)) as database:
        assert database.read(lambda conn: conn.execute(sa.text(server.used)).scalar())

    stranger = server.folder.parent / "stranger"
    stranger.mkdir()
    redfish.certificate(stranger)
    wrong = plain + server.verified.format(stranger / "bmc.pem")
    with contextlib.closing(session.open_database(wrong)) as database:
        with pytest.raises(errors.Unavailable) as refusal:
            database.read(lambda conn: conn.execute(sa.text("SELECT 1")))
        assert "certificate" in refusal.value.message.lower()
