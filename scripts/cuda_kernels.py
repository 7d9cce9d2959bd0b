#!/usr/bin/env python3
"""Prints what each CUDA kernel takes of each GPU that it was compiled for, and fails if one spills.

    scripts/cuda_kernels.py CUOBJDUMP OBJECT...

A kernel that needs more registers than a thread has spills them into memory: its threads then have a stack. No kernel
of ours needs one, so any stack is an error. `make cuda-kernels` runs this.
"""

import pathlib
import re
import subprocess
import sys

RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


def kernels(cuobjdump, path):
    """Of one object: (kernel, GPU, registers, bytes of stack, bytes of shared memory) of each kernel and GPU."""
    dump = subprocess.run([cuobjdump, "--dump-resource-usage", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = subprocess.run(["c++filt"], input=dump, check=True, stdout=subprocess.PIPE, text=True).stdout
    family = pathlib.Path(path).name.split(".")[0]
    gpu = kernel = None
    for line in names.splitlines():
        if match := re.match(r"arch = (\w+)", line):
            gpu = match[1]
        elif match := re.match(r" Function (?:void )?(.*):$", line):
            kernel = f"{family}/" + re.sub(r"\(anonymous namespace\)::|\w+::", "", match[1]).split("(")[0]
        elif match := RESOURCES.search(line):
            registers, stack, shared, local = map(int, match.groups())
            yield kernel, gpu, registers, stack + local, shared


def table(rows):
    """One line a kernel; the GPUs side by side."""
    gpus = sorted({gpu for _, gpu, *_ in rows}, key=lambda gpu: int(re.sub(r"\D", "", gpu)))
    numbers = {(kernel, gpu): "/".join(map(str, rest)) for kernel, gpu, *rest in rows}
    names = sorted({kernel for kernel, *_ in rows})
    yield f"{'registers/stack/shared (bytes)':44}" + "".join(f"{gpu:>12}" for gpu in gpus)
    for name in names:
        yield f"{name:44}" + "".join(f"{numbers.get((name, gpu), '-'):>12}" for gpu in gpus)
    yield f"{len(names)} kernels, at most {max(row[2] for row in rows)} registers"


def main(cuobjdump, *objects):
    rows = [row for path in objects for row in kernels(cuobjdump, path)]
    if not rows:
        print(f"cuda_kernels: there is no kernel in {', '.join(objects)}", file=sys.stderr)
        return 1
    print("\n".join(table(rows)))
    spilling = sorted({kernel for kernel, _, _, stack, _ in rows if stack > 0})
    if spilling:
        print(f"cuda_kernels: these spill registers into memory: {', '.join(spilling)}", file=sys.stderr)
    return 1 if spilling else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    sys.exit(main(*sys.argv[1:]))
