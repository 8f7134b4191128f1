"""Transformers with random weights: noise that all tokens share."""
