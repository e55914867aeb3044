"""Figures of the running server, measured from outside: `python -m tests.bench`."""
