"""check_symbols.py must name what went and what came, and leave out what is not promised."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from check_symbols import differences, exported, main  # noqa: E402

CODE = """
namespace encore {
struct __attribute__((visibility("default"))) Kept { virtual ~Kept(); };
Kept::~Kept() {}
__attribute__((visibility("default"))) int f(int) { return 1; }
int hidden() { return 2; }
namespace run { __attribute__((visibility("default"))) int inside() { return 3; } }
}
int other() { return encore::hidden(); }
"""

with tempfile.TemporaryDirectory() as folder:
    source, library = pathlib.Path(folder, "x.cpp"), pathlib.Path(folder, "libx.so.0")
    source.write_text(CODE)
    subprocess.run(["c++", "-shared", "-fPIC", "-fvisibility=hidden", source, "-o", library], check=True)
    names = exported(library)
    assert names == {"encore::f(int)", "encore::Kept::~Kept()", "vtable for encore::Kept",
                     "typeinfo for encore::Kept"}, names
    assert main(["--renew", folder, str(library)]) == 0
    assert main([folder, str(library)]) == 0
    listed = pathlib.Path(folder, "libx.txt")
    listed.write_text(listed.read_text().replace("encore::f(int)", "encore::g(int)"))
    assert main([folder, str(library)]) == 1
assert differences("libx", {"a"}, {"a"}) == []
assert [line.split(",")[0] for line in differences("libx", {"a"}, {"b"})] == ["libx: gone", "libx: new"]
