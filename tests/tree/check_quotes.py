"""Checks that each C++ block of the README and the docs, and each Python one that says so, stands in the example named
above it.

Usage: check_quotes.py TREE
"""
import pathlib
import re
import sys


def squeeze(text):
    return "".join(text.split())


def wrong_quotes(tree):
    """Names of the examples whose quote is not in them; a block without an example counts too."""
    wrong = []
    for page in [*tree.glob("*.md"), *(tree / "docs").glob("*.md")]:
        for before, language, code in re.findall(r"([^\n]*)\n\n```(cpp|python)\n(.*?)```", page.read_text(), re.S):
            name = re.search(r"`(examples/[\w/]+\.(?:cpp|py))`", before)
            if not name and language == "python":
                continue  # what others write
            if not name or squeeze(code) not in squeeze((tree / name.group(1)).read_text()):
                wrong.append(f"{page.name}: {name.group(1) if name else before}")
    return wrong


def main():
    wrong = wrong_quotes(pathlib.Path(sys.argv[1]))
    print("\n".join(f"{w}: the code quoted is not there" for w in wrong) or "quotes: all found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
