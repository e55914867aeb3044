"""Sub-agents over WebSocket: the wire, the child's end, the parent's end, and what lies on disk."""
