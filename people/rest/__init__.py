"""Native resources of users, members, tokens and the audit."""
