"""Deadlines of RPC calls: the time a caller waits, known at both ends."""
