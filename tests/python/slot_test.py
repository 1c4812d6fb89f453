"""C++ code in a Python process: refused until `import encore` has said that the process is Python's, then at home."""
import ctypes
import sys

import torch

library = ctypes.CDLL(sys.argv[1])
library.encore_open_scope.restype = ctypes.c_char_p


def backward_works():
    x = torch.ones(3, requires_grad=True)
    (x * x).sum().backward()
    assert torch.equal(x.grad, 2 * torch.ones(3)), x.grad


for attempt in range(2):
    answer = library.encore_open_scope().decode()
    assert answer.startswith("SlotError: "), answer
    assert "import encore" in answer, answer
backward_works()

import encore  # noqa: E402

answer = library.encore_open_scope().decode()
assert answer == "a scope was opened", answer
with encore.Scope(encore.drop_all()):
    backward_works()
backward_works()
