"""Checks that links between the pages, and to files and headings, lead somewhere. Usage: check_links.py TREE"""
import pathlib
import re
import sys


def anchors(text):
    """The names of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ +(.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", head)).strip().lower().replace(" ", "-") for head in heads}


def broken_links(tree):
    broken = []
    for page in [*tree.glob("*.md"), *(tree / "docs").glob("*.md")]:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists():
                broken.append(f"{page.name}: {link}: no such file")
            elif anchor and anchor not in anchors(target.read_text()):
                broken.append(f"{page.name}: {link}: no such heading")
    return broken


def main():
    broken = broken_links(pathlib.Path(sys.argv[1]))
    print("\n".join(broken) or "links: all lead somewhere")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
