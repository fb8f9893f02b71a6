"""Tables of the database and their migrations."""
