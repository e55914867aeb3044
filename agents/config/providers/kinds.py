"""The only table of provider kinds: their names, their wires, and their addresses. Pure."""

from __future__ import annotations

from dataclasses import dataclass

OFFLINE_KIND = "offline"
LOCAL_KIND = "local"
RESPONSES_KIND = "openai-responses"
COMPATIBLE_KIND = "openai-compat"
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
    served_as: str = ""  # the kind whose wire it uses; empty: its own
    address: str = ""  # for a type that names one service; a file may give another address
    wire: tuple[str, str] | None = None  # module and class; ``agents.llm`` imports it on first use
    package: Package | None = None
    is_built_in: bool = False  # runs within the server, so it has no address
    is_keyless: bool = False  # may use an account of the machine instead of a key
    key_variable: str = ""  # the usual variable of its key, which errors name
    # Further names, which only provisioning documents of sub-agents use.
    provisioned_as: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.served_as or self.name


_TABLE = (
    # ``agents.llm.providers`` chooses between the next two by the address.
    ProviderKind("openai", address="https://api.openai.com/v1", key_variable="OPENAI_API_KEY"),
    ProviderKind(
        RESPONSES_KIND,
        address="https://api.openai.com/v1",
        wire=("agents.llm.wires.responses", "ResponsesWire"),
        key_variable="OPENAI_API_KEY",
        provisioned_as=("openai_responses",),
    ),
    ProviderKind(
        COMPATIBLE_KIND,
        wire=("agents.llm.wires.openai", "OpenAIWire"),
        provisioned_as=("openai_compat", "openai_compatible", "openai-compatible"),
    ),
    ProviderKind(
        "azure",
        address=AZURE_ADDRESS,
        wire=("agents.llm.wires.openai", "OpenAIWire"),
        key_variable="AZURE_OPENAI_API_KEY",
    ),
    ProviderKind(
        "anthropic",
        address="https://api.anthropic.com",
        wire=("agents.llm.wires.anthropic", "AnthropicWire"),
        key_variable="ANTHROPIC_API_KEY",
    ),
    ProviderKind(
        "gemini",
        address=_GEMINI_ADDRESS,
        wire=("agents.llm.wires.gemini", "GeminiWire"),
        key_variable="GEMINI_API_KEY",
    ),
    ProviderKind(
        "bedrock",
        address=BEDROCK_ADDRESS,
        wire=("agents.llm.wires.bedrock", "BedrockWire"),
        package=Package("botocore", "botocore", "bedrock"),
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
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
    ProviderKind("", served_as=COMPATIBLE_KIND),
    ProviderKind("google", served_as="gemini", address=_GEMINI_ADDRESS),
    ProviderKind("vertexai", served_as="vertex", address=VERTEX_ADDRESS),
    ProviderKind("google-vertex", served_as="vertex", address=VERTEX_ADDRESS),
    ProviderKind(
        "openrouter",
        served_as=COMPATIBLE_KIND,
        address="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
    ),
    ProviderKind(
        "groq",
        served_as=COMPATIBLE_KIND,
        address="https://api.groq.com/openai/v1",
        key_variable="GROQ_API_KEY",
    ),
    ProviderKind(
        "xai", served_as=COMPATIBLE_KIND, address="https://api.x.ai/v1", key_variable="XAI_API_KEY"
    ),
    ProviderKind(
        "deepseek",
        served_as=COMPATIBLE_KIND,
        address="https://api.deepseek.com/v1",
        key_variable="DEEPSEEK_API_KEY",
    ),
    ProviderKind("lmstudio", served_as=COMPATIBLE_KIND, address=LMSTUDIO_ADDRESS),
    *(
        ProviderKind(name, served_as=COMPATIBLE_KIND)
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
    """Returns the kind for a name in a provisioning document; an unknown name is unchanged."""
    for kind in _TABLE:
        if written in kind.provisioned_as or (kind.name == written and written in _PROVISIONED):
            return kind.kind
    return written
