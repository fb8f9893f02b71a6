"""Choose native threads for the oslo libraries, before the first of them is imported.

oslo.messaging depends on oslo.service, which depends on eventlet and imports it unless told
otherwise: three times the import time and twice the memory for something nobody here uses. Entry
points, the WSGI module and the tests call `native` as their first statement; library modules
never do.
"""

from __future__ import annotations

import importlib
import sys


def native() -> None:
    """Keep eventlet out of this process and select the threading backend of oslo.service.

    Calling it again is harmless. So is calling it in a program that has loaded eventlet, or
    chosen a backend of oslo.service, before: what is loaded stays, and the choice of that program
    stands.
    """
    if "eventlet" not in sys.modules:
        # None makes `import eventlet` an ImportError, which the oslo libraries are prepared for.
        sys.modules["eventlet"] = None  # type: ignore[assignment]
    # Imported here and not above, because eventlet must be masked first.
    backend = importlib.import_module("oslo_service.backend")
    if backend.get_backend_type() is None:
        backend.init_backend(backend.BackendType.THREADING)
