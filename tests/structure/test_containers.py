"""The Dockerfiles: one build stage for both images, and a set-up script that is called as it asks to be."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILES = sorted((ROOT / "containers").glob("*.Dockerfile"))


def build_stage(dockerfile):
    return re.search(r"^FROM debian:12 AS build\n.*?(?=^FROM )", dockerfile.read_text(), re.M | re.S)[0]


class Dockerfiles(unittest.TestCase):
    def test_all_images_share_the_layers_of_one_build_stage(self):
        self.assertEqual(len(DOCKERFILES), 2)
        self.assertEqual(len({build_stage(path) for path in DOCKERFILES}), 1)

    def test_the_set_up_script_is_told_what_to_set_up(self):
        for path in DOCKERFILES:
            calls = re.findall(r"setup\.sh(.*?)(?:&&|$)", build_stage(path).split("\nRUN", 1)[1], re.M)
            self.assertEqual([words.split() for words in calls if words.strip()], [["build"]], path.name)

    def test_the_compilers_cache_outlives_the_layers(self):
        for path in DOCKERFILES:
            self.assertIn("--mount=type=cache,id=lockstep-ccache,target=/ccache", build_stage(path))


if __name__ == "__main__":
    unittest.main()
