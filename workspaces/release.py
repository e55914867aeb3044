"""The version of this server: the only place where it is written."""

VERSION = "0.1.0"
