"""Prompting from a terminal: through the running server, or in this process without one."""
