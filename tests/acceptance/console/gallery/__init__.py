"""A server with the work of a small shop on it, and pictures of every page that shows it."""
