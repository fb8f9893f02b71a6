"""Run migrations over the connection that ``ironic_lite.db.tables.migrate`` provides."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("Migrations are run by ironic-lite-dbsync upgrade, not by alembic itself.")
# The caller owns the transaction: on SQLite and PostgreSQL a failed upgrade leaves nothing behind.
# MariaDB commits each statement that changes a table.
context.configure(connection=connection, transactional_ddl=True)
context.run_migrations()
