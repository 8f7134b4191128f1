"""Measures on the sphere carried by Transformer blocks: exact pieces, and the construction of measure to measure."""
