"""Every setting of the server. Values come from the environment, read by ``env``.

Domain code receives values and does not import this module. The two shapes
differ only in ``DATABASE_URL`` and ``REDIS_URL``.
"""

from __future__ import annotations

from django.utils.functional import SimpleLazyObject

from agents.states import JobState, RunState
from crushsite import env
from crushsite.env import read_or_create_secret_key
from workspaces.release import VERSION

DATA_DIR = env.data_dir()
DATABASE_URL = env.read_text("DATABASE_URL")
REDIS_URL = env.read_text("REDIS_URL")

DEBUG = False
# Lazily: importing settings must not write files.
SECRET_KEY = SimpleLazyObject(lambda: read_or_create_secret_key(DATA_DIR))
# The ASGI guard checks Host and Origin before Django receives a request.
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "crushsite.urls"
ASGI_APPLICATION = "crushsite.asgi.application"

INSTALLED_APPS = [
    "crushsite",  # before channels: its runworker is ours
    "crushsite.client",
    "crushsite.console",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "crushsite.operators.apps.OperatorsConfig",  # the admin
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "channels",
    "workspaces",
    "people",
    "permissions",
    "notifications",
    "agents",
]

# Only the admin uses these; the API bypasses them (crushsite.asgi.routing).
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "crushsite.admin.OutageMiddleware",
    "crushsite.admin.RefuseTools",
    "crushsite.admin.ContentPolicy",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {"default": env.database(DATABASE_URL, folder=DATA_DIR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CRUSH_REDIS_PREFIX = env.read_text("CRUSH_REDIS_PREFIX", "crush")
CHANNEL_LAYERS = env.channel_layers(REDIS_URL, prefix=CRUSH_REDIS_PREFIX)

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Cookies belong to a host, not to a port: other Django programs on this machine use the usual names.
SESSION_COOKIE_NAME = "crush_sessionid"
CSRF_COOKIE_NAME = "crush_csrftoken"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Strict"
X_FRAME_OPTIONS = "DENY"
LOGIN_URL = "/sign-in/"

STATIC_URL = "static/"
# Written by the first process that serves a page, again after an upgrade (crushsite.static_files).
STATIC_ROOT = DATA_DIR / "static"
WHITENOISE_USE_FINDERS = True  # for the files that are not collected
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},  # nothing is uploaded
    "staticfiles": {"BACKEND": "crushsite.static_files.HashedFiles"},
}
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False

LOGGING_CONFIG = None  # crushsite.logs sets up logging when a process starts

# The views of /v1 bypass most of the framework; native resources set the rest
# (workspaces.rest.view).
REST_FRAMEWORK = {
    # Views return complete responses, which need no renderer.
    "DEFAULT_RENDERER_CLASSES": [],
    "DEFAULT_PARSER_CLASSES": ["workspaces.api.json_parser.OrjsonParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_SCHEMA_CLASS": "workspaces.rest.schema.ResourceSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Crush server",
    "DESCRIPTION": "The server that coding agents live on. Streams and sockets are not part of this"
    " schema: `/api/schema/events` describes what they send.",
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/api/",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "persistAuthorization": False},
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "DISABLE_ERRORS_AND_WARNINGS": True,  # a test shows them, not each server
    # Names of choices whose fields have the same name in several objects.
    "ENUM_NAME_OVERRIDES": {
        "RunStateEnum": [*RunState],
        "JobStateEnum": [*JobState],
        "RunKindEnum": "agents.models.RunKind",
        "ModelSizeEnum": ["large", "small"],
        "ChannelKindEnum": "notifications.models.ChannelKind",
        "MessageRoleEnum": ["user", "assistant", "tool", "system"],
        "MemberRoleEnum": ["viewer", "prompter", "approver", "admin"],
        "ApprovalScopeEnum": "permissions.models.GrantScope",
        "AnswerEnum": ["allow", "deny"],
        "TrustAnswerEnum": ["allow", "deny", "revoke"],
        "TrustStateEnum": ["unneeded", "trusted", "denied", "open"],
        "TrustRequestStateEnum": "workspaces.models.TrustRequestState",
        "ApprovalStateEnum": "permissions.models.RequestState",
        "McpStateEnum": ["disabled", "starting", "connected", "error", "needs auth"],
    },
}
# Of each caller of native resources, except the owner.
CRUSH_REQUESTS_PER_SECOND = env.read_number("CRUSH_REQUESTS_PER_SECOND", 100, low=1, high=100_000)

# People
CRUSH_PUBLIC_URL = env.read_text("CRUSH_PUBLIC_URL")  # how browsers reach a proxy in front
# The addresses of proxies, whose X-Forwarded-For is believed.
CRUSH_TRUSTED_PROXIES = env.read_networks("CRUSH_TRUSTED_PROXIES")
# Behind a proxy, a TCP connection does not identify who sends its requests.
CRUSH_TLS_CERTIFICATE = env.read_text("CRUSH_TLS_CERTIFICATE")  # PEM files
CRUSH_TLS_KEY = env.read_text("CRUSH_TLS_KEY")
CRUSH_ADMIN_TOKEN_FILE = env.read_text("CRUSH_ADMIN_TOKEN_FILE")
CSRF_TRUSTED_ORIGINS = [CRUSH_PUBLIC_URL.rstrip("/").lower()] if CRUSH_PUBLIC_URL else []
if CRUSH_PUBLIC_URL.startswith("https://"):
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# TCP never makes an owner; commands on this machine send the token in a file of the data folder.
CRUSH_LOCAL_TOKEN = env.read_flag("CRUSH_LOCAL_TOKEN")
CRUSH_HAS_PROXY = bool(CRUSH_PUBLIC_URL or CRUSH_TRUSTED_PROXIES)
# Passkeys, second factors and OpenID Connect: the extra ``sso``, whose pages are in people.sso.
CRUSH_SSO = env.read_flag("CRUSH_SSO")
CRUSH_OIDC_URL = env.read_text("CRUSH_OIDC_URL")  # the issuer
CRUSH_OIDC_NAME = env.read_text("CRUSH_OIDC_NAME", "single sign-on")
CRUSH_OIDC_CLIENT_ID = env.read_text("CRUSH_OIDC_CLIENT_ID")
CRUSH_OIDC_SECRET_FILE = env.read_text("CRUSH_OIDC_SECRET_FILE")
CRUSH_OIDC_SIGN_UP = env.read_flag("CRUSH_OIDC_SIGN_UP")  # whether new people get an account
if CRUSH_SSO:
    env.require_module("allauth", setting="CRUSH_SSO", extra="sso")
    INSTALLED_APPS += [
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "allauth.socialaccount.providers.openid_connect",
        "allauth.mfa",
    ]
    MIDDLEWARE += ["allauth.account.middleware.AccountMiddleware"]
    ACCOUNT_ADAPTER = "people.sso.adapters.AccountAdapter"
    ACCOUNT_EMAIL_VERIFICATION = "none"
    ACCOUNT_LOGIN_METHODS = {"username"}
    ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
    ACCOUNT_SESSION_REMEMBER = True
    LOGIN_REDIRECT_URL = "/"
    SOCIALACCOUNT_ADAPTER = "people.sso.adapters.ProviderAdapter"
    # Whom the provider has verified is the user with this e-mail address.
    SOCIALACCOUNT_EMAIL_AUTHENTICATION = SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
    SOCIALACCOUNT_PROVIDERS = env.openid_provider(
        CRUSH_OIDC_URL,
        name=CRUSH_OIDC_NAME,
        client_id=CRUSH_OIDC_CLIENT_ID,
        secret_file=CRUSH_OIDC_SECRET_FILE,
    )
    MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
    MFA_PASSKEY_LOGIN_ENABLED = True
    MFA_TOTP_TOLERANCE = 1  # clocks differ
    MFA_TOTP_ISSUER = "Crush server"
    MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not CRUSH_PUBLIC_URL.startswith("https://")  # localhost
# Clients
CRUSH_CREATE_GRACE_SECONDS = env.read_seconds("CRUSH_SERVER_CREATE_GRACE", 30.0)
CRUSH_DETACH_GRACE_SECONDS = env.read_seconds("CRUSH_SERVER_DETACH_GRACE", 10.0)
CRUSH_IDLE_TIMEOUT_SECONDS = env.read_seconds("CRUSH_SERVER_IDLE_TIMEOUT", 60.0)
# Trust: who decides whether a folder's own configuration may start programs and the like.
CRUSH_TRUST = env.read_choice("CRUSH_TRUST", ("ask", "all", "none"))
# The digest that a sub-agent may trust despite CRUSH_TRUST=none; its parent sets it.
CRUSH_TRUST_DIGEST = env.read_text("CRUSH_TRUST_DIGEST")
# Notifications
CRUSH_EMAIL_URL = env.read_text("CRUSH_EMAIL_URL")  # smtp://USER:PASSWORD@HOST:PORT
CRUSH_EMAIL_FROM = env.read_text("CRUSH_EMAIL_FROM", "crush-server@localhost")
DEFAULT_FROM_EMAIL = CRUSH_EMAIL_FROM
vars().update(env.email(CRUSH_EMAIL_URL))
# Private hosts that messages may be sent to, as HOST or HOST:PORT.
CRUSH_NOTIFY_PRIVATE_HOSTS = env.read_list("CRUSH_NOTIFY_PRIVATE_HOSTS")
# Sizes
CRUSH_MAX_BODY_BYTES = env.read_number("CRUSH_MAX_BODY_MB", 32, low=1, high=1024) * 1024 * 1024
CRUSH_MAX_BODIES_BYTES = (
    env.read_number("CRUSH_MAX_BODIES_MB", 128, low=1, high=65_536) * 1024 * 1024
)
CRUSH_MAX_PROMPT_CHARS = env.read_number("CRUSH_MAX_PROMPT_CHARS", 1_000_000, low=1, high=8_000_000)
# Limits of one command with everything that it starts; 0 means no limit.
CRUSH_COMMAND_MEMORY_BYTES = (
    env.read_number("CRUSH_COMMAND_MEMORY_MB", 4096, low=0, high=1_048_576) * 1024 * 1024
)
CRUSH_COMMAND_PROCESSES = env.read_number("CRUSH_COMMAND_PROCESSES", 4096, low=0, high=1_000_000)
CRUSH_COMMAND_FILE_BYTES = (
    env.read_number("CRUSH_COMMAND_FILE_MB", 16_384, low=0, high=16_777_216) * 1024 * 1024
)
# How long background commands continue without a server; 0: they end with it.
CRUSH_KEEP_COMMANDS_SECONDS = env.read_seconds("CRUSH_KEEP_COMMANDS", 3_600.0)
# After how long the commands of a host without any process count as lost.
CRUSH_LOST_COMMANDS_SECONDS = env.read_seconds("CRUSH_LOST_COMMANDS", 300.0)
# Limits of a session's queue, behind the running prompt.
CRUSH_MAX_QUEUED_PROMPTS = env.read_number("CRUSH_MAX_QUEUED_PROMPTS", 5_000, low=1, high=1_000_000)
CRUSH_MAX_QUEUED_BYTES = (
    env.read_number("CRUSH_MAX_QUEUED_MB", 64, low=1, high=65_536) * 1024 * 1024
)
# How many runs of one user, and of one workspace, may run at once; 0 means no limit. A share in the
# admin can have another limit.
CRUSH_MAX_RUNNING_PER_USER = env.read_number("CRUSH_MAX_RUNNING_PER_USER", 0, low=0, high=10_000)
CRUSH_MAX_RUNNING_PER_WORKSPACE = env.read_number(
    "CRUSH_MAX_RUNNING_PER_WORKSPACE", 0, low=0, high=10_000
)
# A scheduled run that has waited as long no longer comes after the others.
CRUSH_SCHEDULED_WAIT_MINUTES = env.read_number(
    "CRUSH_SCHEDULED_WAIT_MINUTES", 30, low=0, high=100_000
)
# Monitoring: who sends this token may read /metrics, and nothing else.
CRUSH_METRICS_TOKEN = env.read_secret_file("CRUSH_METRICS_TOKEN_FILE")
# Retention: whether old rows are deleted each night, at which hour (UTC), and after how many days.
# 0 keeps them.
CRUSH_RETENTION = env.read_choice("CRUSH_RETENTION", ("nightly", "off"))
CRUSH_RETENTION_HOUR = env.read_number("CRUSH_RETENTION_HOUR", 3, low=0, high=23)
CRUSH_RETENTION_DAYS = {
    "events": env.read_number("CRUSH_RETENTION_EVENTS", 7, low=0, high=36_500),
    "steps": env.read_number("CRUSH_RETENTION_STEPS", 90, low=0, high=36_500),
    "notices": env.read_number("CRUSH_RETENTION_NOTICES", 30, low=0, high=36_500),
    "expired": env.read_number("CRUSH_RETENTION_EXPIRED", 30, low=0, high=36_500),
    "audit": env.read_number("CRUSH_RETENTION_AUDIT", 0, low=0, high=36_500),
    "sessions": env.read_number("CRUSH_RETENTION_SESSIONS", 0, low=0, high=36_500),
}
# Workers
CRUSH_LEASE_SECONDS = env.read_seconds("CRUSH_LEASE", 15.0)
# How long a stop waits for runs to finish their step.
CRUSH_DRAIN_SECONDS = env.read_seconds("CRUSH_DRAIN", 60.0)
CRUSH_POLL_SECONDS = env.read_seconds("CRUSH_POLL", 1.0)
CRUSH_POLL_CONFIG = env.read_flag("CRUSH_POLL_CONFIG")
# Folders below which work folders lie: a process without one of them is not ready.
CRUSH_WORK_ROOTS = env.read_list("CRUSH_WORK_ROOTS")
# Named folders that this worker serves, each verified by its marker, and its labels.
CRUSH_ROOTS = env.read_roots("CRUSH_ROOTS")
CRUSH_LABELS = env.read_labels("CRUSH_LABELS")
CRUSH_MAX_RUNS = env.read_number("CRUSH_MAX_RUNS", 500, low=1, high=10_000)
# A request to a model is retried after this time without data.
CRUSH_MODEL_SILENCE_SECONDS = env.read_seconds("CRUSH_MODEL_SILENCE", 120.0)
# For parents that connect over the network, at /fleet/child; without a token none can.
CRUSH_FLEET_TOKEN = env.read_text("CRUSH_FLEET_TOKEN")
CRUSH_FLEET_WORKSPACE = env.read_text("CRUSH_FLEET_WORKSPACE")  # the folder they work in
CRUSH_FLEET_EXECUTOR = env.read_text("CRUSH_FLEET_EXECUTOR", "crush")  # or echo, script
# A folder of gate files for tests that hold a run at a named place; empty in production.
CRUSH_GATES = env.read_text("CRUSH_GATES")
CRUSH_LOG_LEVEL = env.read_text("CRUSH_LOG_LEVEL", "INFO").upper()
CRUSH_LOG_FORMAT = env.read_choice("CRUSH_LOG_FORMAT", ("text", "json"))
