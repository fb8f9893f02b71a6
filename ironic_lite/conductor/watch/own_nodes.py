"""A conductor's own nodes for sweeps that need whole rows.

In a large fleet most rows belong to other conductors, and decoding all columns of a row costs much
more than deciding its owner. So few columns of all nodes are read first, and then the whole rows of
the own nodes, just before they are needed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

from ironic_lite.db.engine.session import Transactions
from ironic_lite.db.queries import sweeps
from ironic_lite.records import Node

_PAGE = 5000  # rows with few columns
_WHOLE = 500

Question = Callable[..., list[sweeps.Candidate]]
"""A query of ``sweeps`` that takes ``after_id`` and ``limit``."""


def read(
    database: Transactions,
    question: Question,
    wanted: Callable[[sweeps.Candidate], bool],
    *,
    after_id: int = 0,
) -> Iterator[Node]:
    """Yield the wanted nodes by their id, after ``after_id``.

    A node may have changed since the question, also by a lock: check again what must hold.
    """
    ids = (row["id"] for row in _candidates(database, question, after_id) if wanted(row))
    while some := list(itertools.islice(ids, _WHOLE)):
        yield from map(Node.of, database.read(functools.partial(sweeps.whole, ids=some)))


def _candidates(
    database: Transactions, question: Question, after_id: int
) -> Iterator[sweeps.Candidate]:
    while True:
        page = database.read(functools.partial(question, after_id=after_id, limit=_PAGE))
        yield from page
        if len(page) < _PAGE:
            return
        after_id = page[-1]["id"]
