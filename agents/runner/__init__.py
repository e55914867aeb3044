"""Performs the turn's effects: one asyncio task a run."""
