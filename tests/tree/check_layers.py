"""Checks that each module includes only what its DEPENDS in CMakeLists.txt allows. Usage: check_layers.py TREE"""
import pathlib
import re
import sys


def read_rules(cmake_text):
    """Module -> (may include torch, the modules it may use)."""
    rules = {}
    for name, rest in re.findall(r"encore_module\((\w+)([^)]*)\)", cmake_text):
        words = rest.split()
        depends = words[words.index("DEPENDS") + 1:] if "DEPENDS" in words else []
        rules[name] = ("TORCH" in words, set(depends) | {name})
    return rules


# Headers of which no source has the name.
WITHOUT_SOURCE = {"recompute": "region"}


def header_modules(tree, rules):
    """Public header -> its module: the folder under include/encore, or the module whose source has the same name."""
    modules = {}
    for header in (tree / "include" / "encore").rglob("*.h"):
        parts = header.relative_to(tree / "include" / "encore").parts
        if len(parts) > 1:
            modules["encore/" + "/".join(parts)] = parts[0]
            continue
        owners = [m for m in rules if (tree / "src" / m / (header.stem + ".cpp")).exists()]
        modules["encore/" + parts[0]] = owners[0] if owners else WITHOUT_SOURCE.get(header.stem)
    return modules


TORCH = re.compile(r"^(torch|ATen|c10)/|^xxhash\.h$")


def violations(tree):
    rules = read_rules((tree / "CMakeLists.txt").read_text())
    public = header_modules(tree, rules)
    found = []
    for module, (torch, allowed) in rules.items():
        files = list((tree / "src" / module).glob("*"))
        files += [tree / "include" / h for h, m in public.items() if m == module]
        for file in sorted(files):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
                if not include:
                    continue
                path = include.group(1)
                used = public.get(path) if path.startswith("encore/") else path.split("/")[0]
                where = f"{file.relative_to(tree)}:{number}"
                if TORCH.match(path) and not torch:
                    found.append(f"{where}: {module} may not use torch ({path})")
                elif used in rules and used not in allowed:
                    found.append(f"{where}: {module} may not use {used} ({path})")
    return found


def main():
    found = violations(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "layers: no violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
