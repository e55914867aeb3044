"""What a file may call a provider's wire, and where such a provider is asked."""

from __future__ import annotations

from agents.config.known_clouds import (
    AZURE_ADDRESS,
    BEDROCK_ADDRESS,
    LMSTUDIO_ADDRESS,
    VERTEX_ADDRESS,
)
from agents.config.offline import OFFLINE_KIND
from agents.config.providers.built_in import LOCAL_KIND

# What a file may call a wire, and the wire that serves it.
KINDS = {
    "": "openai-compat",
    "openai": "openai",
    "openai-responses": "openai-responses",
    "openai-compat": "openai-compat",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "google": "gemini",
    "azure": "azure",
    "bedrock": "bedrock",
    "vertex": "vertex",
    "vertexai": "vertex",
    "google-vertex": "vertex",
    "local": LOCAL_KIND,
    "offline": OFFLINE_KIND,
} | dict.fromkeys(
    (
        *("openrouter", "groq", "xai", "deepseek", "vercel", "litellm"),
        *("llamacpp", "lmstudio", "ollama", "omlx"),
    ),
    "openai-compat",
)
# Where a type is asked that names one service; a file may name another address.
ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "google": "https://generativelanguage.googleapis.com/v1beta",
    "azure": AZURE_ADDRESS,
    "bedrock": BEDROCK_ADDRESS,
    "vertex": VERTEX_ADDRESS,
    "vertexai": VERTEX_ADDRESS,
    "google-vertex": VERTEX_ADDRESS,
    "openrouter": "https://openrouter.ai/api/v1",
    "groq": "https://api.groq.com/openai/v1",
    "xai": "https://api.x.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "lmstudio": LMSTUDIO_ADDRESS,
}
# These have no address of their own: they answer from within the server.
BUILT_IN = frozenset({OFFLINE_KIND, LOCAL_KIND})
# These may be asked with an account of the machine instead of a key.
KEYLESS = frozenset({*BUILT_IN, "bedrock", "vertex"})
