"""Tabs beside the sphere: each module has a `TITLE` and a `build(around)` that fills the current container."""
