"""The program on the command line: `crush-server`, and `manage.py` in a checkout."""
