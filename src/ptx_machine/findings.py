"""What the machine saw that no kernel may do: one entry for each kind and place, with an example and a count."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "Finding", "Findings", "counted"]

#: What each kind of fault means, by its name. There are ``out of bounds``, ``misaligned``, ``read before written``,
#: ``race``, ``race of blocks``, ``not waited for`` and ``barrier not reached``.
KINDS = {
    "out of bounds": "an access to bytes that belong to no buffer of the launch",
    "misaligned": "an address that is no multiple of the bytes that are moved",
    "read before written": "a read of memory that nothing has written",
    "race": "two threads of a block, one address, at least one write that changes it, and no barrier between them",
    "race of blocks": "the same for two blocks of one launch, which no barrier can order",
    "not waited for": "an access to where an asynchronous copy is still under way, or a change of what it still reads",
    "barrier not reached": "a barrier that some threads of its block have left out, or where a part of a warp waits "
                           "while the rest waits at another one",
}


@dataclass
class Finding:
    """One kind of fault at one instruction, or at a pair of them.

    Attributes
    ----------
    kind : str
        A key of :data:`KINDS`.
    at : int
        Index of the instruction that was executed when the fault was seen.
    other : int or None
        Index of the earlier instruction of the pair, if there is one.
    where : str
        Of the first time: buffer and byte, or how many threads wait.
    threads : tuple of int
        Of the first time: the thread at ``at``, and if it is a single one, the thread at ``other``. Of two blocks, each
        thread is numbered in its own.
    count : int
        How many lanes did it, over all executions.
    """

    kind: str
    at: int
    other: int | None
    where: str
    threads: tuple
    count: int = 0

    def describe(self, program):
        """A line for people, with the instructions and the lines of their source."""
        text = f"{self.kind}: {_place(program, self.at)}, {self.where}"
        if self.other is not None:
            text += f"; after {_place(program, self.other)}"
        if self.threads:
            text += f"; thread{'s' if len(self.threads) > 1 else ''} {', '.join(map(str, self.threads))}"
        return f"{text}; {counted(self.count, 'time')}"


def counted(number, noun):
    """"1 byte", "2 bytes"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _place(program, index):
    instruction = program.instructions[index]
    source = ", ".join(f"{file}:{line}" for file, line in instruction.source[:1])
    return f"`{instruction}` (line {instruction.line}{f', {source}' if source else ''})"


class Findings(dict):
    """Findings by kind and places."""

    def add(self, kind, at, where, threads=(), other=None, count=1):
        key = kind, at, other
        if key not in self:
            self[key] = Finding(kind, at, other, where, threads)
        self[key].count += int(count)
