"""The name of a test has a subject: it does not begin with a pronoun or a question."""

from __future__ import annotations

import pathlib
import re

TESTS = pathlib.Path(__file__).parents[1]
NO_SUBJECT = re.compile(
    r"test_(?:s\d_\d\d_)?"
    r"(?:it|its|they|them|those|he|she|none|others|such|so|nobody|somebody|neither|one_(?:that|whose)"
    r"|who(?:ever|m|se)?|(?:what|which|when|where)(?:ever)?|how)_"
)


def test_names_of_tests_have_a_subject() -> None:
    found = [
        f"{path.relative_to(TESTS)} {name}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in re.findall(r"^ *def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        if NO_SUBJECT.match(f"{name}_")
    ]
    assert found == []
