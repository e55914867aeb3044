"""The one table of provider kinds: their names, the code that serves them, and their addresses. Pure."""

from __future__ import annotations

from dataclasses import dataclass

OFFLINE_KIND = "offline"
LOCAL_KIND = "local"
_COMPATIBLE = "openai-compat"
_GEMINI_ADDRESS = "https://generativelanguage.googleapis.com/v1beta"

AZURE_ADDRESS = "${AZURE_OPENAI_ENDPOINT:-${AZURE_OPENAI_API_ENDPOINT}}"
_REGION = "${AWS_REGION:-${AWS_DEFAULT_REGION:-us-east-1}}"
BEDROCK_ADDRESS = f"https://bedrock-runtime.{_REGION}.amazonaws.com"
_LOCATION = "${VERTEXAI_LOCATION:-${GOOGLE_CLOUD_LOCATION:-${CLOUD_ML_REGION:-global}}}"
_PROJECT = "${VERTEXAI_PROJECT:-${GOOGLE_CLOUD_PROJECT}}"
VERTEX_ADDRESS = (
    f"https://{_LOCATION}-aiplatform.googleapis.com/v1/projects/{_PROJECT}/locations/{_LOCATION}"
)
LMSTUDIO_ADDRESS = "http://127.0.0.1:1234/v1"


@dataclass(frozen=True, slots=True)
class Package:
    """A package that a wire needs and that only an extra of this project installs."""

    module: str
    project: str
    extra: str


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """One value of ``type`` in a configuration file."""

    name: str
    served_as: str = ""  # the kind whose wire serves it; empty: its own
    address: str = ""  # for a type that names one service; a file may give another address
    wire: tuple[str, str] | None = None  # module and class; ``agents.llm`` imports it on first use
    package: Package | None = None
    is_built_in: bool = False  # runs within the server, so it has no address
    is_keyless: bool = False  # may use an account of the machine instead of a key
    # Further names, which only provisioning documents of sub-agents use.
    provisioned_as: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.served_as or self.name


_TABLE = (
    # ``agents.llm.providers`` chooses between the next two by the address.
    ProviderKind("openai", address="https://api.openai.com/v1"),
    ProviderKind(
        "openai-responses",
        address="https://api.openai.com/v1",
        wire=("agents.llm.wires.responses", "ResponsesWire"),
        provisioned_as=("openai_responses",),
    ),
    ProviderKind(
        _COMPATIBLE,
        wire=("agents.llm.wires.openai", "OpenAIWire"),
        provisioned_as=("openai_compat", "openai_compatible", "openai-compatible"),
    ),
    ProviderKind("azure", address=AZURE_ADDRESS, wire=("agents.llm.wires.openai", "OpenAIWire")),
    ProviderKind(
        "anthropic",
        address="https://api.anthropic.com",
        wire=("agents.llm.wires.anthropic", "AnthropicWire"),
    ),
    ProviderKind("gemini", address=_GEMINI_ADDRESS, wire=("agents.llm.wires.gemini", "GeminiWire")),
    ProviderKind(
        "bedrock",
        address=BEDROCK_ADDRESS,
        wire=("agents.llm.wires.bedrock", "BedrockWire"),
        package=Package("botocore", "botocore", "bedrock"),
        is_keyless=True,
    ),
    ProviderKind(
        "vertex",
        address=VERTEX_ADDRESS,
        wire=("agents.llm.wires.vertex", "VertexWire"),
        package=Package("google", "google-auth", "vertex"),
        is_keyless=True,
    ),
    ProviderKind(LOCAL_KIND, is_built_in=True, is_keyless=True),
    ProviderKind(OFFLINE_KIND, is_built_in=True, is_keyless=True),
    # Other names for the same wires.
    ProviderKind("", served_as=_COMPATIBLE),
    ProviderKind("google", served_as="gemini", address=_GEMINI_ADDRESS),
    ProviderKind("vertexai", served_as="vertex", address=VERTEX_ADDRESS),
    ProviderKind("google-vertex", served_as="vertex", address=VERTEX_ADDRESS),
    ProviderKind("openrouter", served_as=_COMPATIBLE, address="https://openrouter.ai/api/v1"),
    ProviderKind("groq", served_as=_COMPATIBLE, address="https://api.groq.com/openai/v1"),
    ProviderKind("xai", served_as=_COMPATIBLE, address="https://api.x.ai/v1"),
    ProviderKind("deepseek", served_as=_COMPATIBLE, address="https://api.deepseek.com/v1"),
    ProviderKind("lmstudio", served_as=_COMPATIBLE, address=LMSTUDIO_ADDRESS),
    *(
        ProviderKind(name, served_as=_COMPATIBLE)
        for name in ("vercel", "litellm", "llamacpp", "ollama", "omlx")
    ),
)
BY_NAME = {kind.name: kind for kind in _TABLE}
BUILT_IN = frozenset(kind.name for kind in _TABLE if kind.is_built_in)
KEYLESS = frozenset(kind.name for kind in _TABLE if kind.is_keyless)
# The kinds that have code of their own, in the order in which messages list them.
SERVED = tuple(kind.name for kind in _TABLE if not kind.served_as)
_PROVISIONED = {"", "google"}  # of the other names, those that provisioning documents may use


def provisioned_kind(written: str) -> str:
    """The kind that a sub-agent's provisioning document means; an unknown name stays as it is."""
    for kind in _TABLE:
        if written in kind.provisioned_as or (kind.name == written and written in _PROVISIONED):
            return kind.kind
    return written
