"""Builds the extension tutti_torch._C from ../src and csrc, against the torch that is installed here.

What it needs beside torch: a C++20 compiler and the headers of Boost, fmt and OpenSSL
(Debian: libboost-dev libfmt-dev libssl-dev).
"""
import pathlib
import re
import sys
import sysconfig

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parent / "src"

try:
    import torch
except ImportError:
    # pip builds in an environment of its own, where torch is not. The one to build against is the user's.
    sys.path += [sysconfig.get_path("platlib"), sysconfig.get_path("purelib"), "/usr/lib/python3/dist-packages"]
    import torch

from torch.utils.cpp_extension import BuildExtension, CppExtension

ROOMS = ["base", "net", "collectives"]  # those without libtorch that the backend stands on
NOT_LIBRARY = re.compile(r"_(test|multiproc_test|fuzz|fixture)\.cc$")

files = [path for room in ROOMS for path in sorted((SOURCES / room).rglob("*.cc"))
         if not NOT_LIBRARY.search(path.name)]
files += sorted((HERE / "csrc").glob("*.cc"))

flags = ["-std=c++20", "-O3", "-g0", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-Wno-psabi",
         "-DFMT_HEADER_ONLY",  # torch brings headers of fmt, too, of another version than the system's library
         "-ffp-contract=off", "-fno-trapping-math"]  # as src/collectives/CMakeLists.txt says

version = re.search(r'TUTTI_VERSION "([^"]+)"', (HERE.parent / "include/tutti/version.h").read_text()).group(1)


class Build(BuildExtension):
    def get_source_files(self):
        """None: what a source distribution would hold. The sources of the rooms are outside of this folder."""
        return []


setup(
    version=version,
    ext_modules=[CppExtension(
        "tutti_torch._C", [str(path) for path in files],
        include_dirs=[str(SOURCES), str(HERE.parent / "include"), str(HERE / "csrc")],
        extra_compile_args={"cxx": flags},
        libraries=["crypto"])],
    cmdclass={"build_ext": Build},
)
