"""What was found out about a loss, in words, as JSON and as JUnit's XML. It finds out nothing."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from .cases import AFTERWARDS
from .conventions import SCORES
from .identifying import Identified

__all__ = ["Accuracy", "Counted", "Finding", "LossReport"]


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: a sentence, the cases in which it shows, and the smallest of them, drawn."""

    sentence: str
    cases: tuple[str, ...]
    fields: tuple[str, ...]
    example: str = ""


@dataclass(frozen=True)
class Counted:
    """Cases of a group: how many were asked, and how many are wrong."""

    asked: int
    wrong: int


@dataclass(frozen=True)
class Accuracy:
    """Errors of a long utterance: of the loss, relative, and the largest of the gradient, absolute."""

    precision: str
    frames: int
    loss: float | None
    gradient: float | None


@dataclass(frozen=True)
class LossReport:
    """What was found out about a loss; ``str`` of it is all of that in words."""

    name: str
    version: str
    kind: str
    identified: Identified
    expected: Mapping[str, str]
    findings: tuple[Finding, ...]
    groups: Mapping[str, Counted]
    left_out: tuple[str, ...]
    accuracy: tuple[Accuracy, ...]
    seconds: float

    @property
    def right(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def counted(self) -> Counted:
        """How many cases were asked, and for how many of them a number or an error is wrong."""
        of = [each for group, each in self.groups.items() if group != AFTERWARDS]
        return Counted(sum(each.asked for each in of), sum(each.wrong for each in of))

    @property
    def unchecked(self) -> str:
        """A sentence on the gradient, or the loss, if that never came back; empty if both did, or neither."""
        missing = {"loss", "gradient"} - self.identified.given
        return f"No {missing.pop()} came back, and none was checked." if len(missing) == 1 else ""

    def __str__(self):
        lines = [f"{self.name} {self.version}".strip() + f" ({ {'ctc': 'CTC', 'rnnt': 'RNN-T'}[self.kind]}): "
                 + self._verdict(), ""]
        lines += self._conventions()
        if self.groups:
            each_group = [f"{name} {each.asked - each.wrong}/{each.asked}" for name, each in self.groups.items()]
            total, of = self.counted, f"{next(iter(self.identified.given))}s" if self.unchecked else "cases"
            lines += ["", f"{total.asked - total.wrong} of {total.asked} {of} right: {', '.join(each_group)}"]
        if self.left_out:
            lines.append(f"Not asked: {', '.join(self.left_out)}.")
        lines += self._accuracy()
        for number, finding in enumerate(self.findings, start=1):
            lines += ["", f"{number}. {finding.sentence}"]
            if finding.cases:
                lines.append(f"   {', '.join(finding.fields)}: {_some(finding.cases)}")
            lines += [f"   {line}" for line in finding.example.splitlines()]
        return "\n".join(lines)

    def _verdict(self):
        if not self.right:
            return f"{len(self.findings)} finding{'s' * (len(self.findings) != 1)}"
        if not self.unchecked:
            return "right"
        return f"the {next(iter(self.identified.given))} is right; {self.unchecked[0].lower()}{self.unchecked[1:-1]}"

    def _conventions(self):
        conventions, identified = self.identified.conventions, self.identified
        named = conventions.named()
        lines = []
        if "loss" in identified.given and identified.loss:
            lines.append(f"The loss is -log Z of the scores as {SCORES[conventions.inputs]}, {conventions.loss}"
                         + (", one number for a batch" if conventions.total else "")
                         + f" (reduction {named['reduction']})"
                         + (", times 1 + lambda with FastEmit" if conventions.emphasised_loss else "") + ".")
        if "gradient" in identified.given and identified.gradient:
            lines.append(f"The gradient is that with respect to {SCORES[conventions.variable]}, {conventions.gradient}"
                         + (f", with FastEmit, lambda = {named['fastemit']}" if conventions.fastemit_lambda else "")
                         + (f", clamped at {named['clamp']}" if conventions.clamp else "") + ".")
        lines += [f"The {field} follows no known convention on ordinary utterances." for field in ("loss", "gradient")
                  if field in identified.given and not getattr(identified, field)]
        lines += [self.unchecked] * bool(self.unchecked and not self.right)
        lines += [f"{name.removeprefix('log_').capitalize()} {said or 'has no name here'}."
                  for name, said in identified.prefixes.items()]
        if identified.precision != "float64":
            lines.append(f"It returns {identified.precision}, and is compared as such.")
        if identified.label_is_blank:
            lines.append(f"A label that equals the blank is {identified.label_is_blank}.")
        if self.expected:
            lines.append("Expected: " + ", ".join(f"{name} = {value}" for name, value in self.expected.items()) + ".")
        return lines

    def _accuracy(self):
        return [f"{each.precision}, {each.frames} frames: " + ", ".join(
            f"{name} off by {value:.1e}" for name, value in (("loss", each.loss), ("gradient", each.gradient))
            if value is not None) for each in self.accuracy if (each.loss, each.gradient) != (None, None)]

    def as_json(self) -> dict:
        """All of it as a dict that is JSON."""
        identified = self.identified
        return _plain({
            "name": self.name, "version": self.version, "kind": self.kind, "right": self.right,
            "conventions": identified.named(), "departures": identified.departures(),
            "identified": {"loss": identified.loss, "gradient": identified.gradient, "given": sorted(identified.given)},
            "label_is_blank": identified.label_is_blank, "prefixes": dict(identified.prefixes),
            "expected": dict(self.expected),
            "groups": {name: asdict(each) for name, each in self.groups.items()}, "left_out": list(self.left_out),
            "accuracy": [asdict(each) for each in self.accuracy], "findings": [asdict(each) for each in self.findings],
        })

    def as_junit(self) -> str:
        """One test case for each group and for each finding about conventions, as JUnit's XML."""
        suite = ElementTree.Element("testsuite", name=f"conformance {self.name}", time=f"{self.seconds:.3f}")
        failures = {}
        for finding in self.findings:
            groups = {case.partition("/")[0] for case in finding.cases} or {"conventions"}
            for group in groups:
                failures.setdefault(group, []).append(finding)
        names = ["conventions", *self.groups]
        for group in names:
            case = ElementTree.SubElement(suite, "testcase", classname=self.name, name=group)
            for finding in failures.get(group, ()):
                failure = ElementTree.SubElement(case, "failure", message=finding.sentence)
                failure.text = "\n".join(["\n".join(finding.cases), finding.example]).strip()
        for group in self.left_out:
            case = ElementTree.SubElement(suite, "testcase", classname=self.name, name=group)
            ElementTree.SubElement(case, "skipped", message="the loss takes no such input, or it was left out")
        if self.unchecked:
            case = ElementTree.SubElement(suite, "testcase", classname=self.name, name="what did not come back")
            ElementTree.SubElement(case, "skipped", message=self.unchecked)
        suite.set("tests", str(len(names) + len(self.left_out) + bool(self.unchecked)))
        suite.set("failures", str(sum(group in failures for group in names)))
        suite.set("skipped", str(len(self.left_out) + bool(self.unchecked)))
        ElementTree.indent(suite)
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _some(cases, most=6):
    said = ", ".join(cases[:most])
    return said if len(cases) <= most else f"{said} and {len(cases) - most} more"


def _plain(value):
    """JSON has no infinities and no NaN: they become strings."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
