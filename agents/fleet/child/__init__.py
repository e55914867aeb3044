"""A child: whoever dials in gives it assignments, and it streams back what it does.

Nothing here imports Django: a child that only echoes starts without a database.
"""
