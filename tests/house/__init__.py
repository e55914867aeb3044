"""Figures about the layout of the source tree: `python -m tests.house`."""
