"""Uses the library in every way that the README promises, as somebody else's project would.

Usage: check_package.py SOURCE_DIR BUILD_DIR

Installed and moved, by CMake and by pkg-config; from the build tree; as a subdirectory, static; through FetchContent;
the planner where there is no LibTorch; the command by itself; the Debian packages.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
HERE = SOURCE / "tests/package"
CACHE = (BUILD / "CMakeCache.txt").read_text()
WITH_TORCH = "ENCORE_WITH_TORCH:BOOL=ON" in CACHE
COMPILER = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", CACHE, re.M).group(1)
VERSION = re.search(r"^CMAKE_PROJECT_VERSION:\w+=(.*)$", CACHE, re.M).group(1)


def run(*command, fails=False, **more):
    """What a command prints; `fails`: it must."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    text = done.stdout + done.stderr
    if (done.returncode != 0) != fails:
        raise SystemExit(f"package: {' '.join(map(str, command))}: exit code {done.returncode}\n{text}")
    return text


def check(holds, what):
    if not holds:
        raise SystemExit(f"package: {what}")


def configure(project, out, *options, fails=False):
    return run("cmake", "-G", "Ninja", "-S", HERE / project, "-B", out, f"-DCMAKE_CXX_COMPILER={COMPILER}", *options,
               fails=fails)


def build_and_run(out, *programs):
    for program in programs:
        run("cmake", "--build", out, "--target", program)
        run(out / program)


def torch(*programs):
    return programs if WITH_TORCH else ()


def install(build, prefix):
    """Installs, and then moves everything: nothing may know where it was put."""
    run("cmake", "--install", build, "--prefix", prefix.with_name(prefix.name + ".first"))
    prefix.with_name(prefix.name + ".first").rename(prefix)


def check_command(prefix):
    command = prefix / "bin/encore"
    check(run(command, "--version", env={}) == f"encore {VERSION}\n", "encore --version says another version")
    manual = (prefix / "share/man/man1/encore.1").read_text().replace("\\-", "-")
    completion = (prefix / "share/bash-completion/completions/encore").read_text()
    check(f"encore {VERSION}" in manual, "the manual page says another version")
    commands = re.findall(r"^  (\w+) {2,}", run(command, "--help").split("Subcommands:")[1], re.M)
    check(len(commands) == 5, f"{commands} are not the five commands")
    for name in commands:
        check(f"\n.B {name}\n" in manual, f"the manual page has no {name}")
        for option in re.findall(r"--[\w-]+", run(command, name, "--help").split("Options:")[1].split("Example")[0]):
            check(option in manual, f"the manual page has no {option}")
            check(option in completion, f"the completion has no {option}")
    words = run("bash", "-c", f". {prefix}/share/bash-completion/completions/encore; COMP_WORDS=(encore plan --b); "
                              "COMP_CWORD=2; _encore; echo ${COMPREPLY[@]}")
    check(words.strip() == "--budget", f"after `encore plan --b` the completion offers {words}")


def check_files(prefix):
    """Nothing of the machine that built it, nothing that users need not have."""
    texts = [*prefix.rglob("*.cmake"), *prefix.rglob("*.pc")]
    check(len(texts) > 5, "no files for CMake and pkg-config")
    for file in texts:
        for word in str(SOURCE), str(BUILD), str(prefix), "xxhash", "XXHASH":
            check(word not in file.read_text(), f"{file.name} speaks of {word}")
    for library in prefix.rglob("*.so"):
        tags = run("readelf", "-d", library)
        check("$ORIGIN" in tags and str(BUILD) not in tags, f"{library.name}: wrong search path\n{tags}")
        check("xxhash" not in tags, f"{library.name} needs xxhash")


def by_pkg_config(prefix, out, name, source, *more):
    out.mkdir(exist_ok=True)
    folder = next(prefix.rglob("pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", *more, name,
                env={**os.environ, "PKG_CONFIG_PATH": str(folder)}).split()
    run(COMPILER, "-std=c++17", HERE / source, "-o", out / name, *flags, f"-Wl,-rpath,{folder.parent}")
    run(out / name)


def check_target():
    """The target that the README's preset builds has every file that is installed and has to be built."""
    commands = run("ninja", "-C", BUILD, "-t", "commands", "encore_installed")
    built = {(BUILD / file).resolve() for file in re.findall(r" -o (\S+)", commands)}
    rules = (BUILD / "cmake_install.cmake").read_text()
    wanted = {pathlib.Path(file) for file in re.findall(r'"([^"]+/(?:lib[\w.]+|encore|_core[\w.-]+\.so))"', rules)
              if pathlib.Path(file).is_file() and BUILD in pathlib.Path(file).parents}
    check(len(wanted) > 1, "no files to install are found")
    for file in wanted:
        check(file.resolve() in built, f"{file.name} is installed, and the target encore_installed does not build it")


def installed(root):
    check_target()
    prefix = root / "installed"
    install(BUILD, prefix)
    check_command(prefix)
    check_files(prefix)
    where = f"-DCMAKE_PREFIX_PATH={prefix}"
    configure("installed", root / "found", where)
    build_and_run(root / "found", "plan_consumer", *torch("light_consumer", "consumer"))
    by_pkg_config(prefix, root / "pc", "encore-plan", "plan_consumer.cpp")
    if WITH_TORCH:
        by_pkg_config(prefix, root / "pc", "encore", "light_consumer.cpp")
    for version in "0.1", "0.3", "1.0":
        text = configure("installed", root / "version", where, f"-DWANTED={version}", "-DPARTS=plan", fails=True)
        check("version" in text, text)
    no_torch = "-DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON"
    configure("installed", root / "planner", where, "-DPARTS=plan", no_torch)
    build_and_run(root / "planner", "plan_consumer")
    if WITH_TORCH:
        text = configure("installed", root / "torchless", where, no_torch, fails=True)
        check("Torch" in text, text)
    else:
        text = configure("installed", root / "torchless", where, "-DPARTS=encore", fails=True)
        check("without the component 'encore'" in " ".join(text.split()), text)


def from_build_tree(root):
    configure("installed", root / "tree", f"-Dencore_DIR={BUILD}")
    build_and_run(root / "tree", "plan_consumer", *torch("light_consumer"))


def inside_static(root):
    """As a subdirectory, in static libraries; what that project installs can be found too."""
    out, prefix = root / "static", root / "static_installed"
    configure("inside", out, f"-DENCORE={SOURCE}", "-DBUILD_SHARED_LIBS=OFF", f"-DENCORE_WITH_TORCH={WITH_TORCH}",
              "-DCMAKE_CXX_FLAGS=-O0")
    build_and_run(out, "plan_consumer", *torch("light_consumer"))
    run("cmake", "--build", out)
    install(out, prefix)
    check(not [*prefix.rglob("*.so*")] and [*prefix.rglob("libencore_plan.a")], "not static")
    check(not (prefix / "bin").exists(), "a part of another project should not install a command")
    configure("installed", root / "static_found", f"-DCMAKE_PREFIX_PATH={prefix}")
    build_and_run(root / "static_found", "plan_consumer", *torch("light_consumer"))
    if WITH_TORCH:
        by_pkg_config(prefix, root / "static_pc", "encore", "light_consumer.cpp", "--static")


def fetched(root):
    configure("inside", root / "fetched", f"-DENCORE={SOURCE}", "-DWAY=fetch", "-DENCORE_WITH_TORCH=OFF",
              "-DCMAKE_CXX_FLAGS=-O0")
    build_and_run(root / "fetched", "plan_consumer")


def debian_packages(root):
    folder, bare = root / "debian", root / "bare"
    run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", folder)
    packages = {file.name.split("_")[0]: file for file in folder.glob("*.deb")}
    check(sorted(packages) == ["encore", "libencore-dev", "libencore0"], f"packages {sorted(packages)}")
    depends = {name: run("dpkg-deb", "-f", file, "Depends") for name, file in packages.items()}
    check("libstdc++6" in depends["encore"] and "torch" not in depends["encore"], f"encore needs {depends['encore']}")
    check("libencore0 (= " + VERSION in depends["libencore-dev"], f"libencore-dev needs {depends['libencore-dev']}")
    check(("libtorch" in depends["libencore0"]) == WITH_TORCH, f"libencore0 needs {depends['libencore0']}")
    for name, file in packages.items():
        contents = run("dpkg-deb", "-c", file)
        check(f"usr/share/doc/{name}/copyright" in contents, f"{name} has no copyright file")
        check("usr/local" not in contents, contents)
        run("dpkg-deb", "-x", file, bare)
    check("ldconfig" in run("dpkg-deb", "-I", packages["libencore0"], "postinst"), "libencore0 does not call ldconfig")
    check(run(bare / "usr/bin/encore", "--version", env={}) == f"encore {VERSION}\n", "the packaged command fails")
    configure("installed", root / "unpacked", f"-DCMAKE_PREFIX_PATH={bare}/usr", "-DPARTS=plan")
    build_and_run(root / "unpacked", "plan_consumer")


def main():
    ways = [inside_static, installed, fetched, debian_packages, from_build_tree]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for way, done in [(way, pool.submit(way, pathlib.Path(folder))) for way in ways]:
            done.result()
            print(f"package: {way.__name__}: built and ran", flush=True)


if __name__ == "__main__":
    main()
