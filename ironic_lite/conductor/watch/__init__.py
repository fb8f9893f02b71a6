"""Background work: periodic, idempotent sweeps whose only input is the database."""
