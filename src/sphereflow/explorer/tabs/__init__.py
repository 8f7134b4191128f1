"""Tabs of the page beside the sphere: each module has a `TITLE` and a `build()` that fills the current container."""

NAMES = ("landscape", "retrieval", "memory", "heads")
