"""Keep the answers of Ironic in a file, because Ironic is slow and does not change."""

from __future__ import annotations

import json
import pathlib

from tests.compare.requests import Case, put
from tests.compare.services import Answer, Compared


class Recorded:
    """Ironic, and its answers of earlier runs."""

    def __init__(self, service: Compared, path: str | None) -> None:
        self._service = service
        self._answers: dict[str, Answer] = {}
        self._file = None if path is None else pathlib.Path(path)
        if self._file is not None and self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                key, status, headers, body = json.loads(line)
                self._answers[key] = Answer(status, headers, body.encode())

    def answer(self, case: Case) -> Answer:
        """Return the recorded answer of Ironic, or ask Ironic and record its answer."""
        key = repr(case)
        if key not in self._answers:
            answer = put(case, self._service)
            self._answers[key] = answer
            if self._file is not None:
                told = [key, answer.status, answer.headers, answer.body.decode(errors="replace")]
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(told) + "\n")
        return self._answers[key]
