"""What controllers share: to find, show, list, create and change what the database holds."""
