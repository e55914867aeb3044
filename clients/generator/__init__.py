"""Generates the types and operations of the clients from the server's schemas."""
