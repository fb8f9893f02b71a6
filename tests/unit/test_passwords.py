"""Hashing passwords in the form of crypt(3)."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from oslo_utils import secretutils

from ironic_lite import errors
from ironic_lite.conductor.flows import rescue
from ironic_lite.core import options

FORMS = {
    "sha256": re.compile(r"\$5\$[A-Za-z0-9./]{16}\$[A-Za-z0-9./]{43}"),
    "sha512": re.compile(r"\$6\$[A-Za-z0-9./]{16}\$[A-Za-z0-9./]{86}"),
}


def test_the_algorithms_are_those_of_the_option() -> None:
    name = "rescue_password_hash_algorithm"
    row: Any = next(row for row in options.GROUPS["conductor"] if row.name == name)
    assert set(row.type.choices) == set(rescue.HASH_METHODS) == set(FORMS)


@pytest.mark.parametrize("algorithm", FORMS)
def test_a_hash_has_the_form_of_crypt_and_a_salt_of_its_own(algorithm: str) -> None:
    one, other = (rescue.hashed_password("sésame", algorithm, path="x") for _ in range(2))
    assert FORMS[algorithm].fullmatch(one)
    assert one != other
    assert secretutils.crypt_password("sésame", one) == one
    assert secretutils.crypt_password("sesame", one) != one


@pytest.mark.parametrize("wrong", ["a\0b", "\ud800", "x" * 20000], ids=["null", "half", "long"])
def test_invalid_password_is_refused_without_repeating_it(wrong: str) -> None:
    with pytest.raises(errors.InvalidParameter) as refusal:
        rescue.hashed_password(wrong, "sha256", path="rescue_password")
    assert refusal.value.message.startswith("rescue_password: ")
    assert wrong not in refusal.value.message


def test_threads_at_once_get_the_hashes_of_their_own_passwords() -> None:
    given = [f"password {number}" for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda one: rescue.hashed_password(one, "sha256", path="x"), given))
    # Checked afterwards: the check uses the memory that the threads shared.
    for password, found in zip(given, made, strict=True):
        assert secretutils.crypt_password(password, found) == found


def test_a_machine_without_libcrypt_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secretutils, "_crypt", None)  # as on a system that has none
    with pytest.raises(errors.LibraryMissing) as refusal:
        rescue.hashed_password("secret", "sha256", path="rescue_password")
    assert "lacks libcrypt" in refusal.value.message
    assert not refusal.value.retryable
