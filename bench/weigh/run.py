#!/usr/bin/env python3
"""What Encore weighs beside LibTorch: to compile against, to load, on disk.

Usage: bench/weigh/run.py [BUILD]      build/release if not said; make demo builds it

Times are processor seconds, the least of several rounds in which both sides take turns. Lines and bytes of what the
compiler reads are exact.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

ROUNDS_OF_COMPILING = 5
ROUNDS_OF_LOADING = 20
HEADERS = {
    "torch/torch.h alone": "#include <torch/torch.h>\n",
    "with encore/encore.h": "#include <torch/torch.h>\n#include <encore/encore.h>\n",
}


def compiler_of(build):
    """The compiler and its flags for a file that uses the library as its users do."""
    commands = json.loads(subprocess.run(["ninja", "-C", build, "-t", "compdb"], check=True, capture_output=True).stdout)
    command = next(c["command"] for c in commands if "/demo.dir/" in c["command"] and " -c " in c["command"])
    words = shlex.split(command)
    kept = [words[0]]
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-MT", "-MF", "-include"):
            skip = True
        elif not word.startswith(("-M", "-W", "-fpch")):
            kept.append(word)
    return kept


def processor_seconds(command):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit("weigh: failed: " + " ".join(command))
    return usage.ru_utime + usage.ru_stime


def least(commands, rounds):
    """By name: the least time of each command, taking turns."""
    times = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(processor_seconds(command))
    return {name: min(each) for name, each in times.items()}


def print_pair(what, unit, plain, ours, digits):
    print(f"| {what} | {plain:.{digits}f} {unit} | {ours:.{digits}f} {unit} | {100 * (ours - plain) / plain:+.1f}% |")


def weigh_compiling(compiler, folder):
    commands = {}
    sizes = {}
    for number, (name, text) in enumerate(HEADERS.items()):
        source = os.path.join(folder, f"source{number}.cpp")
        with open(source, "w") as file:
            file.write(text + "int main() {}\n")
        commands[name] = compiler + ["-c", source, "-o", source + ".o"]
        read = subprocess.run(compiler + ["-E", "-P", source], check=True, capture_output=True).stdout
        sizes[name] = (read.count(b"\n"), len(read))
    times = least(commands, ROUNDS_OF_COMPILING)
    plain, ours = HEADERS
    print_pair("lines that the compiler reads", "", sizes[plain][0], sizes[ours][0], 0)
    print_pair("bytes of them", "MB", sizes[plain][1] / 1e6, sizes[ours][1] / 1e6, 1)
    print_pair("compiling an empty program", "s", times[plain], times[ours], 2)


def weigh_loading(compiler, build, folder):
    source = os.path.join(folder, "empty.cpp")
    with open(source, "w") as file:
        file.write("int main() {}\n")
    torch = ["-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
    programs = {}
    for name, libraries in (("plain", torch), ("ours", torch + [f"-L{build}", "-lencore", f"-Wl,-rpath,{build}"])):
        program = os.path.join(folder, name)
        subprocess.run(compiler + [source, "-o", program] + libraries, check=True)
        programs[name] = [program]
    times = least(programs, ROUNDS_OF_LOADING)
    print_pair("loading the libraries", "ms", 1e3 * times["plain"], 1e3 * times["ours"], 1)


def weigh_libraries(build, folder):
    for name in ("libencore.so", "libencore_plan.so", "encore"):
        stripped = os.path.join(folder, "stripped")
        path = os.path.realpath(os.path.join(build, name))
        if os.path.exists(path):
            subprocess.run(["strip", "-o", stripped, path], check=True)
            print(f"| {name}, stripped | | {os.path.getsize(stripped) / 1e6:.2f} MB | |")


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release")
    compiler = compiler_of(build)
    print("| | LibTorch alone | with Encore | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        weigh_compiling(compiler, folder)
        weigh_loading(compiler, build, folder)
        weigh_libraries(build, folder)


if __name__ == "__main__":
    main()
