"""Shared parts of the controllers: find, show, list, create and change database rows."""
