"""Recordings of BMCs: their documents, read by GET alone and written without private data."""
