"""The native REST interface: its base, and the resources of workspaces."""
