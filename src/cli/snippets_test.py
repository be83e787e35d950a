#!/usr/bin/env python3
"""Runs the snippets of README.md and docs/*.md as they stand.

    snippets_test.py SOURCE BUILD [--only MARK] [--page PAGE]...

Snippets of a page run in their order, in a folder of their own with what they need in it (class Place). What they are decides
how they are run (LANGUAGES). A comment before a snippet, <!-- run: MARK -->, says that it is not run here:

    run: hosts              by the test Hosts.SnippetsOfThePagesRun, which calls this with --only hosts
    run: slurm              by script/test-cluster (on_slurm_test.py)
    run: with THING         here, where there is such a program or such a module of Python
    run: by TEST            by another test of this build
    run: no, because ...    by nobody

Those are counted and shown. An unknown mark, an unknown language and a snippet that fails are failures.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

CLUSTERS = ("hosts", "slurm")
SECONDS = 500

Snippet = collections.namedtuple("Snippet", "page line language mark text")


def snippets_of(page, text):
    """Fenced blocks that name a language; the others are pictures."""
    found, mark, block = [], "", None
    for number, line in enumerate(text.split("\n"), 1):
        fence = re.match(r"\s*```(.*)$", line)
        if block is not None:
            if fence:
                if block[1]:
                    found.append(Snippet(page, block[0], block[1], mark, "".join(block[2:])))
                block, mark = None, ""
            else:
                block.append(line + "\n")
        elif fence:
            block = [number, fence[1].strip()]
        elif line.strip():
            comment = re.fullmatch(r"<!--\s*run:\s*(.*?)\s*-->", line.strip())
            mark = comment[1] if comment else ""
    return found


class Place:
    """A folder for the snippets of a page, with what they name: programs, small data, a table, pictures, a list of hosts."""

    def __init__(self, tests, folder):
        self.tests, self.folder = tests, pathlib.Path(folder)
        (self.folder / "build").mkdir()
        links = {"build/release": tests.build, "examples": tests.source / "examples", "python": tests.source / "python",
                 "deploy": tests.source / "deploy", "from_scratch": tests.build / "examples/from_scratch",
                 "my_program": tests.build / "examples/from_scratch"}
        for name, target in links.items():
            if target.exists():
                (self.folder / name).symlink_to(target)
        self.programs = self.folder / ".programs"
        self.programs.mkdir()
        (self.programs / "tutti").symlink_to(tests.build / "tutti")
        if os.geteuid() == 0 and not shutil.which("sudo"):
            self.script("sudo", 'exec "$@"\n')
        self.write_digits("mnist")
        self.write_digits("fashion-mnist")
        self.write_iris()
        self.write_pictures()
        (self.folder / "hosts").write_text("host1 slots=2\nhost2 slots=2   # a comment\n")

    def script(self, name, text):
        path = self.programs / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def write_digits(self, name):
        """In MNIST's files; the class is the height of a bright bar."""
        folder = self.folder / ".data" / name
        folder.mkdir(parents=True)
        draw = random.Random(7)
        for part, count in (("train", 640), ("t10k", 200)):
            labels = bytes(draw.randrange(10) for _ in range(count))
            pixels = b"".join(bytes(56 * (2 + label)) + b"\xf0" * 56 + bytes(56 * (11 - label)) for label in labels)
            (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + pixels)
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels)

    def write_iris(self):
        draw = random.Random(7)
        rows = ["sepal_length,sepal_width,petal_length,petal_width,species"]
        for i in range(150):
            kind = i % 3
            rows.append(",".join([f"{draw.gauss(3 + 2 * kind, 0.5):.2f}" for _ in range(4)] + [f"kind{kind}"]))
        (self.folder / "iris.csv").write_text("\n".join(rows) + "\n")

    def write_pictures(self):
        draw = random.Random(7)
        for kind, colour in (("cats", b"\xc0\x40\x20"), ("dogs", b"\x20\x60\xd0")):
            folder = self.folder / "pets" / kind
            folder.mkdir(parents=True)
            for i in range(20):
                rows = b"".join(b"\0" + colour * 15 + draw.randbytes(3) for _ in range(16))
                chunks = ((b"IHDR", struct.pack(">2I5B", 16, 16, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
                (folder / f"{i}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
                    struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks))

    def environment(self):
        path = f"{self.programs}:{self.folder}/.home/.local/bin:{os.environ['PATH']}"
        started = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        return dict(os.environ, PATH=path, HOME=f"{self.folder}/.home", TUTTI_DATA=f"{self.folder}/.data", **started)

    def run(self, words, **more):
        done = subprocess.run(words, cwd=self.folder, env=dict(self.environment(), **more), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-4000:]}"

    def write(self, text, comment):
        """A snippet whose first line is a comment with a file's name is that file."""
        name = re.match(re.escape(comment) + r" (\S+\.\w+)\n", text)
        if name:
            (self.folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name[1]).write_text(text)
        return bool(name)


def run_sh(place, text):
    if "pkg-config" in text:
        place.tests.install()
    place.run(["bash", "-euc", text], PKG_CONFIG_PATH=f"{place.tests.prefix}/lib/pkgconfig")


def run_python(place, text):
    place.run(["/usr/bin/python3", "-c", text], PYTHONPATH=str(place.tests.build / "python"), RANK="0", WORLD_SIZE="1",
              MASTER_ADDR="127.0.0.1", MASTER_PORT="0")


def run_cpp(place, text):
    """A file for the snippets after it, or a part of an example that the build has built; "..." leaves lines out."""
    if place.write(text, "//"):
        return
    lines = [line.strip() for line in text.strip().split("\n")]
    for example in (place.tests.source / "examples").rglob("*.cc"):
        parts, at = "\n".join(lines).split("\n...\n"), 0
        whole = "\n".join(line.strip() for line in example.read_text().split("\n"))
        for part in parts:
            at = whole.find(part, at)
            if at < 0:
                break
            at += len(part)
        else:
            return
    raise AssertionError("is neither a file (its name in a comment in the first line) nor a part of a file in examples/")


def run_json(place, text):
    json.loads(text)


def run_toml(place, text):
    assert place.write(text, "#"), "has no name of a file in its first line, so that nothing reads it"


LANGUAGES = {"sh": run_sh, "python": run_python, "cpp": run_cpp, "json": run_json, "toml": run_toml}


class Tests:
    def __init__(self, source, build, scratch):
        self.source, self.build, self.scratch = source, build, scratch
        self.prefix = scratch / "installed"
        self.tests = re.findall(r"add_test\(\"?\[*=*\[?([\w./]+)", "".join(
            f.read_text() for f in build.rglob("CTestTestfile.cmake")))

    def install(self):
        if not self.prefix.exists():
            subprocess.run(["cmake", "--install", self.build, "--prefix", self.prefix], check=True, stdout=subprocess.DEVNULL)

    def is_here(self, thing):
        if shutil.which(thing):
            return True
        found = subprocess.run(["/usr/bin/python3", "-c", f"import {thing}"], stderr=subprocess.DEVNULL,
                               env=dict(os.environ, PYTHONPATH=str(self.build / "python")))
        return found.returncode == 0

    def why_not(self, snippet, only):
        """Why it is not run now; nothing if it is."""
        mark = snippet.mark
        if mark == only:
            return ""
        if only:
            return "has no such mark"
        if mark in CLUSTERS:
            return f"needs {mark}"
        thing = re.fullmatch(r"with (\S+)", mark)
        if thing:
            return "" if self.is_here(thing[1]) else f"{thing[1]} is not here"
        by = re.fullmatch(r"by (\S+)", mark)
        if by and by[1] in self.tests:
            return f"the test {by[1]} does it"
        reason = re.fullmatch(r"no, because (.+)", mark)
        if reason:
            return reason[1]
        raise AssertionError(f"<!-- run: {mark} --> is no mark that this test knows")

    def run_page(self, snippets, only):
        """What is to be said of each."""
        place, said = None, []
        for s in snippets:
            begin = time.monotonic()
            try:
                why_not = self.why_not(s, only)
                if not why_not:
                    assert s.language in LANGUAGES, f"nobody here runs {s.language}"
                    place = place or Place(self, tempfile.mkdtemp(dir=self.scratch))
                    LANGUAGES[s.language](place, s.text)
                said.append((s, why_not, "", time.monotonic() - begin))
            except (AssertionError, ValueError, OSError, subprocess.SubprocessError) as e:
                said.append((s, "", str(e) or repr(e), time.monotonic() - begin))
        return said


def main():
    options = argparse.ArgumentParser()
    options.add_argument("source", type=lambda p: pathlib.Path(p).resolve())
    options.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    options.add_argument("--only", default="", choices=CLUSTERS)
    options.add_argument("--page", action="append")
    given = options.parse_args()
    pages = [given.source / "README.md", *sorted((given.source / "docs").glob("*.md"))]
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(1 if given.only else 2) as pool:
        tests = Tests(given.source, given.build, pathlib.Path(scratch))
        work = []
        for page in pages:
            name = str(page.relative_to(given.source))
            if not given.page or name in given.page:
                work.append(pool.submit(tests.run_page, snippets_of(name, page.read_text()), given.only))
        said = [one for page in work for one in page.result()]
    ran = failed = 0
    for s, why_not, failure, seconds in said:
        if given.only and why_not:
            continue
        ran += not why_not
        failed += bool(failure)
        print(f"{'FAILED ' if failure else 'not run' if why_not else 'ran    '} {s.page}:{s.line} {s.language}"
              + (f": {why_not}" if why_not else f" ({seconds:.1f} s)") + (f"\n{s.text}{failure}" if failure else ""))
    print(f"{ran} snippets ran, {failed} of them failed, {len(said) - ran} were not run")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
