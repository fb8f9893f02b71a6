"""What the values and bodies of requests must be like, from single values up to whole bodies."""
