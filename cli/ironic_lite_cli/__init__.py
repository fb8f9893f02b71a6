"""Commands of the ``baremetal`` program, found by their entry points.

They use only the HTTP API, and import nothing of the service, which need not be installed.
"""
