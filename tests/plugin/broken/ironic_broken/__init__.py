"""A package of drivers of which nothing works."""
