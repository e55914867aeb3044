"""How each kind of server is spoken to while it is measured."""
