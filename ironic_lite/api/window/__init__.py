"""The window: a web interface below ``/ui/``, served from memory by the API process."""
