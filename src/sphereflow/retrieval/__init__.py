"""Causal attention: who influences whom, and how much of a token can be read off the last one."""
