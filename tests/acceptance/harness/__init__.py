"""Real processes over real sockets, for the acceptance tests and the bench."""
