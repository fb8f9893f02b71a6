"""Identification of callers, and limits for requests without a login."""
