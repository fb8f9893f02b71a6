"""Probes and metrics for monitoring: answered before routing, without a resource."""
