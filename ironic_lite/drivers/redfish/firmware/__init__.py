"""Firmware versions and updates."""
