"""Shipped sweeps, one TOML file each."""
