"""Limits on requests: the listening socket, concurrency, body size and duration."""
