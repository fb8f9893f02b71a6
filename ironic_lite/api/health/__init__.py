"""Answers for those who watch the service: they stand before routes and need no resource."""
