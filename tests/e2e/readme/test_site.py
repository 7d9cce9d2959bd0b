"""The documentation as a site: it builds, its links lead somewhere, and its navigation has each page of docs/."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import e2e  # noqa: E402

SCRIPT = e2e.ROOT / "scripts/site.py"
site = importlib.util.module_from_spec(importlib.util.spec_from_file_location("site_builder", SCRIPT))
site.__spec__.loader.exec_module(site)


def build(*words):
    return subprocess.run([SCRIPT, *words], text=True, capture_output=True, timeout=300, check=False)


@pytest.fixture
def checkout(tmp_path):
    """The pages and what they link to, to be changed."""
    for page in site.pages(e2e.ROOT):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(e2e.ROOT / page, tmp_path / page)
    shutil.copytree(e2e.ROOT / "examples", tmp_path / "examples", dirs_exist_ok=True)
    pictures = [path.relative_to(e2e.ROOT) for path in (e2e.ROOT / "docs").rglob("*.svg")]
    for name in ("mkdocs.yml", "LICENSE", *pictures):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(e2e.ROOT / name, tmp_path / name)
    return tmp_path


def test_the_site_of_the_pages_is_built(checkout):
    done = build(checkout)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{checkout}/out/site/html/index.html"
    home = (checkout / "out/site/html/index.html").read_text()
    assert 'href="docs/install.html"' in home and 'href="examples/index.html"' in home
    assert "docs/demo.svg" in home and (checkout / "out/site/html/docs/demo.svg").exists()
    # Nothing of a page comes from another host.
    assert re.findall(r'<(?:link|script|img)[^>]*(?:src|href)="https?:', home) == []
    assert 'class="mermaid"' in (checkout / "out/site/html/docs/design.html").read_text()


@pytest.mark.parametrize("link, why", [("nowhere.md", "nowhere.md"), ("install.md#no-such-heading", "no-such-heading")])
def test_a_link_that_leads_nowhere_is_refused(checkout, link, why):
    with open(checkout / "docs/laptop.md", "a") as page:
        page.write(f"\n[there]({link})\n")
    done = build(checkout)
    assert done.returncode == 1 and "docs/laptop.md" in done.stderr and why in done.stderr, done.stderr


def test_the_navigation_has_each_page_of_the_docs():
    listed = re.findall(r"^ *- [^:]+: (\S+\.md)$", (e2e.ROOT / "mkdocs.yml").read_text(), re.M)
    assert len(listed) == len(set(listed))
    of_the_docs = {str(page) for page in site.pages(e2e.ROOT) if page.parent == pathlib.Path("docs")}
    assert of_the_docs - set(listed) == set()


def test_a_folder_without_the_project_is_refused(tmp_path):
    done = build(tmp_path)
    assert done.returncode == 2 and f"{tmp_path} has no mkdocs.yml" in done.stderr
