"""The pages of work in Django's admin: workspaces, approvals and runs."""
