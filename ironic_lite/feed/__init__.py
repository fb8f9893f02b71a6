"""The event table as clients follow it: settled cursors, the newest events, filters."""
