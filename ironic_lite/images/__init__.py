"""Images and boot files: permitted sources, verification, caching and serving.

This package knows no node and no database; drivers pass plain values.
"""
