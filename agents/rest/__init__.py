"""The native resources about work, one file a resource."""
