"""Messages to people about requests that wait for an answer."""
