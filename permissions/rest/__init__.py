"""The native resources about grants and the approval policy."""
