"""A memory cgroup of its own for one process, where the machine lets one be made."""
import os
import time


class MemoryGroup:
    """A group with a limit; `enter` is for subprocess's preexec_fn. Gone at the end of the with statement."""

    def __init__(self, limit_bytes):
        name = f"encore-test-{os.getpid()}-{time.monotonic_ns()}"
        if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            parent, limits = "/sys/fs/cgroup", {"memory.max": limit_bytes, "memory.swap.max": 0}
            with open(os.path.join(parent, "cgroup.subtree_control"), encoding="ascii") as file:
                if "memory" not in file.read().split():
                    raise OSError("cgroup v2 without the memory controller below its root")
        else:
            parent, limits = "/sys/fs/cgroup/memory", {
                "memory.limit_in_bytes": limit_bytes, "memory.memsw.limit_in_bytes": limit_bytes}
        self.path = os.path.join(parent, name)
        os.mkdir(self.path)
        try:
            for file, value in limits.items():
                if os.path.exists(os.path.join(self.path, file)):
                    self._write(file, value)
        except OSError:
            os.rmdir(self.path)
            raise

    def _write(self, file, value):
        with open(os.path.join(self.path, file), "w", encoding="ascii") as out:
            out.write(str(value))

    def enter(self):
        self._write("cgroup.procs", os.getpid())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _ in range(50):  # a process that was killed may still be leaving
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)
        os.rmdir(self.path)


def reason_for_none():
    """Empty if groups can be made here, else why not."""
    try:
        with MemoryGroup(1 << 30):
            return ""
    except OSError as error:
        return str(error)
