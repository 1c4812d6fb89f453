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


def python_quotes_of(code, before):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        (tree / "examples" / "python").mkdir(parents=True)
        (tree / "README.md").write_text(f"{before}:\n\n```python\n{code}\n```\n")
        (tree / "examples" / "python" / "simple.py").write_text("f(1, 2)\n")
        return wrong_quotes(tree)


assert python_quotes_of("f(1, 2)", "`examples/python/simple.py`") == []
assert python_quotes_of("f(1, 3)", "`examples/python/simple.py`") == ["README.md: examples/python/simple.py"]
assert python_quotes_of("theirs()", "Others write") == []
assert quotes_of("f(1, 2);") == []
assert quotes_of("f(1, 3);") == ["classical.md: examples/simple.cpp"]
