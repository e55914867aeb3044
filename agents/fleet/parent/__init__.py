"""The parent's end: reaching children, starting them, giving them work, ending them."""
