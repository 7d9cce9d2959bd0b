#!/usr/bin/env python3
"""Builds the documentation as a site: out/site/html/index.html, from all pages of the repository.

  scripts/site.py            builds it (the first call installs mkdocs into a folder of the cache)
  scripts/site.py FOLDER     the same from the pages of another checkout, into its out/site

A link that leads nowhere ends it with 1. mkdocs.yml has the navigation, scripts/site.txt the versions.
"""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
VERSIONS = ROOT / "scripts/site.txt"
OURS = ("charts", "containers", "docs", "examples", "manifests", "operator", "scripts", "tests", "trainer")
LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")


def mkdocs():
    """The program, of an environment of its own; installed once for each list of versions."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "lockstep"
    folder = cache / "site"
    stamp = f"{sys.version}\n{VERSIONS.read_text()}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = folder / "complete"
        if not complete.exists() or complete.read_text() != stamp:
            print(f"site.py: installing mkdocs into {folder}", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r",
                            VERSIONS], check=True)
            complete.write_text(stamp)
    return folder / "bin/mkdocs"


def pages(root):
    """The pages of the repository, as paths from its root."""
    found = [*root.glob("*.md"), *(path for folder in OURS for path in (root / folder).rglob("*.md"))]
    return sorted(path.relative_to(root) for path in found)


def contents_of_examples(root):
    """The index of the examples: the text of each file."""
    text = "# Examples\n\n`lockstep run FILE` runs one on this machine, `kubectl apply -f FILE` on a cluster.\n"
    for path in sorted((root / "examples").rglob("*.yaml")):
        text += f"\n## {path.relative_to(root)}\n\n```yaml\n{path.read_text()}```\n"
    return text


def contents_of_decisions(root):
    """The index of the architecture decision records."""
    lines = ["# Decisions", ""]
    for path in sorted((root / "docs/adr").glob("[0-9]*.md")):
        lines.append(f"* [{path.read_text().splitlines()[0].lstrip('# ')}]({path.name})")
    return "\n".join(lines) + "\n"


def stage(root, to):
    """Copies the pages, and the files that they link to, so that each link stays as it is."""
    shutil.rmtree(to, ignore_errors=True)
    for page in pages(root):
        def target(found, page=page):
            linked = (root / page).parent / found[2]
            if linked.is_dir():  # a folder is its index
                return f"{found[1]}{found[2].rstrip('/')}/README.md{found[3]}"
            if linked.is_file() and linked.suffix != ".md":
                copy = to / page.parent / found[2]
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(linked, copy)
            return found[0]

        (to / page).parent.mkdir(parents=True, exist_ok=True)
        (to / page).write_text(LINK.sub(target, (root / page).read_text()))
    for name, contents in (("examples", contents_of_examples), ("docs/adr", contents_of_decisions)):
        (to / name).mkdir(parents=True, exist_ok=True)
        (to / name / "README.md").write_text(contents(root))


def main(arguments):
    if len(arguments) > 1 or any(word.startswith("-") for word in arguments):
        print(__doc__, file=sys.stderr)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    root = pathlib.Path(arguments[0]).resolve() if arguments else ROOT
    if not (root / "mkdocs.yml").exists():
        print(f"site.py: {root} has no mkdocs.yml, so it is no checkout of Lockstep", file=sys.stderr)
        return 2
    stage(root, root / "out/site/pages")
    command = [mkdocs(), "build", "--strict", "--config-file", root / "mkdocs.yml"]
    # mkdocs-material advertises another program at each start.
    done = subprocess.run(command, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode == 0:
        print(root / "out/site/html/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
