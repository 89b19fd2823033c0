"""python -m harness.dispatch DATABASE -o FOLDER: code that chooses a configuration by input."""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Sequence
from pathlib import Path

from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.records import Config
from harness.core.text import counted
from harness.dispatch.candidates import matrix_of
from harness.dispatch.current_space import as_now
from harness.dispatch.dispatcher import KernelFile, Provenance
from harness.dispatch.kernel_files import cuda_kernels, opencl_kernels
from harness.dispatch.matrix import Matrix
from harness.dispatch.package import (
    check_candidates,
    check_folder,
    earlier_inputs,
    write_dispatcher,
)
from harness.dispatch.program import DispatchProgram
from harness.dispatch.study import DISPATCHERS, Study, fits, learners, sentence, study
from harness.dispatch.text import verdict_lines, verdict_table
from harness.display import ProgressDisplay, make_console
from harness.display.text import print_line, print_lines
from harness.measure.backends import base
from harness.measure.backends.nvcc import Nvcc
from harness.results import without_password
from harness.results.view import Results, left_out_lines, read_results, the_one
from harness.space_file import Spec, load_spec


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), arguments, _dispatch)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.dispatch",
        description="Learn which configuration suits which input, judge it on inputs that were "
        "held out, and write it as C, C++ and Python code with the kernels it chooses from.",
    )
    parser.add_argument("database", nargs="+", help="results databases of one device")
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="FOLDER", help="where to"
    )
    parser.add_argument("--space", metavar="NAME", help="only the space of this name")
    parser.add_argument(
        "--device", metavar="NAME", help="only devices whose name holds this, of several"
    )
    parser.add_argument(
        "--spec", type=Path, metavar="FILE", help="its YAML file (default spaces/NAME.yaml)"
    )
    parser.add_argument(
        "--choice",
        choices=("auto", *DISPATCHERS),
        default="auto",
        help="one tree, one distilled from an ensemble, or the ensemble; auto is the first of "
        "these that surely beats one configuration for all, unless another surely beats it",
    )
    parser.add_argument("--arch", metavar="SM", help="of CUDA's cubins (default what was tuned)")
    parser.add_argument(
        "--force", action="store_true", help="write it even if it does not beat the best static one"
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=0,
        help="of the draws that the trees and what is held out rest on (default 0)",
    )
    return parser


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 2^32 - 1, got {text!r}")
    return int(text)


def _dispatch(args: argparse.Namespace) -> int:
    console = make_console()
    held = read_results(args.database, args.space)
    spec = _spec(args.spec, held)
    results = _results(held, spec, args.device)
    arch = _arch(args.arch, results)
    check_folder(args.output)
    earlier = earlier_inputs(args.output)
    others = [_told(other) for other in held if other is not results]
    if others:
        learnt_from = f"Learnt from {_told(results)}; left out: {'; '.join(others)}"
        print_line(console, learnt_from)
    unfit = list(left_out_lines(results))
    results, notes = as_now(results, spec)
    print_lines(console, (*unfit, *notes))
    matrix = matrix_of(results)
    check_candidates(matrix, results.constraints, spec, results.limits)
    found = _judged(results, matrix, args)
    name = found.best if args.choice == "auto" else args.choice
    learnt = {other: found.learnt(other) for other in found.dispatchers}
    console.print(verdict_table(found, learnt))
    print_line(console, f"\n{sentence(found, name)}")
    is_worth_it = found.gain(name).is_better
    if not is_worth_it and not args.force:
        static = found.matrix.candidates[learnt[name].portfolio[0]]
        print_line(console, _refusal(args.output, static, args.choice))
        return 1
    texts = results.constraints
    guards: dict[Config, tuple[str, ...]] = dict.fromkeys(found.matrix.candidates, texts)
    program = learnt[name].program(found.matrix.candidates, guards)
    verdict = (*verdict_lines(found), "", sentence(found, name))
    count = len(found.matrix.features)
    if earlier is not None and earlier > count:
        print_line(console, _loss(args.output, count, earlier), "yellow")
    made = f"{name}, seed {args.seed}"
    if not is_worth_it:
        made += "; written by force: it does not surely beat the best static configuration"
    written = write_dispatcher(
        args.output,
        program,
        spec,
        _provenance(results, count, made, verdict),
        _kernels(spec, program, results, arch),
        results.limits,
    )
    print_line(console, f"{args.output}: {', '.join(_shown(written, args.output))}")
    return 0


def _refusal(out: Path, static: Config, choice: str) -> str:
    others = "" if choice == "auto" else ", try --choice auto"
    stays = " An earlier dispatcher stays there." if out.exists() else ""
    return (
        f"Nothing is written to {out}: what was learnt chooses no better than one configuration "
        f"for all, ({static}). Tune more inputs{others}, or write it all the same with --force."
        f"{stays}"
    )


def _loss(out: Path, count: int, earlier: int) -> str:
    return (
        f"This one has learnt from {counted(count, 'input')}; the one that it replaces in {out} "
        f"had learnt from {earlier}."
    )


def _spec(path: Path | None, found: Sequence[Results]) -> Spec:
    """The space whose results are wanted."""
    if path is None:
        several = {results.campaign.space_name: results for results in found}
        name = the_one(list(several.values()), "choose one with --space NAME").campaign.space_name
        path = Path("spaces") / f"{name}.yaml"
        if not path.is_file():
            raise UsageError(_nowhere(path, name, found))
    if not path.is_file():
        raise UsageError(f"{path} is not there; name the YAML file of the space with --spec FILE")
    return load_spec(path)


def _nowhere(path: Path, name: str, found: Sequence[Results]) -> str:
    if all(results.campaign.environment.backend == "replay" for results in found):
        return (
            f"{found[0].title} was replayed from a recording: there is no kernel to choose for; "
            "name a space of this kernel with --spec FILE"
        )
    return f"{path} is not there; name the YAML file of {name} with --spec FILE"


def _results(found: Sequence[Results], spec: Spec, device: str | None) -> Results:
    """What was measured of a space as it now is, on one device; of several drivers, compilers or
    campaigns the last.

    Raises UsageError where the space has changed since, and for several devices.
    """
    same = [
        results
        for results in found
        if results.campaign.space_name == spec.name
        and results.campaign.key.program_sha256 == spec.program_sha256
    ]
    if not same:
        raise UsageError(_changed(found, spec))
    latest: dict[tuple[str, str, str], Results] = {}
    for results in sorted(same, key=lambda results: results.last_at, reverse=True):
        told = results.campaign.environment
        if device is None or device.casefold() in told.device.casefold():
            latest.setdefault((told.backend, told.device, told.platform), results)
    if not latest:
        known = "; ".join(dict.fromkeys(r.campaign.environment.device for r in same))
        raise UsageError(f"nothing was measured on a device `{device}`; there are {known}")
    return the_one(list(latest.values()), "choose one with --device NAME")


def _changed(found: Sequence[Results], spec: Spec) -> str:
    known = list(dict.fromkeys(results.campaign.space_name for results in found))
    if spec.name not in known:
        return (
            f"nothing was measured of {spec.path}, whose name is {spec.name}; there are results of "
            f"{', '.join(known)}: name the YAML file of one with --spec FILE"
        )
    return (
        f"{spec.path} is not what was measured: the kernel, a file that it includes, the host "
        "module, the launch, an option or the verification has changed since; tune it again, or "
        "name the YAML file as it was with --spec FILE"
    )


def _told(results: Results) -> str:
    key = results.campaign.key
    inputs = counted(len(results.measured), "input")
    return f"{results.title}, program {key.program_sha256[:8]}, campaign {key.campaign}, {inputs}"


def _arch(asked: str | None, results: Results) -> str:
    """The architecture of cubins: by default what was measured; nothing but on CUDA."""
    told = results.campaign.environment
    found = asked or next(iter(re.findall(r"\bsm_\w+", told.compiler)), "")
    if asked and told.backend != "cuda":
        raise UsageError(f"--arch is of CUDA's cubins; these were measured with {told.backend}")
    if told.backend == "cuda" and not found:
        raise UsageError(
            f"cubins are of one architecture, and `{told.compiler}` tells none; name it, such as "
            "--arch sm_90"
        )
    return found


def _judged(results: Results, matrix: Matrix, args: argparse.Namespace) -> Study:
    names = tuple(DISPATCHERS) if args.choice == "auto" else (args.choice,)
    wanted = learners(names)
    with ProgressDisplay(make_console(stderr=True)) as display:
        display.begin_stage("judged on held-out inputs", fits(matrix, wanted))
        try:
            return study(matrix, wanted, args.seed, display.step)
        except ValueError as error:
            raise UsageError(
                f"{results.title}: nothing can be learnt across inputs: {error}; add inputs to "
                "the space and tune them"
            ) from None


def _provenance(results: Results, inputs: int, choice: str, verdict: Sequence[str]) -> Provenance:
    return Provenance(
        environment=results.campaign.environment,
        program_sha256=results.campaign.key.program_sha256,
        databases=tuple(map(without_password, results.databases)),
        inputs=inputs,
        choice=choice,
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        verdict=tuple(verdict),
    )


def _kernels(
    spec: Spec, program: DispatchProgram, results: Results, arch: str
) -> tuple[KernelFile, ...]:
    """What the candidates are launched from, on the backend that they were measured by; nothing
    for what was only replayed."""
    backend = results.campaign.environment.backend
    if backend == "opencl":
        return opencl_kernels(spec, program)
    if backend == "cuda":
        nvcc: base.Compiler = Nvcc(arch)
        return cuda_kernels(spec, program, nvcc.compile)
    return ()


def _shown(written: Sequence[Path], folder: Path) -> list[str]:
    root = folder.resolve()
    return [path.relative_to(root).as_posix() for path in written]
