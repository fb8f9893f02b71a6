"""Options of [database]: its URL, its connections, encryption."""

from __future__ import annotations

from oslo_config import cfg

from ironic_lite.core.options import rows

DATABASE = (
    cfg.StrOpt(
        "connection",
        secret=True,
        help="SQLAlchemy URL: sqlite:////path/file, postgresql+psycopg://user:password@host/name "
        "or mysql+pymysql://user:password@host/name. Unset, ironic-lite.sqlite in state_path.",
    ),
    cfg.ListOpt(
        "encryption_keys",
        default=[],
        secret=True,
        help="Fernet keys. The first encrypts secret values in the database, and all decrypt. "
        "'none' as the first leaves new values as they are. Before a key becomes the first, "
        "every process must have it at a later place; 'ironic-lite-dbsync reencrypt' "
        "rewrites the rest. A key is 32 random bytes in URL-safe base64.",
    ),
    cfg.IntOpt("max_pool_size", default=10, min=1, help="Connections a process keeps open."),
    cfg.IntOpt(
        "max_overflow",
        default=50,
        min=0,
        help="Connections a process opens beyond max_pool_size while it is busy.",
    ),
    rows.seconds("pool_timeout", 30, "Seconds a thread waits for a connection.", least=1),
    rows.seconds(
        "connection_recycle_time", 3600, "Seconds after which a connection is renewed.", least=1
    ),
    rows.seconds("connect_timeout", 10, "Seconds that connecting may take.", least=1),
    rows.seconds(
        "statement_timeout",
        30,
        "Seconds one statement may take on PostgreSQL and MariaDB.",
        least=1,
    ),
    rows.seconds(
        "sqlite_busy_timeout",
        10,
        "Seconds a writer of SQLite waits for the writer before it.",
        least=1,
    ),
)
