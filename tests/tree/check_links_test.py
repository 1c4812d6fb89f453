"""check_links.py must find links that lead nowhere."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from check_links import broken_links  # noqa: E402


def links(text):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        (tree / "docs").mkdir()
        (tree / "docs" / "a.md").write_text("# The `first` head\n\n## What, and how\n")
        (tree / "README.md").write_text(text)
        return broken_links(tree)


assert links("[x](docs/a.md) [y](docs/a.md#the-first-head) [z](https://example.org/none) [w](docs/a.md#what-and-how)") == []
assert links("[x](docs/b.md)") == ["README.md: docs/b.md: no such file"]
assert links("[x](docs/a.md#none)") == ["README.md: docs/a.md#none: no such heading"]
assert links("# Here\n[x](#here) [y](#there)") == ["README.md: #there: no such heading"]
