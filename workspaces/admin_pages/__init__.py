"""The base of all admin pages: read-only rows, lists that are not counted, columns and filters."""
