"""A child process of our own: this server's turns behind the children's wire."""
