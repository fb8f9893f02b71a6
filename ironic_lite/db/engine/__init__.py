"""Connections, locking, encryption and paging: what all queries use."""
