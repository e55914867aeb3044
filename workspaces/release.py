"""The version of this server, defined only here."""

VERSION = "0.1.0"
