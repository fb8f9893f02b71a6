"""Commands that the ``baremetal`` program of python-ironicclient finds by their entry points.

They speak to the service over HTTP alone, and know nothing of its code.
"""
