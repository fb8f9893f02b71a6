"""Commands of the ``baremetal`` program, found by their entry points.

They use only the HTTP API and import none of the service's code.
"""
