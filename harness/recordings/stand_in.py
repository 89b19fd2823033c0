"""What stands in for a space and a device where there is only a recording."""

from __future__ import annotations

from harness.core.records import Environment
from harness.recordings.recorded import Recorded
from harness.recordings.replay import Recording
from harness.space_file import Spec
from harness.space_file.model import Measure, Search, Verify


def recorded_spec(recorded: Recorded) -> Spec:
    """A spec without kernel, host module and constraints: nothing can be built from it."""
    return Spec(
        path=recorded.path,
        name=recorded.name,
        title=recorded.title,
        functions=(recorded.title,),
        sources={},
        host=recorded.path,
        parameters=recorded.parameters,
        constraints=(),
        launch=None,
        features=recorded.features,
        inputs=tuple(recorded.tables),
        verify=Verify(),
        measure=Measure(),
        search=Search(),
        host_text=recorded.sha256,  # the program is the file: other content, other measurements
    )


def recording_of(recorded: Recorded) -> Recording:
    """What a ReplayMeasurer serves."""
    driver = f"recording {recorded.sha256[:12]}"
    told = Environment("replay", recorded.device, recorded.kind, driver, compiler="recorded")
    return Recording(told, recorded.measurements)
