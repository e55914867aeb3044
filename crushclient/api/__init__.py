"""The generated part of the client: objects and operations of the native REST interface."""
