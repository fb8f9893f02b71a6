"""Password hashes in the form of crypt(3), with a random salt."""

from __future__ import annotations

import threading

from oslo_utils import secretutils

from ironic_lite import errors

METHODS = {"sha256": "SHA-256", "sha512": "SHA-512"}
"""Values of [conductor]rescue_password_hash_algorithm, with their names in crypt(3)."""

# crypt(3) returns memory that all threads share.
_GUARD = threading.Lock()


def hashed(password: str, algorithm: str, *, path: str) -> str:
    """Return ``$5$salt$hash`` or ``$6$salt$hash``, as in a line of /etc/shadow.

    :param algorithm: one of ``METHODS``.
    :param path: of the password in the request, for a refusal.
    :raises errors.InvalidParameter: no system accepts it: it contains a null character, is not
        Unicode or is too long. The message does not repeat it.
    :raises errors.LibraryMissing: this machine has no libcrypt.
    """
    try:
        password.encode()
    except UnicodeEncodeError:
        raise errors.InvalidParameter(path=path, reason="is not Unicode text") from None
    if "\0" in password:  # crypt(3) would ignore everything after it
        raise errors.InvalidParameter(path=path, reason="has a null character")
    salt = secretutils.crypt_mksalt(METHODS[algorithm])
    try:
        with _GUARD:
            found = secretutils.crypt_password(password, salt)
    except RuntimeError:
        raise errors.LibraryMissing(library="libcrypt", purpose="hashes passwords") from None
    except AttributeError:  # no answer at all, in the way of glibc's own library
        found = ""
    if not found.startswith(f"{salt}$"):
        raise errors.InvalidParameter(path=path, reason="cannot be hashed; a shorter one may do")
    return found
