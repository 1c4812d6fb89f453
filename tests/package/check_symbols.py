"""Compares what the shared libraries export with what they exported at the last release.

Usage: check_symbols.py [--renew] LISTS LIBRARY...

LISTS is a folder with one list a library. A name that went breaks programs that are linked already: raise ENCORE_ABI in
CMakeLists.txt. A name that came is harmless, and must stand in the list from now on: --renew writes the lists anew.
"""
import pathlib
import re
import subprocess
import sys

# Exported for the tree's own tests, benchmarks and Python module, or by the compiler's choice; nothing that a header
# promises.
INSIDE = re.compile(
    r"encore::(run|host|record)::|RecursiveMutex|set_wait_hooks|::Impl\b|\{lambda|::Process::|::Account\b|^guard variable|^typeinfo name for"
)


def exported(library):
    """The names of namespace encore that `library` defines for others."""
    lines = subprocess.run(["nm", "-DC", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    found = set()
    for line in lines.splitlines():
        kind, name = line.split(" ", 2)[1:]
        plain = re.sub(r"^(vtable|typeinfo|VTT) for ", "", name)
        if kind in "TDBRV" and plain.startswith("encore::") and not INSIDE.search(name):
            found.add(name.split("@")[0])
    return found


def differences(name, now, then):
    """What to tell about a library; nothing if it exports what it did."""
    told = [f"{name}: gone, raise ENCORE_ABI and renew the list: {symbol}" for symbol in sorted(then - now)]
    return told + [f"{name}: new, renew the list: {symbol}" for symbol in sorted(now - then)]


def main(arguments):
    renew = "--renew" in arguments
    lists, *libraries = [a for a in arguments if a != "--renew"]
    told, count = [], 0
    for library in libraries:
        name = pathlib.Path(library).name.split(".so")[0]
        path = pathlib.Path(lists, f"{name}.txt")
        now = exported(library)
        if not now:
            told.append(f"{name}: exports nothing")
        count += len(now)
        if renew:
            path.write_text("\n".join(sorted(now)) + "\n")
        told += differences(name, now, set(path.read_text().splitlines()))
    print("\n".join(told) or f"symbols: {count}, as listed")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
