"""The one settings module; every difference between two installations comes from the environment.

Each variable and its default is listed in docs/settings.md.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from csp.constants import NONCE, NONE, SELF, UNSAFE_INLINE
from django.utils.translation import gettext_lazy as _

from dashboard import env, logs
from dashboard.addresses import allowed_hosts

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = env.folder("TIDEGATE_DATA", default=BASE_DIR / "var")

DEBUG = env.boolean("TIDEGATE_DEBUG", default=False)
SECRET_KEY = env.text("TIDEGATE_SECRET_KEY", default="") or env.secret_kept_in(
    DATA_DIR / "secret.key"
)

# --- What the product itself reads ---------------------------------------------------------------

TICK_S = env.integer("TIDEGATE_TICK_S", default=1, least=1)
KEPT_CHECK_EVERY = env.integer("TIDEGATE_KEPT_CHECK", default=100, least=0)
THIN_AFTER_DAYS = env.integer("TIDEGATE_THIN_AFTER_DAYS", default=2, least=1)
KEEP_REASONS_DAYS = env.integer("TIDEGATE_KEEP_REASONS_DAYS", default=90, least=1)
WORKLOADS_DIR = env.folder("TIDEGATE_WORKLOADS", default=DATA_DIR / "workloads")
#: The first encrypts credentials, all of them decrypt: a key is changed by putting a new one first.
CREDENTIALS_KEYS = env.words("TIDEGATE_CREDENTIALS_KEYS") or [
    env.secret_kept_in(DATA_DIR / "credentials.key")
]
#: Below which folders of this machine a data source may lie.
HOST_PATHS = env.words("TIDEGATE_HOST_PATHS")
#: The most that a file tree which is uploaded may hold, in MiB.
UPLOAD_MIB = env.integer("TIDEGATE_UPLOAD_MIB", default=512, least=1)

#: Networks to which webhooks may go beside the public internet, such as 10.0.0.0/8.
WEBHOOK_NETWORKS = env.words("TIDEGATE_WEBHOOK_NETWORKS")
#: Where people reach the pages: what links in messages begin with.
PUBLIC_URL = env.text("TIDEGATE_PUBLIC_URL", default="").rstrip("/")
#: The address of an `up` of this machine, which it leaves for those who work here.
_UP_URL = env.address_kept_in(DATA_DIR / "web.url", default="").rstrip("/")
PRODUCT_URL = PUBLIC_URL or _UP_URL
#: Where running work reaches the API.
REPLICA_URL = env.text("TIDEGATE_REPLICA_URL", default="").rstrip("/") or _UP_URL or PUBLIC_URL

#: From where metrics are scraped without a token, such as 10.0.0.7/32: it reads those of the whole cluster.
METRICS_NETWORKS = env.networks("TIDEGATE_METRICS_NETWORKS")
#: Where workspaces are opened: an origin that the product itself is not served at. Empty: nowhere.
WORKSPACE_URL = (
    env.text("TIDEGATE_WORKSPACE_URL", default="")
    or env.address_kept_in(DATA_DIR / "workspace.url", default="")
).rstrip("/")

# --- Applications --------------------------------------------------------------------------------

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_htmx",
    "ninja",
    "scheduler",
    "access",
    "reports",
    "notices",
    "dashboard",
]
AUTH_USER_MODEL = "access.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

MIDDLEWARE = [
    "dashboard.request_ids.RequestIdsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "dashboard.content_policy.AdminContentPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "dashboard.text_guard.TextGuardMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "dashboard.session_notes.SessionNotesMiddleware",
    "dashboard.refusals.RefusalsMiddleware",
    "dashboard.reader_zone.ReaderZoneMiddleware",
]

ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "dashboard.context.frame",
            ],
        },
    },
]

# --- Database ------------------------------------------------------------------------------------

DATABASES = {
    "default": env.database(
        "DATABASE_URL",
        default_file=DATA_DIR / "tidegate.sqlite3",
        # A file: the server processes of a test cannot share an in-memory database.
        test_file=Path(tempfile.gettempdir()) / f"tidegate-test-{os.getpid()}.sqlite3",
    )
}

# --- Work on other machines -----------------------------------------------------------------------

#: The head of the Ray cluster whose nodes run work, as host:port. Empty: this machine alone.
RAY_ADDRESS = env.text("TIDEGATE_RAY_ADDRESS", default="")
#: A node that is out of touch for so long ends its work, which then goes on elsewhere.
RAY_LEASE_S = env.integer("TIDEGATE_RAY_LEASE_S", default=30, least=5)
#: The file with the token that the cluster asks of all who speak to it.
RAY_TOKEN_FILE = env.text("TIDEGATE_RAY_TOKEN_FILE", default="")

# --- Traces ---------------------------------------------------------------------------------------

#: Where OpenTelemetry's traces go; its library reads this and its other variables itself. Empty: nowhere.
OTEL_ENDPOINT = env.text("OTEL_EXPORTER_OTLP_ENDPOINT", default="") or env.text(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", default=""
)

#: The image in which work runs on Kubernetes. Empty: none does (docs/operations/kubernetes.md).
KUBERNETES_IMAGE = env.text("TIDEGATE_KUBERNETES_IMAGE", default="")
#: A kubeconfig file and a context of it. Empty: the service account of the pod that this runs in.
KUBERNETES_CONFIG = env.text("TIDEGATE_KUBERNETES_CONFIG", default="")
KUBERNETES_CONTEXT = env.text("TIDEGATE_KUBERNETES_CONTEXT", default="")
KUBERNETES_NAMESPACE = env.text("TIDEGATE_KUBERNETES_NAMESPACE", default="tidegate-work")
#: How GPUs are handed out: ``whole``, or by pool: ``whole, inference=hami``.
KUBERNETES_SHARING = env.words("TIDEGATE_KUBERNETES_SHARING", default=("whole",))
KUBERNETES_TIME_SLICED_RESOURCE = env.text(
    "TIDEGATE_KUBERNETES_TIME_SLICED_RESOURCE", default="nvidia.com/gpu"
)
#: The claim of the volume that all pods write to, and where this process sees it.
KUBERNETES_VOLUME_CLAIM = env.text("TIDEGATE_KUBERNETES_VOLUME_CLAIM", default="")
KUBERNETES_SHARED = env.text("TIDEGATE_KUBERNETES_SHARED", default="")
#: A node that Kubernetes has not heard of for so long is gone. 0: only where an administrator says so.
KUBERNETES_GONE_AFTER_S = env.integer("TIDEGATE_KUBERNETES_GONE_AFTER_S", default=0)

# --- Redis: broker, pushes, demand ---------------------------------------------------------------

REDIS_URL = env.text("REDIS_URL", default="") or env.address_kept_in(
    DATA_DIR / "redis.url", default="redis://127.0.0.1:6379/0"
)


def channel_layers(redis_url: str) -> dict[str, dict[str, object]]:
    """Return CHANNEL_LAYERS for the Redis at ``redis_url``."""
    # The layer blocks for 5 s while it waits for a message, and the client's own default timeout
    # is 5 s too: without a longer one every idle WebSocket is closed.
    host = {"address": redis_url, "socket_timeout": 30, "max_connections": 10_000}
    return {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [host], "capacity": 1000, "expiry": 30, "prefix": "tidegate"},
        }
    }


CHANNEL_LAYERS = channel_layers(REDIS_URL)

# --- Celery (read by dashboard/celery.py) --------------------------------------------------------

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_DEFAULT_QUEUE = "tidegate"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_STORE_EAGER_RESULT = False
# A tick that dies with its worker is not repeated: the next one does the same work from the tables.
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_MAX_TASKS_PER_CHILD = 20_000
# Celery replaces sys.stdout in its workers otherwise, and libraries that need a real file fail.
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 300,
    "socket_keepalive": True,
    "socket_connect_timeout": 5,
    "health_check_interval": 10,
}
# Whoever asks for a tick at once does not wait for a broker that is away: the timer will do it.
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}

# --- Mail: scheduled reports, notices ---------------------------------------------------------------------

#: Empty: no mail is sent.
EMAIL_HOST = env.text("TIDEGATE_MAIL_HOST", default="")
EMAIL_PORT = env.integer("TIDEGATE_MAIL_PORT", default=25, least=1)
EMAIL_HOST_USER = env.text("TIDEGATE_MAIL_USER", default="")
EMAIL_HOST_PASSWORD = env.text("TIDEGATE_MAIL_PASSWORD", default="")
EMAIL_USE_TLS = env.boolean("TIDEGATE_MAIL_STARTTLS", default=False)
EMAIL_USE_SSL = env.boolean("TIDEGATE_MAIL_TLS", default=False)
DEFAULT_FROM_EMAIL = env.text("TIDEGATE_MAIL_FROM", default="tidegate@localhost")
EMAIL_TIMEOUT = 20

# --- Addresses, sessions, security ---------------------------------------------------------------

ALLOWED_HOSTS = env.words("TIDEGATE_ALLOWED_HOSTS") or allowed_hosts(
    bound_to=env.text("TIDEGATE_HOST", default="127.0.0.1")
)
CSRF_TRUSTED_ORIGINS = env.words("TIDEGATE_TRUSTED_ORIGINS")
HTTPS = env.boolean("TIDEGATE_HTTPS", default=False)

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
#: Requests a minute by one access token.
API_PER_MINUTE = env.integer("TIDEGATE_API_PER_MINUTE", default=600, least=1)
SESSION_ENGINE = "access.session_store"
SESSION_COOKIE_NAME = "tidegate_session"
SESSION_COOKIE_AGE = env.integer("TIDEGATE_SESSION_S", default=14 * 24 * 3600, least=60)
SESSION_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_NAME = "tidegate_csrf"
CSRF_COOKIE_SECURE = HTTPS
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if HTTPS:
    #: Asked for from inside, past the proxy.
    SECURE_REDIRECT_EXEMPT = [r"^metrics$", r"^readyz$"]
    SECURE_SSL_REDIRECT = env.boolean("TIDEGATE_HTTPS_REDIRECT", default=True)
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = env.integer("TIDEGATE_HSTS_S", default=3600)

# Sign-in through an OpenID Connect provider; empty: by passwords alone.
OIDC_ISSUER = env.text("TIDEGATE_OIDC_ISSUER", default="")
#: On the button of the sign-in page.
OIDC_NAME = env.text("TIDEGATE_OIDC_NAME", default="")
OIDC_RP_CLIENT_ID = env.text("TIDEGATE_OIDC_CLIENT_ID", default="")
OIDC_RP_CLIENT_SECRET = env.text("TIDEGATE_OIDC_CLIENT_SECRET", default="")
OIDC_RP_SCOPES = env.text("TIDEGATE_OIDC_SCOPES", default="openid profile email")
OIDC_RP_SIGN_ALGO = env.text("TIDEGATE_OIDC_SIGN_ALGO", default="RS256")
OIDC_GROUPS_CLAIM = env.text("TIDEGATE_OIDC_GROUPS_CLAIM", default="groups")
OIDC_LINK_EMAIL = env.boolean("TIDEGATE_OIDC_LINK_EMAIL", default=False)
OIDC_USE_PKCE = True
OIDC_TIMEOUT = 10
OIDC_AUTHENTICATION_CALLBACK_URL = "from_provider"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    *(["access.provider.ProviderBackend"] if OIDC_ISSUER else []),
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, NONCE],
        # The hash is that of nothing: the chart library fills an empty style element by script.
        "style-src": [SELF, "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"],
        # The charts set style attributes on their own elements.
        "style-src-attr": [UNSAFE_INLINE],
        "img-src": [SELF, "data:"],
        # Also keeps the chart library from sending figures to its maker's cloud.
        "connect-src": [SELF],
        "font-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# --- Languages and time --------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hant", _("Traditional Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_NAME = "tidegate_language"
LANGUAGE_COOKIE_SAMESITE = "Lax"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# --- Static files --------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "django.contrib.staticfiles.storage.StaticFilesStorage"
            if DEBUG
            else "dashboard.static_files.PagesStorage"
        )
    },
}
WHITENOISE_USE_FINDERS = DEBUG
WHITENOISE_KEEP_ONLY_HASHED_FILES = False

# --- The admin -----------------------------------------------------------------------------------

UNFOLD = {
    "SITE_TITLE": "Tidegate",
    "SITE_HEADER": "Tidegate",
    "SITE_SYMBOL": "waves",
    "SHOW_LANGUAGES": True,
}

# --- Logs ----------------------------------------------------------------------------------------

LOGGING = logs.log_settings(level=env.text("TIDEGATE_LOG_LEVEL", default="INFO"))
