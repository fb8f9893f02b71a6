"""Attacks on real processes at work, judged from outside.

``attacks`` has one table of attacks, ``connections`` the raw clients that they are made of,
``outside`` reads descriptors, threads, memory and locks of the processes, ``story`` runs it all.
"""
