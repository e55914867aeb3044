"""Clients in other languages, and the generator of what clients take from the schema."""
