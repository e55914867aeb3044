"""The JSON document that a child reads from its standard input before it serves."""
