"""Follows docs/extending.md in a copy of the sources: one file and one line each for an algorithm, a strategy, a network and
a data format. Of the program only what has changed is compiled, and linked before what the build has.

  extending_test.py SOURCE BUILD
"""
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(os.path.abspath(p)) for p in sys.argv[1:3])
# Who reads a table.
READERS = {"src/collectives/algorithms.inc": "src/collectives/algorithms.cc",
           "src/exchange/strategies.inc": "src/exchange/strategy.cc",
           "src/models/models.inc": "src/models/model.cc",
           "src/data/own_data.inc": "src/data/own_data.cc"}


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, **options)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Extending(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.copy = pathlib.Path(cls.folder.name) / "tutti"
        cls.copy.mkdir()
        for name in ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "cmake", "src", "include", "examples", "python", "third_party"):
            if (SOURCE / name).is_dir():
                shutil.copytree(SOURCE / name, cls.copy / name)
            elif (SOURCE / name).exists():
                shutil.copy(SOURCE / name, cls.copy / name)
        cls.files, cls.lines = cls.follow_the_guide()
        cls.program = cls.build()

    @classmethod
    def follow_the_guide(cls):
        files, lines = [], {}
        blocks = re.findall(r"^```cpp\n// (\S+)\n(.*?)^```$", (SOURCE / "docs/extending.md").read_text(), re.S | re.M)
        for path, text in blocks:
            if path in READERS:
                lines[path] = text
                with (cls.copy / path).open("a") as table:
                    table.write(text)
            else:
                files.append(path)
                assert not (cls.copy / path).exists(), path
                (cls.copy / path).write_text(text)
        return files, lines

    @classmethod
    def build(cls):
        """The program with the copy's new files and tables."""
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        objects = []
        for path in [*cls.files, *(READERS[table] for table in cls.lines)]:
            room = path.split("/")[1]
            entry = next(e for e in commands if f"/tutti_{room}.dir/" in e["command"])
            out = cls.copy / (path.replace("/", "_") + ".o")
            words = shlex.split(entry["command"])
            words[words.index("-o") + 1] = str(out)
            words[words.index("-c") + 1] = str(cls.copy / path)
            # The copy's sources; what the build has made itself stays where it is.
            ours = [w.replace(str(SOURCE / "src"), str(cls.copy / "src")) for w in words]
            assert ours != words, entry["command"]
            run(*ours, cwd=entry["directory"])
            objects.append(str(out))
        link = run("ninja", "-C", BUILD, "-t", "commands", "tutti").strip().split("\n")[-1]
        assert " -o tutti " in link, link
        program = cls.copy / "tutti.program"
        # The readers are compiled alone, so that nothing else of the libraries brings the old tables along.
        run("bash", "-c", link.replace(" -o tutti ", f" -o {program} {' '.join(objects)} "), cwd=BUILD)
        return program

    def tutti(self, *words):
        return run(self.program, *words, cwd=self.folder.name)

    def summary_of(self, *words):
        out = pathlib.Path(self.folder.name) / "-".join(w.strip("-").replace("/", "_").replace(":", "_") for w in words)
        self.tutti("train", *words, "--out", str(out))
        return json.loads((out / "summary.json").read_text())

    def points(self):
        """Three clouds on a line."""
        file = pathlib.Path(self.folder.name) / "points.txt"
        draw = random.Random(7)
        with file.open("w") as out:
            for i in range(600):
                x = 6 * (i % 3) + draw.gauss(0, 1)
                out.write(f"{x:.4f} {draw.gauss(0, 1):.4f} {i % 3}\n")
        return f"points:{file}"

    def test_each_is_one_file_and_one_line(self):
        self.assertEqual(len(self.files), 4)
        self.assertEqual(set(self.lines), set(READERS))
        for text in self.lines.values():
            self.assertEqual(text.count("\n"), 1)

    def test_the_build_finds_the_files_by_itself(self):
        build = self.copy / "build"
        kept = re.findall(r"^((?:CMAKE_PREFIX_PATH|CMAKE_CXX_COMPILER|Torch_DIR|TUTTI_WITH_\w+):\w+=.*)$",
                          (BUILD / "CMakeCache.txt").read_text(), re.M)
        run("cmake", "-S", self.copy, "-B", build, "-G", "Ninja", "-DCMAKE_UNITY_BUILD=OFF", *(f"-D{k}" for k in kept))
        made = (build / "build.ninja").read_text()
        for path in self.files:
            self.assertIn(f"/{pathlib.Path(path).name}.o:", made)

    def test_the_algorithm_adds_up(self):
        self.assertIn("star: all to rank 0 and back", self.tutti("doctor"))
        rows = json.loads(self.tutti("bench", "allreduce", "--ranks", "3", "--algorithm", "star", "--sizes", "64K",
                                     "--iterations", "5", "--json"))
        self.assertEqual([row["algorithm"] for row in rows], ["star"])
        self.assertTrue(all(row["verified"] for row in rows))

    def test_the_network_learns_the_format_with_the_strategy(self):
        self.assertIn("softmax", self.tutti("models"))
        self.assertIn("label below 3", self.tutti("data", "show", self.points()))
        hashes = []
        for strategy in ("patient", "allreduce"):
            summary = self.summary_of("--model", "softmax", "--data", self.points(), "--strategy", strategy, "--workers", "2",
                                      "--batch", "20", "--epochs", "20", "--lr", "0.3")
            self.assertGreater(summary["test_accuracy"], 0.95)
            hashes.append(summary["parameters_sha256"])
        self.assertEqual(*hashes)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
