"""Why a stored choice was not written. The text is meant for the client that asked."""

from __future__ import annotations


class StoredConfigError(Exception):
    """the stored configuration could not be changed"""

    code = "stored_config"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or type(self).__doc__)

    @property
    def message(self) -> str:
        return str(self)


class InvalidScope(StoredConfigError):
    """scope must be 0 (user) or 1 (workspace)"""

    code = "invalid_scope"


class InvalidKey(StoredConfigError):
    """the key is not a dotted path of names"""

    code = "invalid_key"


class InvalidValue(StoredConfigError):
    """the value does not fit the key"""

    code = "invalid_value"


class BrokenStoredFile(StoredConfigError):
    """the stored file is broken and was left as it is"""

    code = "broken_stored_file"


class NotWritable(StoredConfigError):
    """the stored file cannot be written"""

    code = "not_writable"
