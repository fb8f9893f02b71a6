"""Configuration, clock, threads and other services that every layer uses."""
