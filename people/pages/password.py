"""The page on which people change their own password.

Django's form, with the throttle of sign-ins: with a session that somebody left open nobody guesses
the password. A user without a password sets one after a sign-in by a login link.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import password_validators_help_texts
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from typing_extensions import override

from people.actions.users import replace_password
from people.identities import IDENTITIES
from people.pages.form import throttled
from people.pages.sender import actor_of, address_of
from people.pages.sign_in import came_by_link, note_this_browser
from people.sign_in_throttle import PASSWORDS, keys_of
from workspaces.log.writer import writer

if TYPE_CHECKING:
    _SetPasswordForm: TypeAlias = SetPasswordForm[User]
else:
    _SetPasswordForm = SetPasswordForm

CHANGED = "Your password is changed. Other browsers are signed out. Tokens stay valid."


class NewPasswordForm(_SetPasswordForm):
    """For users who have no password yet."""

    def __init__(self, *args: Any, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = address
        # The framework's own text is a list, which does not fit into a paragraph.
        self.fields["new_password1"].help_text = " ".join(password_validators_help_texts())


class ChangePasswordForm(NewPasswordForm, PasswordChangeForm):
    @override
    def clean_old_password(self) -> str:
        """Checks no password while the account or the address is throttled."""
        keys = keys_of(self.user.get_username(), self.address)
        if seconds := PASSWORDS.wait_seconds(*keys):
            raise throttled(seconds)
        try:
            old: str = super().clean_old_password()
        except ValidationError:
            PASSWORDS.fail(*keys)
            raise
        PASSWORDS.succeed(keys[0])
        return old


@method_decorator(never_cache, name="dispatch")
class PasswordPage(PasswordChangeView):
    template_name = "people/password.html"
    http_method_names = ["get", "head", "post"]

    @property
    def _user(self) -> User:
        return cast("User", self.request.user)  # the framework's view lets nobody else in

    @property
    def _may_set(self) -> bool:
        return self._user.has_usable_password() or came_by_link(self.request)

    @override
    def get_form_class(self) -> type[Any]:
        return ChangePasswordForm if self._user.has_usable_password() else NewPasswordForm

    @override
    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"address": address_of(self.request)}

    @override
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(may_set=self._may_set, **kwargs)

    @override
    def post(self, request: HttpRequest, *args: str, **kwargs: Any) -> HttpResponse:
        if not self._may_set:
            return self.render_to_response(self.get_context_data(), status=403)
        return super().post(request, *args, **kwargs)

    @override
    def form_invalid(self, form: Any) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=400)

    @override
    def form_valid(self, form: Any) -> HttpResponse:
        before = self._user.password
        # Hashing takes long, so not in the transaction.
        user = form.save(commit=False)
        change = partial(replace_password, user=user, before=before, actor=actor_of(self.request))
        writer.write_and_wait("", change)
        IDENTITIES.forget()
        update_session_auth_hash(self.request, user)
        note_this_browser(self.request, user)
        messages.success(self.request, CHANGED)
        return HttpResponseRedirect(reverse("account"), status=303)
