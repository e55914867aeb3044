"""The wire between a parent and its child, without I/O: parses and writes frames.

Pure: no clock, no loop, no socket. The parser refuses what the other programs' parsers
refuse, and the output is byte for byte the same as theirs.
"""
