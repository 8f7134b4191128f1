"""Samples of y given any x: Maurey's construction, and the sampler it makes."""
