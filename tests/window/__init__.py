"""The window in a real browser: one browser and one service for all tests of this package."""
