"""The flows: one module per verb, its actions in the order of execution."""
