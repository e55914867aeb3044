"""The tokens and the cost of one model request. Pure.

The cost is computed from the model's prices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite

from agents.config.settings import ModelInfo
from agents.llm.contract import Usage

PER = 1_000_000


@dataclass(frozen=True, slots=True)
class RequestUsage:
    """What one model request has used, as far as its provider reports it."""

    provider: str = ""
    model: str = ""
    tokens: Usage = field(default_factory=Usage)
    cost: float = 0.0

    @property
    def prompt_tokens(self) -> int:
        """The tokens of the request, with those from the provider's cache."""
        return self.tokens.input + self.tokens.cache_read + self.tokens.cache_write

    @property
    def completion_tokens(self) -> int:
        return self.tokens.output

    @property
    def is_known(self) -> bool:
        return bool(self.prompt_tokens or self.completion_tokens or self.cost)


def cost_of(usage: Usage, model: ModelInfo) -> float:
    """Returns the cost in the currency of the prices, exact until one final rounding.

    In the catalogue ``in_cached`` is the price of writing the provider's prompt
    cache and ``out_cached`` the price of reading it.
    """
    cost = (
        usage.input * _price(model.cost_per_1m_in)
        + usage.output * _price(model.cost_per_1m_out)
        + usage.cache_write * _price(model.cost_per_1m_in_cached)
        + usage.cache_read * _price(model.cost_per_1m_out_cached)
    )
    return float(cost / PER)


def _price(price: float) -> Fraction:
    # From its digits: 0.15 means the decimal number, not the nearest binary one.
    return Fraction(str(price)) if isfinite(price) and price > 0 else Fraction(0)
