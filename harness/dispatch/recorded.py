"""A space for results that OpenTuner recorded without harness, for which there is no space file."""

from __future__ import annotations

import re
from pathlib import Path

from harness.results.view import Results
from harness.space_file import Parameter, Spec
from harness.space_file.model import Measure, Search, Verify


def recorded_spec(results: Results) -> Spec:
    """Make a space of the recorded parameters, values and inputs. It has no kernel, so that a
    dispatcher for it only chooses."""
    campaign, default = results.campaign, results.default
    inputs = tuple(results.measured)
    return Spec(
        path=Path(results.databases[0]),
        name=re.sub(r"\W", "_", campaign.space_name, flags=re.ASCII),
        title=campaign.title,
        functions=(campaign.space_name,),
        sources={},
        host=Path(results.databases[0]),
        parameters=tuple(
            Parameter(name, "enum", tuple(results.rows.values_of(name)), "source", value)
            for name, value in default.items()
        ),
        constraints=(),
        launch=None,
        features=tuple(dict.fromkeys(name for problem in inputs for name in problem)),
        inputs=inputs,
        verify=Verify(),
        measure=Measure(),
        search=Search(),
        host_text="",
    )
