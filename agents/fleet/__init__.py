"""Sub-agents over WebSocket: the wire, the child, the parent, and the files on disk."""
