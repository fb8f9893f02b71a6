"""What nobody calls for: periodic, idempotent sweeps that take no input but the database."""
