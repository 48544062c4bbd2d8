"""Forms of the admin site: signing in with user and password or the admin token, another password of one's own."""

import logging
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from unfold.forms import AdminOwnPasswordChangeForm, AuthenticationForm
from unfold.widgets import BASE_INPUT_CLASSES

from modelhotel.accounts import admin_token, sessions, throttles, users, verbs
from modelhotel.accounts.authentication import address_of
from modelhotel.core.actor import ADMIN
from modelhotel.core.faults import Refusal
from modelhotel.models import User

log = logging.getLogger("auth")

WRONG_PASSWORD = "Invalid user name or password"
WRONG_TOKEN = "Invalid admin token"
LOCKED = "Too many failed attempts, try again in {seconds} s"


class SignInForm(AuthenticationForm):  # type: ignore[misc]
    """Slowed down per address and per user name. *locked_for* > 0: nothing was looked at, seconds to wait."""

    admin_token = forms.CharField(
        required=False,
        strip=True,
        label="Admin token",
        widget=forms.PasswordInput(
            attrs={"class": " ".join(BASE_INPUT_CLASSES), "autocomplete": "current-password", "id": "id_admin_token"}
        ),
    )

    def __init__(self, request: HttpRequest | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.locked_for = 0
        self.by_token = self.is_bound and bool(str(self.data.get("admin_token", "")).strip())
        if self.by_token:
            self.fields["username"].required = self.fields["password"].required = False

    def clean(self) -> dict[str, Any]:
        if self.errors:
            return dict(self.cleaned_data)
        name = str(self.cleaned_data.get("username") or "")
        keys = [throttles.by_address(address_of(self.request))]
        if not self.by_token:
            keys.append(throttles.by_name(name))
        self.locked_for = throttles.SIGN_IN.wait(*keys)
        if self.locked_for:
            raise ValidationError(LOCKED.format(seconds=self.locked_for), code="locked")
        user = self._by_token() if self.by_token else self._by_password(name)
        if user is None:
            throttles.SIGN_IN.failed(*keys)
            log.warning("auth: sign-in refused", extra={"attrs": {"ip": address_of(self.request)}})
            raise ValidationError(WRONG_TOKEN if self.by_token else WRONG_PASSWORD, code="invalid_login")
        throttles.SIGN_IN.succeeded(*keys)
        self.user_cache = user
        return dict(self.cleaned_data)

    def _by_token(self) -> User | None:
        if not admin_token.matches(self.cleaned_data["admin_token"]):
            return None
        user = verbs.ensure_admin(actor=ADMIN)
        user.backend = verbs.BACKEND
        return user

    def _by_password(self, name: str) -> User | None:
        user = verbs.by_password(self.request, name, self.cleaned_data["password"])
        return user if user is not None and user.is_staff else None


class OwnPasswordForm(AdminOwnPasswordChangeForm):  # type: ignore[misc]
    """As ``POST /api/auth/password``: valid only once the password is changed. *request* is the one it came with."""

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._here = sessions.key_of(request.session.session_key or "")
        self.fields["new_password1"].help_text = "8 to 1,024 characters. Your other sessions end."

    def clean_old_password(self) -> str:
        """Looked at last, by the verb, so that a slip in the new one is no guess."""
        return str(self.cleaned_data["old_password"])

    def clean(self) -> dict[str, Any]:
        super().clean()
        if not self.errors:
            given = self.cleaned_data
            try:
                users.checked_password(given["new_password1"])
                users.set_own_password(self.user, given["old_password"], given["new_password1"], [self._here])
            except Refusal as problem:
                field = "new_password1" if problem.field == "password" else "old_password"
                self.add_error(field, problem.text.capitalize())
        return dict(self.cleaned_data)

    def save(self, commit: bool = True) -> User:
        """Done already."""
        user: User = self.user
        return user
