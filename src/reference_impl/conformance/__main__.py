"""Grades a loss from the command line.

    python -m reference_impl.conformance module:function --kind ctc|rnnt [--variable logits|log_probs] [--batch]
    python -m reference_impl.conformance --program COMMAND ...

``function(scores, targets, *, blank)`` returns loss and gradient of one utterance, in NumPy; with ``--batch`` it is a
torch loss with torch's arguments, ``function(scores, targets, logit_lengths, target_lengths, blank=0)``. A file stands
for a module: ``my_loss.py:ctc``. A program answers JSON lines; `answering.py` describes them.

The exit status is 0 if nothing is wrong, 1 if something is, and 2 if there is nothing to grade. A loss or gradient that
never comes back is not checked, and the report says so. Whatever the loss prints itself goes to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import sys
from pathlib import Path

from .cases import GROUPS
from .conventions import Conventions
from .grading import Expectation, grade
from .identifying import identify
from .programs import Program
from .subjects import LAYOUTS, NotAnswering, function_subject, torch_subject

__all__ = []


def main(arguments=None) -> int:
    given = _parser().parse_args(arguments)
    try:
        expect = _expected(given)
        for option, path in (("--json", given.json), ("--junit", given.junit)):
            if path and (path.is_dir() or not path.parent.is_dir()):
                raise Expectation(f"{option} {path}; expected a file in a folder that exists")
        with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
            subject = _subject(given, stack)
            report = grade(subject, expect=expect, without=given.without, shrink=not given.quick)
        if given.json:
            given.json.write_text(json.dumps(report.as_json(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        if given.junit:
            given.junit.write_text(report.as_junit() + "\n", encoding="utf-8")
    except (Expectation, NotAnswering, ImportError, OSError) as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print(report)
    return 0 if report.right else 1


def _parser():
    names = ", ".join(Conventions("ctc").named())
    parser = argparse.ArgumentParser(
        prog="python -m reference_impl.conformance", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Say which conventions a CTC or RNN-T loss follows, and grade what it returns.",
        epilog=f"conventions: {names}\ngroups: {', '.join(GROUPS)}")
    parser.add_argument("loss", nargs="?", metavar="module:function", help="or file.py:function")
    parser.add_argument("--kind", choices=("ctc", "rnnt"), help="which loss it is")
    parser.add_argument("--variable", choices=("logits", "log_probs"),
                        help="what it takes, and what its gradient is with respect to; found out if left out")
    parser.add_argument("--batch", action="store_true", help="a torch loss of batches, with torch's arguments")
    parser.add_argument("--expect", action="append", default=[], metavar="NAME=VALUE",
                        help="a convention that it is meant to follow, such as fastemit=0.3; again for more")
    parser.add_argument("--without", action="append", default=[], metavar="GROUP",
                        help="a group that is not asked; again for more")
    parser.add_argument("--quick", action="store_true", help="do not look for the smallest failing input")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON, too")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the report as JUnit's XML, too")
    parser.add_argument("--program", nargs=argparse.REMAINDER, help="a program that answers JSON lines; comes last")
    return parser


def _expected(given):
    expect = {"inputs": given.variable, "variable": given.variable} if given.variable else {}
    for each in given.expect:
        name, equals, value = each.partition("=")
        if not equals:
            raise Expectation(f"--expect {each}; expected NAME=VALUE")
        expect[name] = value
    return expect


def _subject(given, stack):
    if given.program is not None:
        if not given.program:
            raise Expectation("--program; expected a command after it")
        return stack.enter_context(Program(given.program))
    if not given.loss or not given.kind:
        raise Expectation(f"which loss? It is {given.loss or 'missing'}, and --kind {given.kind or 'is missing'}; "
                          "expected module:function and --kind ctc or rnnt, or --program")
    function = _imported(given.loss)
    if not given.batch:
        return function_subject(function, given.kind, name=given.loss)
    tried = [torch_subject(function, given.kind, name=given.loss, layout=layout) for layout in LAYOUTS[given.kind]]
    return max(tried, key=lambda subject: _fits(identify(subject)))


def _fits(identified):
    return not identified.errors, identified.loss + identified.gradient


def _imported(name):
    """The function that ``module:function`` or ``file.py:function`` names; raises :class:`Expectation`."""
    module, colon, function = name.rpartition(":")
    if not colon:
        raise Expectation(f"{name}; expected module:function, or file.py:function")
    try:
        found = _module(module)
    except (Exception, SystemExit) as error:  # whatever a stranger's file raises
        raise Expectation(f"{name}; {module} cannot be imported: {type(error).__name__}: {error}") from error
    for part in function.split("."):
        if not hasattr(found, part):
            raise Expectation(f"{name}; {getattr(found, '__name__', module)} has no attribute {part!r}")
        found = getattr(found, part)
    if not callable(found):
        raise Expectation(f"{name} is of type {type(found).__name__}; expected a function")
    return found


def _module(name):
    if not name.endswith(".py"):
        sys.path.insert(0, "")
        return importlib.import_module(name)
    specification = importlib.util.spec_from_file_location(Path(name).stem, name)
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


if __name__ == "__main__":
    sys.exit(main())
