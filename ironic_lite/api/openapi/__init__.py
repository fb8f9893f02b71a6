"""The OpenAPI document, generated from the tables that the service uses itself.

``document`` walks the table of routes. ``parts`` describes resources, arguments and refusals from
the tables of fields, queries and errors. ``answers`` has the schemas that no table contains.
"""

from __future__ import annotations

from ironic_lite.api.openapi.document import Undescribed, document

__all__ = ["Undescribed", "document"]
