"""Django's form of a sign-in, which checks no password while its account or address is throttled."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from typing_extensions import override

from people.pages.sender import address_of
from people.sign_in_throttle import PASSWORDS, keys_of


class ThrottledForm(AuthenticationForm):
    @override
    def clean(self) -> dict[str, Any]:
        address = "" if self.request is None else address_of(self.request)
        keys = keys_of(str(self.cleaned_data.get("username", "")), address)
        if seconds := PASSWORDS.wait_seconds(*keys):
            raise throttled(seconds)
        try:
            cleaned = super().clean()
        except ValidationError:
            PASSWORDS.fail(*keys)
            raise
        if self.get_user() is not None:  # without a password nothing was checked
            # The address keeps its count: it may be guessing at other accounts.
            PASSWORDS.succeed(keys[0])
        return cleaned


def throttled(seconds: int) -> ValidationError:
    unit = "second" if seconds == 1 else "seconds"
    return ValidationError(
        f"Too many failed attempts. Try again in {seconds} {unit}.", code="throttled"
    )
