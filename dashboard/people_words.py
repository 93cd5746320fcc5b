"""What is refused about people, groups, tokens and accounts: a sentence for each code."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

#: Code to sentence where a role is not enough.
REFUSALS: dict[str, str | Promise] = {
    "people_are_for_admins": _(
        "Only a platform administrator may make and change users and groups. Ask one."
    ),
    "role_above_own": _(
        "You may give and take only roles that are not above your own, inside your own scope. "
        "Ask an admin of the wider scope."
    ),
    "token_read_only": _("This token may only read. Make one that may also change things."),
    "not_by_token": _("A token can't make or change tokens and accounts. Sign in to do that."),
    "account_above_own": _(
        "{name} may more than you: a token of it would make you more than you are. Ask an admin "
        "of the wider scope."
    ),
    "accounts_are_for_admins": _(
        "Your role may not govern service accounts there. Ask an admin of it."
    ),
}

#: Code to sentence where a value or a state is in the way.
PROBLEMS: dict[str, str | Promise] = {
    "wait_to_sign_in": _("Too many wrong passwords. Try again in {wait} s."),
    "wrong_password": _("That is not your password."),
    "not_alike": _("The two are not alike."),
    "one_holder": _("A role is given to a user or to a group, one of the two."),
    "bad_group_name": _(
        "Give a name of 1 to 100 characters, and one of at most 200 at the provider."
    ),
    "group_name_taken": _("There is a group called {name} already."),
    "is_member": _("{name} is in it already."),
    "no_service_in_group": _(
        "{name} is a service account. It is in no group: its roles stay in its own scope."
    ),
    "bad_token_days": _("A token lives for 1 to {most} days."),
    "too_many_tokens": _("There are {n} tokens already. Revoke one first."),
    "account_ended": _("{name} has ended. Make another account."),
    "bad_account_name": _("Use 1 to 63 letters, digits and the signs . + - _ for the name."),
    "outside_of_account": _("{name} belongs to {scope}: it gets roles only there."),
}
