"""check_quotes.py must find a quote that is not in its example."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from check_quotes import wrong_quotes  # noqa: E402


def quotes_of(code):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        (tree / "docs").mkdir()
        (tree / "examples").mkdir()
        (tree / "docs" / "classical.md").write_text(f"Simple (`examples/simple.cpp`):\n\n```cpp\n{code}\n```\n")
        (tree / "examples" / "simple.cpp").write_text("int main() {\n  f(1,\n    2);\n}\n")
        return wrong_quotes(tree)


assert quotes_of("f(1, 2);") == []
assert quotes_of("f(1, 3);") == ["classical.md: examples/simple.cpp"]
