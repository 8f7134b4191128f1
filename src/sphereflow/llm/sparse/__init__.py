"""Attention that keeps the keys which matter, chosen by the geometry of values, beside plainer choices."""
