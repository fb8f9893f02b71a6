"""Sensor values of a machine."""
