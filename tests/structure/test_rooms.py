"""docs/layout.md, the map of the rooms: held against CMake, CMake against the includes, the folders against the map."""

import graphlib
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

LAYOUT = ROOT / "docs/layout.md"
# Headers and folders that are a library of their own beside their room's.
LIBRARIES = {("base", "metrics.h"): "metrics", ("api", "cause.h"): "cause", ("backend", "cuda"): "backend_cuda"}
SIDES = ("operator", "trainer")


def rooms():
    for side in SIDES:
        for folder in sorted((ROOT / side).iterdir()):
            if (folder / "CMakeLists.txt").is_file():
                yield side, folder


def cmake_rooms(folder):
    """The libraries that the room's CMakeLists.txt makes, each with the rooms after its DEPENDS."""
    text = re.sub(r"#.*", "", (folder / "CMakeLists.txt").read_text())
    for call in re.findall(r"lockstep_room\(([^)]*)\)", text):
        library, *words = call.split()
        words = words[words.index("DEPENDS") + 1:] if "DEPENDS" in words else []
        ends = [at for at, word in enumerate(words) if word in ("SOURCES", "MUTATED", "APART", "LIBRARIES")]
        yield library, set(words[:ends[0]] if ends else words)


def cmake_depends(folder):
    """The rooms that any library of the folder may include, itself among them."""
    return set().union(*({library} | depends for library, depends in cmake_rooms(folder)))


def section(text, heading):
    return re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def mapped_rooms(text):
    """The libraries of the map's tables, each with the rooms that it may include."""
    found = {}
    for side in SIDES:
        rows = re.findall(r"^\| `(\w+)/([\w.]*)` \|.*\| ([^|]+) \|$", section(text, f"{side}/"), re.M)
        for room, header, depends in rows:
            names = set() if depends == "nothing of ours" else set(depends.split(", "))
            found[LIBRARIES[room, header] if header else room] = names
    return found


def included_rooms(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"(operator|trainer)/(\w+)/([^"]+)"', line)
        if match:
            yield number, match[1], LIBRARIES.get((match[2], match[3]), match[2])


def sources(folder):
    return [path for path in sorted(folder.rglob("*")) if path.suffix in (".h", ".cpp", ".cu", ".cuh")]


class Rooms(unittest.TestCase):
    def test_the_map_has_the_arrows_of_cmake(self):
        mapped = mapped_rooms(LAYOUT.read_text())
        built = {library: depends for _, folder in rooms() for library, depends in cmake_rooms(folder)}
        self.assertGreater(len(built), 20)
        self.assertEqual(set(mapped), set(built), "the rooms of docs/layout.md and of CMake")
        for library, depends in built.items():
            self.assertEqual(mapped[library], depends, f"docs/layout.md and CMake on what {library} may include")

    def test_no_arrows_of_the_map_form_a_circle(self):
        graphlib.TopologicalSorter(mapped_rooms(LAYOUT.read_text())).prepare()  # raises CycleError

    def test_the_map_names_each_folder_of_tests(self):
        rows = re.findall(r"^\| (`.*?`) \|", section(LAYOUT.read_text(), "tests/"), re.M)
        named = {name for row in rows for name in re.findall(r"`(\w+)/`", row)}
        there = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and re.match("[a-z]", path.name)}
        self.assertEqual(named, there)

    def test_the_map_names_the_files_beside_the_rooms(self):
        (told,) = re.findall(r"^(`main\.cpp`.*) beside the rooms", section(LAYOUT.read_text(), "operator/"), re.M)
        there = {path.stem for path in (ROOT / "operator").iterdir() if path.suffix in (".h", ".cpp")}
        self.assertEqual({name.removesuffix(".cpp") for name in re.findall(r"`([\w.]+)`", told)}, there)

    def test_every_include_has_an_arrow(self):
        missing = []
        for side, folder in rooms():
            depends = cmake_depends(folder)
            for path in sources(folder):
                for number, _, room in included_rooms(path):
                    if room not in depends:
                        missing.append(f"{path.relative_to(ROOT)}:{number} includes {room}, which is not in DEPENDS")
        self.assertFalse(missing, "\n" + "\n".join(missing))

    def test_the_include_check_finds_a_missing_arrow(self):
        text = '#include "operator/kube/api.h"\n#include "operator/base/metrics.h"\n'
        path = pathlib.Path(self.id().replace("/", "_") + ".h")
        try:
            path.write_text(text)
            self.assertEqual([room for _, _, room in included_rooms(path)], ["kube", "metrics"])
        finally:
            path.unlink()

    def test_cpprest_is_included_by_one_file(self):
        users = [str(path.relative_to(ROOT)) for side in SIDES for path in sources(ROOT / side)
                 if re.search(r"#\s*include\s+<(cpprest|pplx)/", path.read_text(errors="replace"))]
        self.assertLessEqual(set(users), {"operator/kube/cpprest_transport.cpp"})

    def test_one_file_knows_how_a_text_becomes_a_number(self):
        users = [str(path.relative_to(ROOT)) for side in (*SIDES, "tests") for path in sources(ROOT / side)
                 if "from_chars" in path.read_text(errors="replace")]
        self.assertEqual(users, ["operator/base/number.cpp"])

    def test_a_rooms_cmake_file_stays_under_twenty_lines(self):
        for _, folder in rooms():
            lines = len((folder / "CMakeLists.txt").read_text().splitlines())
            self.assertLess(lines, 20, f"{folder.relative_to(ROOT)}/CMakeLists.txt")

    def test_one_file_of_core_and_one_per_backend_look_into_the_op_of_a_node(self):
        rooms = [path for room in ("core", "backend", "models") for path in sources(ROOT / "trainer" / room)]
        visits = re.compile(r"std::visit\(.*?\bop\)", re.DOTALL)  # other variants are visited elsewhere
        users = [str(path.relative_to(ROOT)) for path in rooms if visits.search(path.read_text())]
        places = [path.rpartition("/")[0] for path in users]
        self.assertEqual(len(places), len(set(places)), users)

    def test_each_op_has_a_kernel_in_each_backend(self):
        ops = {path.stem for path in (ROOT / "trainer/core/ops").glob("*.h")}
        kernels = {
            backend: {path.stem for path in (ROOT / f"trainer/backend/{backend}/ops").glob("*.cpp")}
            for backend in ("ref", "cpu", "cuda")
        }
        self.assertEqual(kernels, {"ref": ops, "cpu": ops, "cuda": ops})

    def test_every_header_says_what_it_is_for(self):
        for side in SIDES:
            for path in sources(ROOT / side):
                if path.suffix == ".h":
                    self.assertTrue(
                        path.read_text().startswith("//"), f"{path.relative_to(ROOT)} has no opening comment"
                    )


if __name__ == "__main__":
    unittest.main()
