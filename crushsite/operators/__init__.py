"""The admin's site for operators: its dashboard and its sign-in."""
