"""Images and other files that machines boot from or are written with: where they may come from,
whether they are what they should be, and how they are kept and handed out.

No node and no database is known here; drivers ask with plain values.
"""
