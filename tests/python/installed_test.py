"""The module where it is installed, and moved: nothing of the build tree is needed.

Usage: installed_test.py BUILD_DIR PYTHON_DIR
"""
import os
import shutil
import subprocess
import sys
import tempfile

build, python_dir = sys.argv[1:3]
USE = """
import torch, encore
assert encore.__file__.startswith(FOLDER), encore.__file__
libraries = [line.split()[-1] for line in open("/proc/self/maps") if "libencore" in line]
assert libraries and all(library.startswith(FOLDER) for library in libraries), libraries
x = torch.randn(8, requires_grad=True)
encore.checkpoint(lambda t: t.exp().sin(), x).sum().backward()
assert torch.equal(x.grad, torch.cos(x.detach().exp()) * x.detach().exp())
"""

with tempfile.TemporaryDirectory() as root:
    first, moved = os.path.join(root, "first"), os.path.join(root, "moved")
    for component in ("library", "python"):
        subprocess.run(["cmake", "--install", build, "--prefix", first, "--component", component], check=True,
                       stdout=subprocess.DEVNULL)
    shutil.move(first, moved)
    environment = {**os.environ, "PYTHONPATH": os.path.join(moved, python_dir)}
    subprocess.run([sys.executable, "-c", USE.replace("FOLDER", repr(moved))], check=True, env=environment, cwd=root)
