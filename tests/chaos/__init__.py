"""Two web processes and two workers under faults that a seed draws: see `__main__`."""
