"""Requests that wait for a change, and streams of events.

They are answered from the rows that each change writes in its own transaction (`feed`). A
process keeps nothing that must survive it: the position of a client is its cursor.
"""
