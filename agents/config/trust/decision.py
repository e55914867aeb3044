"""Decides whether a folder's own configuration may act, and leaves its powers out otherwise. Pure.

An answer is stored with the digest of everything that the person reviewed. A change of any power
changes the digest, and needs a new answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from agents.config.mask import MASK
from agents.config.problem import Problem
from agents.config.trust.powers import Effect, Powers, without_powers
from agents.config.trust.sources import ConfigSource

CURE = "answer the trust request in a client, or run `crush-server trust`"


class TrustMode(StrEnum):
    ASK = "ask"
    ALL = "all"
    NONE = "none"


class TrustState(StrEnum):
    UNNEEDED = "unneeded"  # the folder's configuration has no powers
    TRUSTED = "trusted"
    DENIED = "denied"
    OPEN = "open"  # a person has to answer


@dataclass(frozen=True, slots=True)
class TrustAnswers:
    """The answers for one folder, and the mode for folders without an answer."""

    mode: TrustMode = TrustMode.ASK
    by_digest: Mapping[str, bool] = field(default_factory=dict)

    def state_of(self, powers: Powers) -> TrustState:
        if not powers.items:
            return TrustState.UNNEEDED
        match self.mode:
            case TrustMode.ALL:
                return TrustState.TRUSTED
            case TrustMode.NONE:
                is_allowed = self.by_digest.get(powers.digest, False)
                return TrustState.TRUSTED if is_allowed else TrustState.DENIED
            case TrustMode.ASK if not powers.is_showable:
                return TrustState.DENIED
            case TrustMode.ASK:
                answer = self.by_digest.get(powers.digest)
                if answer is None:
                    return TrustState.OPEN
                return TrustState.TRUSTED if answer else TrustState.DENIED
        assert_never(self.mode)


EVERY_FOLDER = TrustAnswers(TrustMode.ALL)
NO_FOLDER = TrustAnswers(TrustMode.NONE)


@dataclass(frozen=True, slots=True)
class FolderTrust:
    """The state of a folder's trust, and the powers that a person would review."""

    state: TrustState = TrustState.UNNEEDED
    powers: Powers = field(default_factory=Powers)

    @property
    def lets_act(self) -> bool:
        return self.state in {TrustState.UNNEEDED, TrustState.TRUSTED}

    @property
    def why(self) -> str:
        """Returns the reason why powers are left out, and the remedy."""
        if not self.powers.is_showable:
            return "is left out: the list of what this folder's configuration would do is too long to review"
        if self.state is TrustState.DENIED:
            return "is left out, because this folder is not trusted (see `crush-server trust`)"
        return f"is left out until this folder is trusted: {CURE}"

    def problems(self) -> list[Problem]:
        if self.lets_act:
            return []
        keys = dict.fromkeys((item.file, item.key) for item in self.powers.items if item.file)
        return [Problem(file, 0, 0, self.why, key, is_warning=True) for file, key in keys]

    def left_out(self, section: str) -> dict[str, str]:
        """Returns the entries of a section that are left out, each with the reason."""
        if self.lets_act:
            return {}
        begin = f"{section}."
        names = (item.key for item in self.powers.items if item.key.startswith(begin))
        return {name.removeprefix(begin): self.why for name in names}

    def trees(self, sources: Sequence[ConfigSource], *, path: str) -> list[ConfigSource]:
        """Returns the sources; the folder's are without powers unless these are allowed."""
        if self.lets_act:
            return list(sources)
        return [
            ConfigSource(source.file, without_powers(source, path=path), is_folders=True)
            if source.is_folders and not source.is_let_in
            else source
            for source in sources
        ]


def request_text(powers: Powers, *, folder: str) -> tuple[str, dict[str, str]]:
    """Returns the description and parameters of a trust request, as plain texts for clients."""
    sections = [
        ("starts", "It would start these programs:", powers.lines(Effect.STARTS)),
        ("sends_to", "It would send data to these addresses:", powers.lines(Effect.SENDS)),
        ("allows", "It would allow without a permission request:", powers.lines(Effect.ALLOWS)),
        ("expands", "It would read these variables:", powers.variables()),
        ("programs", "The text of these programs:", _texts(powers)),
        ("files", "Files of the folder that these name, as they are now:", sorted(powers.programs)),
    ]
    paragraphs = [
        "\n".join([heading, *(f"  {line}" for line in lines)])
        for _, heading, lines in sections
        if lines
    ]
    opening = (
        f"The configuration in {folder} requests more than a folder may do by itself."
        " Allow it only if you know where this folder comes from."
    )
    if any(MASK in item.line or MASK in item.text for item in powers.items):
        opening += f" What looks like a key is shown as {MASK}: read the files for the rest."
    params = {"folder": folder} | {name: "\n".join(lines) for name, _, lines in sections if lines}
    return "\n\n".join([opening, *paragraphs]), params


def _texts(powers: Powers) -> list[str]:
    """Returns the texts of the programs, which a person must see before allowing them."""
    lines: list[str] = []
    for item in powers.items:
        if item.text:
            lines += [f"{item.file}:", *(f"  {line}" for line in item.text.splitlines())]
    return lines
