"""Faults of everything around the service, under load, and a judge who reads what has happened.

``python -m tests.chaos --help`` says how to run it; docs/faults.rst what is done and found.
"""
