"""Exceptions as text, for failed calls.

The form is that of oslo.messaging's other transports, a JSON object in a string, so both sides of
an upgrade understand each other. Tracebacks stay in the server's log, because they may contain
secrets.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from types import TracebackType

import oslo_messaging

from ironic_lite.core.json_types import Json
from ironic_lite.rpc import encoding

Raised = tuple[type[BaseException], BaseException, TracebackType | None]


def dump(raised: Raised) -> str:
    """Return an exception as text.

    :param raised: as ``sys.exc_info()`` returns it. The exception's attribute ``kwargs``, if any,
        contains the keyword arguments to rebuild it with.
    """
    error = raised[1]
    data: Json = {
        "class": type(error).__name__,
        "module": type(error).__module__,
        "message": str(error),
        "tb": [],
        "args": error.args,
        "kwargs": getattr(error, "kwargs", {}),
    }
    try:
        return encoding.dumps(data).decode()
    except TypeError:
        # The caller gets a RemoteError with the message.
        return encoding.dumps({**data, "args": [str(error)], "kwargs": {}}).decode()


def load(text: str, modules: Collection[str]) -> Exception:
    """Return the exception that a text describes.

    :param modules: names of the modules whose exceptions are rebuilt.
    :returns: the exception itself, or an ``oslo_messaging.RemoteError`` with its class and message.
    """
    data: Json = encoding.loads(text.encode())
    name, module = data.get("class"), data.get("module")
    unknown: Exception = oslo_messaging.RemoteError(name, data.get("message"), data.get("tb"))
    if module not in modules:
        return unknown
    try:
        kind = getattr(importlib.import_module(str(module)), str(name))
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            return unknown
        return kind(*data.get("args", ()), **data.get("kwargs", {}))
    except (AttributeError, ImportError, TypeError):
        return unknown
