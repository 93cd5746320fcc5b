"""Sign-in through an OpenID Connect provider that really runs: the whole flow, over HTTP."""

from __future__ import annotations

import warnings
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.contrib.auth import SESSION_KEY
from django.core.exceptions import SuspiciousOperation
from django.urls import reverse

from access import groups, people, provider
from access.models import AccessRule, ExternalIdentity, User
from access.roles import Role
from access.scopes import visibility_of
from scheduler import models
from scheduler.operations.authority import SYSTEM
from tests.dashboard.conftest import NOON

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import oidc_provider_mock

pytestmark = [
    pytest.mark.django_db,
    # The provider's own libraries speak of their next versions.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def issuer(settings):
    """A provider on this machine, set as ours."""
    with oidc_provider_mock.run_server_in_thread() as server:
        settings.OIDC_ISSUER = f"http://localhost:{server.server_port}"
        settings.OIDC_RP_CLIENT_ID = "tidegate"
        settings.OIDC_RP_CLIENT_SECRET = "secret-of-tests"
        settings.AUTHENTICATION_BACKENDS = [
            "django.contrib.auth.backends.ModelBackend",
            "access.provider.ProviderBackend",
        ]
        provider._document.cache_clear()
        yield settings.OIDC_ISSUER


def known(issuer, subject, **claims):
    """Tell the provider who someone is."""
    httpx.put(f"{issuer}/users/{subject}", json=claims).raise_for_status()


def to_provider(client, **query):
    answer = client.get(reverse("to_provider"), query)
    assert answer.status_code == 302, answer.content
    return answer.url


def consent(address, subject):
    """Sign in at the provider, as a person does, and return the way back."""
    answer = httpx.post(address, data={"sub": subject})
    assert answer.status_code == 302, answer.text
    back = urlsplit(answer.headers["location"])
    assert back.path == reverse("from_provider")
    return {name: values[0] for name, values in parse_qs(back.query).items()}


def sign_in(client, subject, **query):
    return client.get(reverse("from_provider"), consent(to_provider(client, **query), subject))


def is_in(client):
    return SESSION_KEY in client.session


def failed(answer):
    return answer.status_code == 302 and answer.url == reverse("login")


def test_someone_new_gets_an_account_that_sees_nothing(client, scene, issuer):
    known(issuer, "u-1", preferred_username="lin", email="lin@example.org")
    answer = sign_in(client, "u-1", next="/workloads")
    assert answer.url == "/workloads"
    user = User.objects.get()
    assert (user.username, user.email) == ("lin", "lin@example.org")
    assert not user.has_usable_password()
    assert not visibility_of(user=user).project_ids
    assert client.get(reverse("account")).status_code == 200
    entries = models.AuditEntry.objects.order_by("id").values_list("action", "actor", "reason")
    assert list(entries) == [
        ("user.create", "identity provider", ""),
        ("sign_in", "lin", "identity provider"),
    ]


def test_the_flow_has_state_nonce_and_pkce(client, issuer):
    asked = parse_qs(urlsplit(to_provider(client)).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["state"]
    assert asked["nonce"]


def test_who_comes_again_is_the_same_whatever_they_are_called_now(client, issuer):
    known(issuer, "u-1", preferred_username="lin", email="lin@example.org")
    sign_in(client, "u-1")
    known(issuer, "u-1", preferred_username="someone else", email="new@example.org")
    sign_in(client, "u-1")
    user = User.objects.get()
    assert (user.username, user.email) == ("lin", "new@example.org")


def test_a_name_or_an_address_that_someone_has_gives_nobody_their_account(client, issuer, admin):
    """Given a local admin, when someone at the provider chooses that name and that address."""
    admin.email = "admin@example.org"
    admin.save()
    known(
        issuer, "evil", preferred_username="admin", email="admin@example.org", email_verified=True
    )
    sign_in(client, "evil")
    assert client.session[SESSION_KEY] != str(admin.pk)
    assert User.objects.get(username="admin-2").is_superuser is False


@pytest.mark.parametrize("verified", [True, False])
def test_a_verified_address_takes_over_the_local_account_where_that_is_set(
    client, issuer, settings, verified
):
    settings.OIDC_LINK_EMAIL = True
    lin = User.objects.create_user("lin", email="Lin@example.org", password="someone-of-tests")
    known(issuer, "u-1", preferred_username="l", email="lin@example.org", email_verified=verified)
    sign_in(client, "u-1")
    assert (client.session[SESSION_KEY] == str(lin.pk)) is verified


def test_groups_follow_what_the_provider_says_at_each_sign_in(client, scene, issuer):
    nlp = models.Project.objects.get(name="nlp-lab")
    staff = groups.save_group(name="Staff", external_name="/staff", authority=SYSTEM, now=NOON)
    people.grant(
        group_id=staff.pk,
        grant=people.Grant(role=Role.RESEARCHER, project_id=nlp.pk),
        authority=SYSTEM,
        now=NOON,
    )
    known(issuer, "u-1", preferred_username="lin", groups=["/staff", "/others"])
    sign_in(client, "u-1")
    user = User.objects.get()
    assert visibility_of(user=user).project_ids == {nlp.pk}
    known(issuer, "u-1", preferred_username="lin", groups=[])
    sign_in(client, "u-1")
    assert not visibility_of(user=user).project_ids


def test_an_account_that_has_ended_does_not_get_in(client, issuer):
    known(issuer, "u-1", preferred_username="lin")
    sign_in(client, "u-1")
    user = User.objects.get()
    people.change_user(user_id=user.pk, email="", is_active=False, authority=SYSTEM, now=NOON)
    assert client.get(reverse("account")).status_code == 302
    assert failed(sign_in(client, "u-1"))
    assert not is_in(client)


@pytest.mark.parametrize("wrong", ["state", "code", "client", "issuer", "none"])
def test_what_is_not_of_this_sign_in_lets_nobody_in(client, issuer, settings, wrong, monkeypatch):
    known(issuer, "u-1", preferred_username="lin")
    back = consent(to_provider(client), "u-1")
    if wrong in back:
        back[wrong] = "another"
    if wrong == "client":  # the token is for someone else
        settings.OIDC_RP_CLIENT_ID = "another"
    if wrong == "issuer":
        document = provider._document(issuer)
        monkeypatch.setattr(provider, "_document", lambda _issuer: document)
        settings.OIDC_ISSUER = "https://another.example"
    if wrong == "none":
        back = {}
    answer = client.get(reverse("from_provider"), back)
    assert failed(answer)
    assert not is_in(client)
    assert not User.objects.exists()
    said = client.get(reverse("login")).content.decode()
    assert "could not be asked, or did not let you in" in said


RSA = {"kty": "RSA", "use": "sig", "alg": "RS256"}


@pytest.mark.parametrize(
    ("named", "keys", "found"),
    [
        (None, [{}], 0),  # one key, no names: the provider may leave them out
        (None, [{"kid": "a"}, {"kid": "b"}], None),  # several: the token must name its own
        ("b", [{"kid": "a"}, {"kid": "b"}], 1),
        ("c", [{"kid": "a"}], None),
        (None, [{"use": "enc"}, {"alg": "RS512"}, {"kty": "EC"}, {}], 3),
    ],
)
def test_the_key_of_a_token_is_the_one_it_names_or_the_only_one(
    settings, monkeypatch, named, keys, found
):
    class Answer:
        @staticmethod
        def raise_for_status():
            return None

        @staticmethod
        def json():
            return {"keys": [{**RSA, "n": str(number), **key} for number, key in enumerate(keys)]}

    monkeypatch.setattr(provider, "setting", lambda *_: "https://id.example.org/keys")
    monkeypatch.setattr(provider.requests, "get", lambda *_, **__: Answer)
    monkeypatch.setattr(provider.jwt, "PyJWK", lambda key: int(key["n"]))
    header = {} if named is None else {"kid": named}
    token = provider.jwt.encode(
        {"sub": "u-1"}, "a secret of tests that is long enough", headers=header
    )
    backend = provider.ProviderBackend()
    if found is None:
        with pytest.raises(SuspiciousOperation):
            backend.retrieve_matching_jwk(token)
    else:
        assert backend.retrieve_matching_jwk(token) == found


def test_an_answer_is_good_for_one_sign_in(client, issuer):
    known(issuer, "u-1", preferred_username="lin")
    back = consent(to_provider(client), "u-1")
    assert client.get(reverse("from_provider"), back).status_code == 302
    client.logout()
    assert failed(client.get(reverse("from_provider"), back))
    assert not is_in(client)


def test_a_provider_that_is_away_is_said_and_passwords_go_on(client, issuer, settings):
    settings.OIDC_ISSUER = "http://localhost:1"
    User.objects.create_user("mei", password="someone-of-tests")
    assert failed(client.get(reverse("to_provider")))
    page = client.get(reverse("login")).content.decode()
    assert "could not be asked" in page
    answer = client.post(reverse("login"), {"username": "mei", "password": "someone-of-tests"})
    assert answer.status_code == 302
    assert is_in(client)


def test_a_provider_elsewhere_must_be_https(settings):
    with pytest.raises(provider.ProviderAway, match="not https"):
        provider._document("http://id.example.org")


def test_without_a_provider_there_is_no_such_door(client, settings):
    settings.OIDC_ISSUER = ""
    for name in ("to_provider", "from_provider"):
        assert client.get(reverse(name)).status_code == 404
    assert reverse("to_provider") not in client.get(reverse("login")).content.decode()


def test_the_button_leads_back_to_the_page_that_was_wanted(client, issuer, settings):
    settings.OIDC_NAME = "Example ID"
    page = client.get(reverse("login"), {"next": "/workloads"}).content.decode()
    assert "Sign in with Example ID" in page
    assert f"{reverse('to_provider')}?next=/workloads" in page
    # And never to another site
    known(issuer, "u-1", preferred_username="lin")
    assert sign_in(client, "u-1", next="https://evil.example/").url == "/"
    assert AccessRule.objects.count() == 0
    assert ExternalIdentity.objects.count() == 1
