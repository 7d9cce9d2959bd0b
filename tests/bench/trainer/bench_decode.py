"""How fast one thread decodes JPEGs, against tjbench, libjpeg-turbo's own benchmark: `make bench-trainer`.

Both decode the same image over and over, in turns, with the accurate transform. The images are of `lockstep data
synth`. A speed is the median of the turns, in million pixels per second. Above 1 the ratio says that ours is faster.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build/release"))
SIZES = (32, 224, 512)


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def make_image(size, folder):
    output(BUILD / "bin/lockstep", "data", "synth", folder, "--images", 1, "--size", size, "--classes", 1, "--files")
    return next(folder.rglob("*.jpg"))


def compare(image, size, tjbench, seconds, rounds):
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(float(output(BUILD / "tests/bin/decode_bench", image, "--seconds", seconds)))
        # The last word of its line is the speed of decoding.
        said = output(tjbench, image, "-rgb", "-quiet", "-nowrite", "-benchtime", seconds, "-warmup", 0.2)
        theirs.append(float(said.split()[-1]))
    mine, peer = statistics.median(ours), statistics.median(theirs)
    print(f"{size:>4} x {size:<4}{mine:>14.1f}{peer:>14.1f}{mine / peer:>8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="of a turn (default 1)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each (default 7)")
    args = parser.parse_args()
    tjbench = pathlib.Path(output(ROOT / "scripts/debian-programs.sh", "libjpeg-turbo-progs").strip()) / "tjbench"
    print(f"{'pixels':<11}{'ours Mpx/s':>14}{'tjbench Mpx/s':>14}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            compare(make_image(size, pathlib.Path(folder) / str(size)), size, tjbench, args.seconds, args.rounds)


if __name__ == "__main__":
    main()
