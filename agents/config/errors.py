"""Why a stored choice was not written. The text is meant for the client that asked."""

from __future__ import annotations

from workspaces.storage.errors import Refusal


class StoredConfigError(Refusal):
    """the stored configuration could not be changed"""

    code = "stored_config"


class InvalidScope(StoredConfigError):
    """scope must be 0 (user) or 1 (workspace)"""

    code = "invalid_scope"


class InvalidKey(StoredConfigError):
    """the key is not a dotted path of names"""

    code = "invalid_key"


class InvalidValue(StoredConfigError):
    """the value does not fit the key"""

    code = "invalid_value"


class ProviderRefused(StoredConfigError):
    """the provider cannot be used with a key alone"""

    code = "provider_refused"


class BrokenStoredFile(StoredConfigError):
    """the stored file is broken and was left as it is"""

    code = "broken_stored_file"
    status = 409


class NoToken(StoredConfigError):
    """the provider has no OAuth token that can be refreshed: log in again"""

    code = "no_token"


class RefreshRefused(StoredConfigError):
    """the provider did not refresh the token: log in again"""

    code = "refresh_refused"
    status = 409


class NotWritable(StoredConfigError):
    """the stored file cannot be written"""

    code = "not_writable"
    status = 409
