#!/usr/bin/env python
"""Runs a command in a checkout: the project's own, and Django's."""

from crushsite.__main__ import main

if __name__ == "__main__":
    main()
