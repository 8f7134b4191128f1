"""Runs to look at on a web site: an index with pictures, and one page for each run that needs no server."""
