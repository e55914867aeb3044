"""A child: accepts assignments from the parents that connect, and streams events back.

Nothing here imports Django: a child that only echoes starts without a database.
"""
