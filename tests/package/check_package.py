"""Installs the built tree into a fresh prefix and builds and runs a consumer project against it.

Usage: check_package.py BUILD_DIR CONSUMER_DIR
"""
import pathlib
import subprocess
import sys
import tempfile

build, consumer = sys.argv[1:3]
with tempfile.TemporaryDirectory() as root:
    prefix, out = pathlib.Path(root, "prefix"), pathlib.Path(root, "out")
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "-G", "Ninja", "-S", consumer, "-B", out, f"-DCMAKE_PREFIX_PATH={prefix}"], check=True)
    subprocess.run(["cmake", "--build", out], check=True)
    programs = [program for program in ("plan_consumer", "consumer") if (out / program).exists()]
    for program in programs:
        subprocess.run([out / program], check=True)
    print(f"package: {', '.join(programs)} built and ran")
