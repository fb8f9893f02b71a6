"""Run migrations over the connection that ``ironic_lite.db.migrate`` hands over."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("Migrations are run by ironic-lite-dbsync upgrade, not by alembic itself.")
# The transaction belongs to whoever gave the connection: on SQLite and PostgreSQL an upgrade that
# fails leaves nothing behind. MariaDB commits each statement that changes a table.
context.configure(connection=connection, transactional_ddl=True)
context.run_migrations()
