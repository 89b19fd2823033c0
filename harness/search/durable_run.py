"""OpenTuner's main object with our drivers, on a store of ours."""

from __future__ import annotations

import copy
import uuid
from datetime import datetime
from typing import Any

from opentuner.resultsdb.models import BanditInfo, BanditSubTechnique, TuningRun
from opentuner.tuningrunmain import TuningRunMain

from harness.results.transactions import Transactions
from harness.search.drivers import DurableMeasurementDriver, InMemorySearchDriver

_LONGEST_NAME = 128
"""Characters of OpenTuner's column; a server refuses more. Our own table has the whole label."""


class DurableRun(TuningRunMain):  # type: ignore[misc]
    """OpenTuner's main object on a store of ours: it sets up no logging, makes no folder, commits
    for real, and can continue a run."""

    def __init__(
        self, interface: Any, args: Any, store: Transactions, tuning_run: Any = None
    ) -> None:
        self.args = args
        self.store = store
        self.session = store.session
        self.fake_commit = False
        self.last_commit_time = 0.0
        self.measurement_interface = interface
        self.input_manager = interface.input_manager()
        self.manipulator = interface.manipulator()
        self.objective = interface.objective()
        self.objective_copy = copy.copy(self.objective)
        self.tuning_run = tuning_run
        self.search_driver: Any = None

    def init(self) -> None:
        """Make the drivers, and OpenTuner's rows unless a run is continued."""
        if self.search_driver is not None:
            return
        version = self.measurement_interface.db_program_version(self.session)
        self.session.flush()
        is_continued = self.tuning_run is not None
        if not is_continued:
            self.tuning_run = self._new_run(version)
        parts = {
            "args": self.args,
            "input_manager": self.input_manager,
            "manipulator": self.manipulator,
            "measurement_interface": self.measurement_interface,
            "objective": self.objective,
            "session": self.session,
            "tuning_run_main": self,
            "tuning_run": self.tuning_run,
            "extra_seeds": self.measurement_interface.seed_configurations(),
            "extra_criteria": self.measurement_interface.extra_convergence_criteria,
        }
        self.search_driver = InMemorySearchDriver(**parts)
        if is_continued:
            self._drop_second_bandit()
        self.measurement_driver = DurableMeasurementDriver(**parts)
        self.measurement_interface.set_driver(self.measurement_driver)
        self.input_manager.set_driver(self.measurement_driver)
        self.tuning_run.machine_class = self.measurement_driver.get_machine_class()
        self.tuning_run.input_class = self.input_manager.get_input_class()
        self.session.flush()
        self.measurement_driver.make_rows(self.input_manager.select_input(None))

    def _new_run(self, version: Any) -> Any:
        run = TuningRun(
            uuid=uuid.uuid4().hex,
            name=(self.args.label or "unnamed")[:_LONGEST_NAME],
            args=self.args,
            start_date=datetime.now(),
            program_version=version,
            objective=self.objective_copy,
        )
        self.session.add(run)
        self.session.flush()
        return run

    def _drop_second_bandit(self) -> None:
        """Drop the search driver's rows of its bandit, which a continued run has already."""
        for made in list(self.session.new):
            if isinstance(made, BanditInfo):
                made.tuning_run = None
            if isinstance(made, (BanditInfo, BanditSubTechnique)):
                self.session.expunge(made)

    def main(self) -> None:
        """Search to the end; the run's state records how it ended."""
        self.init()
        self._note(state="RUNNING")
        state = "ABORTED"
        try:
            self.search_driver.main()
            self.measurement_driver.write()
            self._name_best()
            state = "COMPLETE"
        finally:
            self.session.rollback()
            self._note(state=state, end_date=datetime.now())

    def _name_best(self) -> None:
        best = self.search_driver.best_result
        if best is not None:
            self._note(final_config_id=self.measurement_driver.rows.id_of(best.configuration))

    def _note(self, **values: object) -> None:
        def note() -> None:
            for name, value in values.items():
                setattr(self.tuning_run, name, value)

        self.store.transact(note)
