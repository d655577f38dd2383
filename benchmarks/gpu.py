"""Everything that needs a CUDA device, in stages of at most 8 minutes, with the Python that is there.

    python3 benchmarks/gpu.py                      # all stages, one after the other
    python3 benchmarks/gpu.py correctness          # one of them: correctness, memory, accuracy or times

Nothing is installed and no network is needed: torch, triton and NumPy must be there, pytest for the tests. A stage
writes its JSON into data/ after each part. What it lacks (compute-sanitizer, another library, a module that a test
imports) is printed and stored, and the rest goes on. When its time is up, the file says what was left out, and the same
command goes on from there; a file that is complete, for the same code on the same device, is kept. In the status:

    0  everything was done, and nothing failed
    1  something failed: a test, an access to memory, a part of a stage
    2  the arguments are wrong
    3  there is no device to run on
    4  unfinished: the time was up, or something that the stage cannot do without is missing
"""

import argparse
import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
STAGES = ("correctness", "memory", "accuracy", "times")
NO_DEVICE, UNFINISHED = 3, 4
BEGAN = time.monotonic()
SPARE = 60  # seconds that a stage has to end its last part in, when no other may begin


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=__doc__.partition("\n\n")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"{', '.join(STAGES)}; all if none is named")
    parser.add_argument("--seconds", type=float, default=420.0,
                        help=f"in which parts of a stage may begin (420); {SPARE} s later it is ended")
    parser.add_argument("--only", nargs="+", default=[], metavar="PART",
                        help="the parts (for correctness: the tests) whose names contain one of these")
    parser.add_argument("--fresh", action="store_true", help="begin anew, whatever the files in the folder hold")
    parser.add_argument("--folder", type=Path, help="where the JSON goes: data/, for a rehearsal _build/gpu_rehearsal/")
    parser.add_argument("--workers", type=int, help="processes that run the tests (one for two cores, 8 at most)")
    parser.add_argument("--on", default="cuda", metavar="DEVICE",
                        help="cuda; or a rehearsal and no result, with small shapes: interpreter (Triton's), or "
                             "ptx_machine, which executes the compiled kernels")
    parser.add_argument("--here", action="store_true", help="one stage in this process, for a debugger or a profiler")
    options = parser.parse_args(arguments)
    for stage in options.stages:
        if stage not in STAGES:
            parser.error(f"stage = {stage}; expected one of {', '.join(STAGES)}")
    options.stages = options.stages or list(STAGES)
    if options.here and len(options.stages) != 1:
        parser.error(f"--here with stages = {', '.join(options.stages)}; expected one stage")
    return options


def run(stage, options):
    """One stage in this process, and its status."""
    from gpu_stages import device, machine

    try:
        where = device.chosen(options.on)
    except ValueError as error:
        print(f"gpu.py: {error}", file=sys.stderr)
        return 2
    absent = where.absent()
    if absent:
        print(f"{stage}: nothing was run: {absent}", file=sys.stderr)
        return NO_DEVICE
    os.environ.update(where.environment)  # read when triton is imported
    folder = options.folder or ROOT / ("_build/gpu_rehearsal" if where.rehearsal else "data")
    folder.mkdir(parents=True, exist_ok=True)
    module = importlib.import_module(f"gpu_stages.{stage}")
    machine.installed()
    options.seconds = max(0.0, options.seconds - (time.monotonic() - BEGAN))  # loading torch may take a minute
    return module.run(where, folder, options)


def apart(stage, options):
    """One stage in a process of its own, which is ended if it does not end in time; and its status.

    A kernel that never returns, or a CUDA context that an illegal access has ruined, then costs one stage.
    """
    given = [f"--seconds={options.seconds}", f"--on={options.on}"]
    given += [f"--{name}={getattr(options, name)}" for name in ("folder", "workers") if getattr(options, name)]
    given += ["--fresh"] * options.fresh + (["--only", *options.only] if options.only else [])
    process = subprocess.Popen([sys.executable, __file__, stage, "--here", *given], process_group=0)
    try:
        return process.wait(timeout=options.seconds + SPARE)
    except subprocess.TimeoutExpired:
        print(f"{stage}: ended after {options.seconds + SPARE:.0f} s; its file holds what was done", file=sys.stderr)
        return UNFINISHED
    finally:
        for how in (signal.SIGTERM, signal.SIGKILL):  # first so that it can end what it has started
            if process.poll() is None:
                os.killpg(process.pid, how)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=5)


def main(arguments):
    options = parsed(arguments)
    needed = [str(ROOT / "src"), str(ROOT / "benchmarks")]
    sys.path[:0] = needed
    os.environ["PYTHONPATH"] = os.pathsep.join([*needed, *filter(None, [os.environ.get("PYTHONPATH")])])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(UNFINISHED))  # so that what was started is ended, too
    if options.here:
        return run(options.stages[0], options)
    found = {}
    for stage in options.stages:
        print(f"== {stage}", flush=True)
        found[stage] = apart(stage, options)
    said = {0: "done", 1: "something failed", 2: "wrong arguments", NO_DEVICE: "no device", UNFINISHED: "unfinished"}
    for stage, status in found.items():
        print(f"{stage:12} {said.get(status, f'ended by {status}')}")
    return next((status for status in found.values() if status not in (0, UNFINISHED)), max(found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
