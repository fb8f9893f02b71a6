"""Keep the answers of Ironic in a file, because Ironic is slow and does not change."""

from __future__ import annotations

import json
import pathlib

from tests.compare.requests import Case, put
from tests.compare.services import Answer, Compared


class Recorded:
    """Ironic, and its answers of earlier runs.

    ``service`` is asked for answers that are not recorded.
    """

    def __init__(self, path: str | None) -> None:
        self.service: Compared | None = None
        self._answers: dict[str, Answer] = {}
        self._file = None if path is None else pathlib.Path(path)
        if self._file is not None and self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                key, status, headers, body = json.loads(line)
                self._answers[key] = Answer(status, headers, body.encode())

    def has(self, case: Case) -> bool:
        """Return whether an answer is recorded."""
        return repr(case) in self._answers

    def known(self, case: Case) -> Answer | None:
        """Return the answer of Ironic, None if it is neither recorded nor can be asked for."""
        return self.answer(case) if self.service is not None or self.has(case) else None

    def answer(self, case: Case) -> Answer:
        """Return the recorded answer of Ironic, or ask Ironic and record its answer."""
        key = repr(case)
        if key not in self._answers:
            if self.service is None:
                raise RuntimeError(f"no answer of Ironic to {case} is recorded")
            answer = put(case, self.service)
            self._answers[key] = answer
            if self._file is not None:
                told = [key, answer.status, answer.headers, answer.body.decode(errors="replace")]
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(told) + "\n")
        return self._answers[key]
