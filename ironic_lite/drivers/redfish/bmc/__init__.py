"""Connections, sessions and requests to one BMC."""
