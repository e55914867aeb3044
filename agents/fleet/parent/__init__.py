"""The parent: starts children or connects to them, gives them work, and ends them."""
