"""PTX as text, read into a list of instructions. Nothing is executed here, and no opcode has a meaning yet.

PTX is the assembly language of CUDA, and what Triton's compiler writes before ``ptxas`` makes machine code of it. Only
what Triton writes is read: one kernel a file, no functions, no calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

__all__ = ["Instruction", "Program", "PTXError"]


class PTXError(ValueError):
    """Text that the machine does not know; the message quotes it, with its line."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of a program.

    Parameters
    ----------
    opcode : str
        With all its modifiers, as ``"ld.global.v4.b32"``.
    operands : tuple
        A string each; for a vector ``{a, b}`` a tuple of strings.
    guard : (str, bool) or None
        A predicate register, and the value that it must have for a lane to take part.
    line : int
        Where it begins in the PTX, from 1.
    source : tuple of (str, int)
        File and line of the kernel's source that it was made from, then those that inlined it.
    """

    opcode: str
    operands: tuple
    guard: tuple | None
    line: int
    source: tuple = ()

    def __str__(self):
        operands = ", ".join("{" + ", ".join(each) + "}" if isinstance(each, tuple) else each
                             for each in self.operands)
        guard = f"@{'' if self.guard[1] else '!'}{self.guard[0]} " if self.guard else ""
        return f"{guard}{self.opcode} {operands}".rstrip()


@dataclass(frozen=True)
class Program:
    """One kernel, read from its PTX.

    Parameters
    ----------
    name : str
    parameters : dict
        Type of each parameter by its name, in order: ``"u64"``, ``"u32"``, ``"f32"``, ...
    registers : dict
        Type and number of each family of registers, by its prefix: ``{"%r": ("b32", 95)}`` for ``%r0`` to ``%r94``.
        A register that is declared alone has the number 0.
    shared : dict
        Bytes of each array in shared memory by its name; None for the one whose size the launch gives.
    alignments : dict
        Bytes, by the same names: the address where an array begins is a multiple of them.
    threads : int
        Threads of a block.
    labels : dict
        Index of the instruction that follows each label.
    instructions : tuple of Instruction
    """

    name: str
    parameters: dict
    registers: dict
    shared: dict
    alignments: dict
    threads: int
    labels: dict
    instructions: tuple

    @classmethod
    def parse(cls, text):
        """The one kernel of a PTX text.

        Raises
        ------
        PTXError
            If there is not exactly one kernel, or for a statement that the machine cannot read, with its line.

        Examples
        --------
        >>> kernel = Program.parse('''
        ... .visible .entry twice(.param .u64 twice_param_0)
        ... .reqntid 32
        ... {
        ...     .reg .b32 %r<3>;
        ...     mov.u32 %r1, %tid.x;
        ...     add.s32 %r2, %r1, %r1;
        ...     ret;
        ... }''')
        >>> kernel.name, kernel.threads, [str(each) for each in kernel.instructions]
        ('twice', 32, ['mov.u32 %r1, %tid.x', 'add.s32 %r2, %r1, %r1', 'ret'])
        """
        return _Reader(text).program()

    def without(self, index):
        """The same program with a ``nop`` in place of one instruction, so that the other indices stay."""
        gone = replace(self.instructions[index], opcode="nop", operands=(), guard=None)
        return replace(self, instructions=(*self.instructions[:index], gone, *self.instructions[index + 1:]))

    def where(self, *opcodes):
        """Indices of the instructions whose opcode begins with one of these."""
        return [i for i, each in enumerate(self.instructions) if each.opcode.startswith(opcodes)]

    def loop(self):
        """The first loop of the text, of nested ones the innermost: from where its jump leads back to, to that jump.

        Returns
        -------
        range
            Of indices of instructions; empty if nothing jumps back.

        Examples
        --------
        >>> count_to_3 = Program.parse('''
        ... .visible .entry count_to_3()
        ... .reqntid 32
        ... {
        ...     .reg .b32 %r<2>;  .reg .pred %p<2>;
        ...     mov.b32 %r1, 0;
        ... $again:
        ...     add.s32 %r1, %r1, 1;
        ...     setp.lt.s32 %p1, %r1, 3;
        ...     @%p1 bra $again;
        ...     ret;
        ... }''')
        >>> [str(count_to_3.instructions[i]) for i in count_to_3.loop()]
        ['add.s32 %r1, %r1, 1', 'setp.lt.s32 %p1, %r1, 3', '@%p1 bra $again']
        """
        for jump in self.where("bra"):
            target = self.labels.get(self.instructions[jump].operands[0], jump + 1)
            if target <= jump:
                return range(target, jump + 1)
        return range(0)


_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{")
_PARAMETER = re.compile(r"\.param\s+\.([bus](?:8|16|32|64)|f(?:32|64))\s+"
                        r"(?:\.ptr\s+(?:\.\w+\s+)*(?:\d+\s+)?)?([\w$]+)$")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(.*)")
_INLINED_AT = re.compile(r"inlined_at\s+(\d+)\s+(\d+)\s+\d+")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+([%\w$]+?)(?:<(\d+)>)?$")
_SHARED = re.compile(r"(?<!\w)\.shared\s+(?:\.align\s+(1|2|4|8|16)\s+)?\.[busf](8|16|32|64)\s+([\w$]+)"
                     r"(?:\[(\d*)\])?\s*;")
_ENDS = "ret", "exit", "bra", "bra.uni"
_LABEL = re.compile(r"([$\w]+):")
_INSTRUCTION = re.compile(r"(?:@(!?)(%[\w$]+)\s+)?([a-z][\w.:]*)(?:\s+(.*))?$", re.DOTALL)


class _Reader:
    """Reads a text from top to bottom; keeps where in the source it is."""

    def __init__(self, text):
        self.text = "\n".join(line.partition("//")[0] for line in text.splitlines())
        self.files = {int(number): name.rsplit("/", 1)[-1] for number, name in _FILE.findall(self.text)}
        self.registers, self.labels, self.instructions = {}, {}, []
        self.shared, self.alignments = {}, {}
        for found in _SHARED.finditer(self.text):
            alignment, bits, name, length = found.groups("")
            if name in self.shared:
                raise PTXError(f"{found[0]!r}: {name} is declared once more")
            if found[4] == "" and None in self.shared.values():
                raise PTXError(f"{found[0]!r}: a second array without a size; expected one, as the launch gives one")
            self.shared[name] = None if found[4] == "" else int(length or 1) * int(bits) // 8
            self.alignments[name] = int(alignment or int(bits) // 8)
        for other in re.finditer(r"(?<!\w)\.shared\s.*", _SHARED.sub("", self.text)):
            raise PTXError(f"{other[0]!r}; expected numbers in shared memory, aligned to 16 bytes at most")
        self.source, self.scopes = (), []

    def program(self):
        entries = list(_ENTRY.finditer(self.text))
        if len(entries) != 1:
            raise PTXError(f"text has {len(entries)} kernels (.entry); expected one")
        name, parameters, directives = entries[0].groups()
        self._body(entries[0].end())
        threads = re.search(r"\.reqntid\s+(\d+)\s*$", directives.strip())
        if threads is None:
            raise PTXError(f"{name} says {directives.strip()!r} of its threads; expected .reqntid and one number")
        last = self.instructions[-1] if self.instructions else None
        if last is None or last.guard or last.opcode not in _ENDS:
            raise PTXError(f"{name} does not end in one of {', '.join(_ENDS)}")
        return Program(name, self._parameters(parameters), self.registers, self.shared, self.alignments,
                       int(threads[1]), self.labels, tuple(self.instructions))

    @staticmethod
    def _parameters(text):
        types = {}
        for each in filter(None, map(str.strip, text.split(","))):
            found = _PARAMETER.match(each)
            if found is None:
                raise PTXError(f"parameter {each!r}; expected .param, a type and a name")
            types[found[2]] = found[1]
        return types

    def _body(self, start):
        """Statements up to the brace that closes the kernel's."""
        line = self.text.count("\n", 0, start) + 1
        depth, rest, begin = 1, "", line
        for number, text in enumerate(self.text[start:].split("\n"), start=line):
            begin = begin if rest else number
            rest = f"{rest} {text.strip()}".strip()
            while rest:
                rest, taken, depth = self._statement(rest, begin, depth)
                if depth == 0:
                    return
                if not taken:
                    break
                begin = number
        raise PTXError("the text ends within its kernel")

    def _statement(self, text, line, depth):
        """What follows the first statement, whether there was a whole one, and the depth of braces."""
        if text.startswith((".loc", ".file", ".pragma")):  # ends with its line
            self._location(text)
            return "", True, depth
        if text.startswith("{"):
            self.scopes.append({})
            return text[1:].strip(), True, depth + 1
        if text.startswith("}"):
            if depth > 1:
                self.scopes.pop()
            return text[1:].strip(), True, depth - 1
        label = _LABEL.match(text)
        if label:
            if label[1] in self.labels:
                raise PTXError(f"line {line}: the label {label[1]} once more")
            self.labels[label[1]] = len(self.instructions)
            return text[label.end():].strip(), True, depth
        statement, end, rest = text.partition(";")
        if not end:
            return text, False, depth
        if statement.startswith("."):
            self._directive(statement.strip(), line)
        else:
            self._instruction(statement.strip(), line)
        return rest.strip(), True, depth

    def _location(self, text):
        found = _LOCATION.match(text)
        if found:
            places = [(int(found[1]), int(found[2])),
                      *((int(file), int(line)) for file, line in _INLINED_AT.findall(found[3]))]
            self.source = tuple((self.files.get(file, "?"), line) for file, line in places if line)

    def _directive(self, statement, line):
        if statement.startswith(".shared"):  # known from the beginning
            return
        found = _REGISTERS.match(statement)
        if found is None:
            raise PTXError(f"line {line}: {statement!r}; expected registers or an instruction")
        kind, name, count = found[1], found[2], int(found[3] or 0)
        if self.scopes and count:
            raise PTXError(f"line {line}: {statement!r}; expected registers one by one within inner braces")
        if name in (self.scopes[-1] if self.scopes else self.registers):
            raise PTXError(f"line {line}: {name} is declared once more")
        if self.scopes:  # the same name may mean something else elsewhere
            self.scopes[-1][name] = f"{name}@{len(self.registers)}"
            name = self.scopes[-1][name]
        self.registers[name] = kind, count

    def _instruction(self, statement, line):
        found = _INSTRUCTION.match(statement)
        if found is None:
            raise PTXError(f"line {line}: {statement!r}; expected an instruction")
        negated, predicate, opcode, operands = found.groups()
        guard = (self._scoped(predicate), not negated) if predicate else None
        self.instructions.append(Instruction(opcode, self._operands(operands or ""), guard, line, self.source))

    def _operands(self, text):
        operands = []
        for each in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", text):
            each = each.strip()
            if each.startswith("{"):
                operands.append(tuple(self._scoped(part.strip()) for part in each[1:-1].split(",")))
            elif each.startswith("["):
                place, sign, offset = re.sub(r"\s+", "", each[1:-1]).partition("+")
                operands.append(f"[{self._scoped(place)}{sign}{offset}]")
            else:
                operands.append(self._scoped(re.sub(r"\s+", "", each)))
        return tuple(operands)

    def _scoped(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name
