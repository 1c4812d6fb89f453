"""In a Python process the engine slot is Python's: Encore refuses clearly, and Python's autograd goes on working."""
import ctypes
import sys

import torch

library = ctypes.CDLL(sys.argv[1])
library.encore_open_scope.restype = ctypes.c_char_p

for attempt in range(2):
    answer = library.encore_open_scope().decode()
    assert answer.startswith("SlotError: "), answer
    assert "Python" in answer, answer

x = torch.ones(3, requires_grad=True)
(x * x).sum().backward()
assert torch.equal(x.grad, 2 * torch.ones(3)), x.grad
