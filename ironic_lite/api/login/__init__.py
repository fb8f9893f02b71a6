"""Who asks: one way for each [api]auth_strategy, and bounds for those who need no login."""
