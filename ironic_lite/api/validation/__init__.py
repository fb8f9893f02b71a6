"""Checks of requests, from single values up to whole bodies."""
