"""The native resources of this app."""
