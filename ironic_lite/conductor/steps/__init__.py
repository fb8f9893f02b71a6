"""Steps: the lists of steps, and the engine that runs them."""
