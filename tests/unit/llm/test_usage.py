import pytest

from agents.config.settings import ModelInfo
from agents.llm.contract import Usage
from agents.llm.usage import cost_of

PRICED = ModelInfo(
    "m",
    "M",
    cost_per_1m_in=3,
    cost_per_1m_out=15,
    cost_per_1m_in_cached=3.75,
    cost_per_1m_out_cached=0.3,
)


def test_every_kind_of_token_has_its_price() -> None:
    usage = Usage(input=1_000_000, output=100_000, cache_read=2_000_000, cache_write=400_000)
    assert cost_of(usage, PRICED) == 3 + 1.5 + 0.6 + 1.5


def test_small_costs_are_exact() -> None:
    assert cost_of(Usage(cache_read=1), PRICED) == 0.0000003
    assert cost_of(Usage(input=3), ModelInfo("m", "M", cost_per_1m_in=0.1)) == 0.0000003


def test_a_free_model_costs_nothing() -> None:
    assert cost_of(Usage(5, 5, 5, 5), ModelInfo("m", "M")) == 0.0


@pytest.mark.parametrize("price", [float("nan"), float("inf"), -1.0])
def test_a_price_that_is_none_counts_nothing(price: float) -> None:
    assert cost_of(Usage(input=5), ModelInfo("m", "M", cost_per_1m_in=price)) == 0.0
