"""Carry out a request on the devices of all models: a campaign for each, at the same time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from harness.api.devices import open_all_models
from harness.api.request import TuneRequest
from harness.api.session import Listener, Tuned, default_of, make_campaign, open_store
from harness.core.errors import BackendUnavailable
from harness.core.records import Config
from harness.measure.choose import fitted_to
from harness.search import make_opentuner_tables
from harness.tuning.baton import Baton
from harness.tuning.progress import Display
from harness.tuning.side_by_side import SideBySide, SideCampaign


@contextmanager
def tuned_models(request: TuneRequest, listener: Listener) -> Iterator[Sequence[Tuned]]:
    """Run a campaign for each model of devices; each measurement is stored when it ends.

    A campaign whose last device fails ends alone, with its error. Raises what `tuned` raises.
    """
    baton, listener = Baton(), _SaidOnce(listener)
    with ExitStack() as opened:
        # The devices first: where none can be opened, no database is left behind.
        models, skipped = open_all_models(request, opened, baton, listener.say)
        for model in models:
            environment = model.devices.environment
            listener.note(f"backend {environment.backend}: {environment}; {model.why}")
        for text in (*skipped, *(n for model in models for n in model.devices.notices)):
            listener.note(f"note: {text}")
        for model in models:
            for text in model.devices.compare():
                listener.warn(text)
        store = open_store(request, opened, listener)
        make_opentuner_tables(store)
        with listener.progress(None) as display:
            members = []
            for model in models:
                spec = fitted_to(request.spec, model.devices.first)
                for notice in spec.notices:
                    listener.note(f"note: {notice}")
                name = model.name if len(models) > 1 else ""
                part = display.part(name, default_of(spec, model.devices))
                where = model.devices, store, part, listener
                members.append(SideCampaign(make_campaign(request, spec, *where), model.devices))
            ended = SideBySide(members, baton).run()
        done = []
        for member, how in zip(members, ended, strict=True):
            tuned = Tuned(request, member.devices, store, member.campaign, ())
            failed = isinstance(how, BackendUnavailable)
            found = {"error": how} if failed else {"reports": how}
            done.append(dataclasses.replace(tuned, **found))  # type: ignore[arg-type]
        yield done


@dataclass(frozen=True)
class _SaidOnce:
    """Shows each text once: much of what campaigns say is the same for all."""

    listener: Listener
    said: set[str] = field(default_factory=set)

    def note(self, text: str) -> None:
        """Show a fact that may be left out where only results are wanted."""
        if text not in self.said:
            self.said.add(text)
            self.listener.note(text)

    def say(self, text: str) -> None:
        """Show a line."""
        if text not in self.said:
            self.said.add(text)
            self.listener.say(text)

    def warn(self, text: str) -> None:
        """Show a problem that does not end the campaigns."""
        if text not in self.said:
            self.said.add(text)
            self.listener.warn(text)

    def progress(self, default: Config | None) -> AbstractContextManager[Display]:
        """Show progress."""
        return self.listener.progress(default)
