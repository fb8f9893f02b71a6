"""The document of the API: made from the tables that the service itself works by.

``document`` walks the table of routes; ``parts`` words resources, arguments and refusals from the
tables of fields, queries and errors; ``answers`` has what no table tells.
"""

from __future__ import annotations

from ironic_lite.api.openapi.document import Undescribed, document

__all__ = ["Undescribed", "document"]
