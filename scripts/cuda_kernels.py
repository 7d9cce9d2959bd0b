#!/usr/bin/env python3
"""Prints what each CUDA kernel takes of each GPU that it was compiled for, and holds it against a table.

    scripts/cuda_kernels.py [--table FILE | --write FILE] CUOBJDUMP OBJECT...

Columns: registers of a thread, bytes of its stack, bytes of shared memory of a block, then instructions. These are
loads from global memory, those of 128 bits or more among them, and arithmetic in float64.

Fails if a kernel has a stack, which is where registers spill to, or computes in float64 and is not of a family in
FLOAT64.
With --table it also fails if a line differs from FILE. Another version of CUDA than FILE names allocates registers
differently, so its lines are not compared. --write makes FILE.
"""

import argparse
import collections
import difflib
import pathlib
import re
import subprocess
import sys

# Families of kernels that compute in float64, and what for.
FLOAT64 = {
    "batch_norm": "statistics: a mean may be much larger than the deviation from it",
    "fixed_point": "gradients are rounded to integers as the host rounds them",
    "losses": "a sample's loss and the mean of them",
    "norm": "sums of squares of all gradients",
    "optimizer": "the ratio of norms of LARS",
}

USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
ARITHMETIC64 = re.compile(r"(DADD|DMUL|DFMA|DSETP|DMMA|DMNMX)\b")
WIDE = re.compile(r"\.(128|256)\b")
HEADINGS = ("kernel", "GPU", "registers", "stack", "shared", "loads", "wide", "float64")
LINE = "{:64} {:>7} {:>9} {:>6} {:>7} {:>6} {:>5} {:>8}"

Row = collections.namedtuple("Row", "kernel gpu registers stack shared loads wide float64")


def said(command):
    """What the command prints, with C++ names in place of symbols."""
    symbols = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return subprocess.run(["c++filt"], input=symbols, check=True, stdout=subprocess.PIPE, text=True).stdout


def short(function):
    """A kernel's name without its namespaces, result and parameters."""
    name = re.sub(r"\(anonymous namespace\)::|\b\w+::", "", function.removeprefix("void "))
    return re.sub(r"\((?!\w+\)\d).*", "", name)


def instructions(cuobjdump, path):
    """Of one object: {(kernel, GPU): how often it has each kind of instruction}."""
    counts = collections.defaultdict(collections.Counter)
    gpu = key = None
    for line in said([cuobjdump, "--dump-sass", path]).splitlines():
        if match := re.match(r"arch = (\w+)", line):
            gpu = match[1]
        elif match := re.match(r"\s*Function : (.*)$", line):
            key = short(match[1]), gpu
        elif match := INSTRUCTION.match(line):
            operation = match[1]
            counts[key]["loads"] += operation.startswith("LDG")
            counts[key]["wide"] += operation.startswith("LDG") and bool(WIDE.search(operation))
            counts[key]["float64"] += bool(ARITHMETIC64.match(operation))
    return counts


def kernels(cuobjdump, path):
    """A row for each kernel and GPU of one object."""
    family = pathlib.Path(path).name.split(".")[0]
    counts = instructions(cuobjdump, path)
    gpu = kernel = None
    for line in said([cuobjdump, "--dump-resource-usage", path]).splitlines():
        if match := re.match(r"arch = (\w+)", line):
            gpu = match[1]
        elif match := re.match(r" Function (.*):$", line):
            kernel = short(match[1])
        elif match := USAGE.search(line):
            registers, stack, shared, local = map(int, match.groups())
            count = counts[kernel, gpu]
            yield Row(f"{family}/{kernel}", gpu, registers, stack + local, shared,
                      count["loads"], count["wide"], count["float64"])


def table(cuobjdump, rows):
    """The lines of the table: the version of CUDA, headings, and a line for each kernel and GPU."""
    version = re.search(r"V(\d+(?:\.\d+)+)", said([cuobjdump, "--version"]))
    yield f"# CUDA {version[1] if version else 'of unknown version'}"
    yield LINE.format(*HEADINGS)
    for row in sorted(rows, key=lambda row: (row.kernel, int(re.sub(r"\D", "", row.gpu)))):
        yield LINE.format(*row)


def faults(rows):
    """A sentence for each promise that kernels break."""
    if spilling := sorted({row.kernel for row in rows if row.stack > 0}):
        yield f"these spill registers into memory: {', '.join(spilling)}"
    if doubles := sorted({row.kernel for row in rows if row.float64 and row.kernel.split("/")[0] not in FLOAT64}):
        yield f"these compute in float64, and FLOAT64 does not name their family: {', '.join(doubles)}"


def compared(lines, path):
    """What differs from the table at path, as sentences."""
    wanted = path.read_text().splitlines()
    if wanted[:1] != lines[:1]:
        print(f"cuda_kernels: not compared with {path}, which is for {wanted[0][2:]}", file=sys.stderr)
        return
    changes = [line for line in difflib.unified_diff(wanted, lines, "the table", "these kernels", lineterm="", n=0)]
    if changes:
        yield "\n".join([f"kernels differ from {path}; if they may, write it anew with --write:", *changes])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=pathlib.Path, help="the table to compare with")
    parser.add_argument("--write", type=pathlib.Path, help="the table to write")
    parser.add_argument("cuobjdump")
    parser.add_argument("objects", nargs="+")
    options = parser.parse_args()
    rows = [row for path in options.objects for row in kernels(options.cuobjdump, path)]
    if not rows:
        print(f"cuda_kernels: there is no kernel in {', '.join(options.objects)}", file=sys.stderr)
        return 1
    lines = list(table(options.cuobjdump, rows))
    print("\n".join(lines))
    print(f"{len({row.kernel for row in rows})} kernels, at most {max(row.registers for row in rows)} registers")
    found = list(faults(rows))
    if options.write:
        options.write.write_text("\n".join(lines) + "\n")
    elif options.table:
        found += compared(lines, options.table)
    for fault in found:
        print(f"cuda_kernels: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
