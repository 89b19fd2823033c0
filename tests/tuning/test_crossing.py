"""Winners are measured on the other inputs, where these were searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import HostModuleError
from harness.core.records import Config, Input
from harness.tuning import Stages
from tests.helpers.replays import FormulaMeasurer, make_spec, opened


class WithoutData(FormulaMeasurer):
    """A measurer that cannot make the data of one input."""

    def __init__(self, lacks: Input) -> None:
        super().__init__()
        self._lacks = lacks

    def measure(self, space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
        """Refuse the input; return the formula's time on the others."""
        if problem == self._lacks:
            self.asked.append((problem, config))
            raise HostModuleError("no data")
        return super().measure(space, problem, config, best_s)


def test_winners_and_the_default_are_measured_on_the_other_inputs(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    with opened(spec, tmp_path / "r.db", FormulaMeasurer(), test_limit=3) as (campaign, _):
        campaign.run()
        state = campaign.state
        winners = {best.config for best in map(state.best, spec.inputs) if best}
        expected = winners | {state.space(spec.inputs[0]).default}
        assert state.crossed
        for problem in spec.inputs:
            assert expected <= set(state.known(problem))


def test_an_input_that_was_not_searched_is_not_measured_for_others(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    _, lacking = spec.inputs
    measurer = WithoutData(lacking)
    with opened(spec, tmp_path / "r.db", measurer, test_limit=3) as (campaign, _):
        campaign.run()
        assert set(campaign.state.left_out) == {lacking}
        assert lacking not in campaign.state.runs
    assert [problem for problem, _ in measurer.asked].count(lacking) == 1, "by its search"


@pytest.mark.parametrize("name", ["UniformRandom", "HillClimb"])
def test_the_default_is_beside_each_winner_where_nothing_is_measured_across(
    name: str, tmp_path: Path
) -> None:
    """These techniques do not start from the default."""
    spec = make_spec(tmp_path)
    options: dict[str, Any] = {"technique": [name], "stages": Stages(cross=False), "test_limit": 4}
    with opened(spec, tmp_path / "r.db", FormulaMeasurer(), **options) as (campaign, _):
        reports = campaign.run()
        default = campaign.state.space(spec.inputs[0]).default
        assert campaign.state.crossed == {(problem, default) for problem in spec.inputs}
    assert all(report.speedup is not None for report in reports)
