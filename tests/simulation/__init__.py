"""Simulates many hosts in one process: `python -m tests.simulation --help`."""
