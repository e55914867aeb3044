"""Every setting of the server. Values come from the environment, read by ``env``.

Domain code takes values, not this module. The two shapes differ by
``DATABASE_URL`` and ``REDIS_URL`` alone.
"""

from __future__ import annotations

from django.utils.functional import SimpleLazyObject

from crushsite import env
from crushsite.env import read_or_create_secret_key

DATA_DIR = env.data_dir()
DATABASE_URL = env.read_text("DATABASE_URL")
REDIS_URL = env.read_text("REDIS_URL")

DEBUG = False
# Lazily: importing settings must not write files.
SECRET_KEY = SimpleLazyObject(lambda: read_or_create_secret_key(DATA_DIR))
# The ASGI guard judges Host and Origin before Django sees a request.
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "crushsite.urls"
ASGI_APPLICATION = "crushsite.asgi.application"

INSTALLED_APPS = [
    "crushsite",  # before channels: its runworker is ours
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    # Without autodiscovery: the admin's modules load on its first page.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "rest_framework",
    "channels",
    "workspaces",
    "permissions",
    "agents",
]

# Only the admin passes through these; the API has a shorter way (crushsite.asgi.api_handler).
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "crushsite.asgi.errors.OutageMiddleware",
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
CHANNEL_LAYERS = env.channel_layers(REDIS_URL)

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Cookies belong to a host, not to a port: other Django programs on this machine use the usual names.
SESSION_COOKIE_NAME = "crush_sessionid"
CSRF_COOKIE_NAME = "crush_csrftoken"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"

STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False

LOGGING_CONFIG = None  # crushsite.logs sets up logging when a process starts

REST_FRAMEWORK = {
    # Views return finished answers; nothing is left to render.
    "DEFAULT_RENDERER_CLASSES": [],
    "DEFAULT_PARSER_CLASSES": ["workspaces.api.rendering.OrjsonParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
}

# Clients
CRUSH_CREATE_GRACE_SECONDS = env.read_seconds("CRUSH_SERVER_CREATE_GRACE", 30.0)
CRUSH_DETACH_GRACE_SECONDS = env.read_seconds("CRUSH_SERVER_DETACH_GRACE", 10.0)
CRUSH_IDLE_TIMEOUT_SECONDS = env.read_seconds("CRUSH_SERVER_IDLE_TIMEOUT", 60.0)
# Trust: who decides whether a folder's own configuration may start programs and the like.
CRUSH_TRUST = env.read_choice("CRUSH_TRUST", ("ask", "all", "none"))
# What a sub-agent's process may trust with CRUSH_TRUST=none; its parent sets it.
CRUSH_TRUST_DIGEST = env.read_text("CRUSH_TRUST_DIGEST")
# Sizes
CRUSH_MAX_BODY_BYTES = env.read_number("CRUSH_MAX_BODY_MB", 32, low=1, high=1024) * 1024 * 1024
CRUSH_MAX_BODIES_BYTES = (
    env.read_number("CRUSH_MAX_BODIES_MB", 128, low=1, high=65_536) * 1024 * 1024
)
CRUSH_MAX_PROMPT_CHARS = env.read_number("CRUSH_MAX_PROMPT_CHARS", 1_000_000, low=1, high=8_000_000)
# What one command may use with everything that it starts; 0 is no limit.
CRUSH_COMMAND_MEMORY_BYTES = (
    env.read_number("CRUSH_COMMAND_MEMORY_MB", 4096, low=0, high=1_048_576) * 1024 * 1024
)
CRUSH_COMMAND_PROCESSES = env.read_number("CRUSH_COMMAND_PROCESSES", 4096, low=0, high=1_000_000)
CRUSH_COMMAND_FILE_BYTES = (
    env.read_number("CRUSH_COMMAND_FILE_MB", 16_384, low=0, high=16_777_216) * 1024 * 1024
)
# What may wait in one session behind the prompt that runs.
CRUSH_MAX_QUEUED_PROMPTS = env.read_number("CRUSH_MAX_QUEUED_PROMPTS", 5_000, low=1, high=1_000_000)
CRUSH_MAX_QUEUED_BYTES = (
    env.read_number("CRUSH_MAX_QUEUED_MB", 64, low=1, high=65_536) * 1024 * 1024
)
# Workers
CRUSH_LEASE_SECONDS = env.read_seconds("CRUSH_LEASE", 15.0)
# How long a stop waits for runs to come to the end of a step.
CRUSH_DRAIN_SECONDS = env.read_seconds("CRUSH_DRAIN", 60.0)
CRUSH_POLL_SECONDS = env.read_seconds("CRUSH_POLL", 1.0)
CRUSH_POLL_CONFIG = env.read_flag("CRUSH_POLL_CONFIG")
CRUSH_MAX_RUNS = env.read_number("CRUSH_MAX_RUNS", 500, low=1, high=10_000)
# A model that sends nothing for so long is asked again.
CRUSH_MODEL_SILENCE_SECONDS = env.read_seconds("CRUSH_MODEL_SILENCE", 120.0)
# Parents that dial in over the network, at /fleet/child; without a token nobody can.
CRUSH_FLEET_TOKEN = env.read_text("CRUSH_FLEET_TOKEN")
CRUSH_FLEET_WORKSPACE = env.read_text("CRUSH_FLEET_WORKSPACE")  # the folder they work in
CRUSH_FLEET_EXECUTOR = env.read_text("CRUSH_FLEET_EXECUTOR", "crush")  # or echo, script
# A folder of gate files for tests that hold a run at a named place; empty in use.
CRUSH_GATES = env.read_text("CRUSH_GATES")
CRUSH_LOG_LEVEL = env.read_text("CRUSH_LOG_LEVEL", "INFO").upper()
