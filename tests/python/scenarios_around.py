"""Saved-tensor hooks, checkpoints, compilers, transforms and unusual tensors, each as a function that gives tensors, or raises.
For adversary_test.py."""
import contextlib

import torch
import torch.utils.checkpoint as checkpoints
from torch import nn
from torch.autograd import graph

from scenarios_autograd import SCENARIOS, Scale, scenario
from support import leaf

__all__ = ["SCENARIOS"]


# Saved tensors


@scenario
def saved_tensors_are_readable():
    x = leaf(4)
    y = x.exp().sin()
    z = y * x
    return [y.grad_fn._saved_self, z.grad_fn._saved_self, z.grad_fn._saved_other, x.grad]


@scenario
def saved_result_is_the_result():
    y = leaf(4).exp()
    return [torch.tensor(y.grad_fn._saved_result is y)]


@scenario
def saved_tensors_cannot_be_read_after_they_were_freed():
    y = leaf(4).exp()
    y.sum().backward()
    y.grad_fn._saved_result


@scenario
def hooks_registered_on_a_saved_tensor():
    x = leaf(4)
    y = x.exp().sin()
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t / 2)
    y.sum().backward()
    return [x.grad]


@scenario
def nested_hooks_the_innermost_wins():
    x = leaf(4)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t * 100):
        with graph.saved_tensors_hooks(lambda t: t * 4, lambda t: t / 2):
            y = x.exp().sin()
        z = y.exp()
    z.sum().backward()
    return [x.grad]


@scenario
def tensors_saved_to_numpy_and_back():
    x = leaf(4, 4)
    with graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy):
        y = (x @ x).exp().sin()
    y.sum().backward()
    return [x.grad]


@scenario
def tensors_saved_on_the_cpu():
    x = leaf(4, 4)
    with graph.save_on_cpu():
        y = (x @ x).exp().sin()
    y.sum().backward()
    return [x.grad]


@scenario
def a_pack_hook_that_raises():
    def pack(_):
        raise OverflowError("pack")

    with graph.saved_tensors_hooks(pack, lambda t: t):
        leaf(4).exp()


@scenario
def an_unpack_hook_that_gives_no_tensor():
    with graph.saved_tensors_hooks(lambda t: t, lambda t: "none"):
        y = leaf(4).exp()
    y.sum().backward()


@scenario
def a_pack_hook_that_writes_in_place():
    with graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        leaf(4).exp().sin()


@scenario
def hooks_around_a_function_of_ones_own():
    x = leaf(4)
    with graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        y = Scale.apply(x.sin(), 2.0)
    y.sum().backward()
    return [x.grad]


@scenario
def hooks_are_forbidden():
    x = leaf(4)
    with graph.disable_saved_tensors_hooks("forbidden here"):
        y = x.exp().sin()
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass
    return [y]


# Checkpoints of PyTorch's own


def kinds(function):
    for reentrant in (True, False):
        def run(reentrant=reentrant):
            return function(lambda f, *args, **kwargs: checkpoints.checkpoint(f, *args, use_reentrant=reentrant, **kwargs))

        SCENARIOS[f"{function.__name__}_{'reentrant' if reentrant else 'not_reentrant'}"] = run
    return function


@kinds
def dropout_draws_once(checkpoint):
    net, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh()), leaf(4, 8)
    y = checkpoint(net, checkpoint(net, x)) + torch.rand(4, 8)
    y.sum().backward()
    return [y.detach(), x.grad, *[p.grad for p in net.parameters()]]


@kinds
def mixed_arguments(checkpoint):
    x, y = leaf(4), torch.randn(4)
    out, none, number = checkpoint(lambda a, b, c, d: ((a * b).exp(), None, c), x, y, 3, None)
    out.sum().backward()
    assert none is None and number == 3
    return [x.grad]


@kinds
def inside_one_another(checkpoint):
    x = leaf(4)
    y = checkpoint(lambda t: checkpoint(lambda u: checkpoint(torch.sin, u.exp()).exp(), t.sin()).cos(), x)
    y.sum().backward()
    return [x.grad]


@kinds
def a_buffer_updated_inside(checkpoint):
    """Each kind updates it again when it recomputes."""
    net, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), leaf(6, 4)
    checkpoint(net, x).square().sum().backward()
    return [x.grad, *[b.clone() for b in net.buffers()]]


@kinds
def a_function_that_raises_the_second_time(checkpoint):
    calls = []

    def f(t):
        calls.append(1)
        if len(calls) == 2:
            raise BlockingIOError("second")
        return t.exp().sin()

    checkpoint(f, leaf(4)).sum().backward()


@kinds
def autograd_grad_through_it(checkpoint):
    x = leaf(4)
    return [torch.autograd.grad(checkpoint(lambda t: t.exp().sin(), x).sum(), x)[0]]


@kinds
def inputs_without_gradients(checkpoint):
    net = nn.Linear(4, 4)
    checkpoint(net, torch.randn(2, 4)).sum().backward()
    return [p.grad for p in net.parameters()]


@kinds
def within_autocast(checkpoint):
    net, x = nn.Sequential(nn.Linear(8, 8), nn.GELU()), leaf(4, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = checkpoint(net, x)
    y.float().sum().backward()
    return [y.detach(), x.grad]


@scenario
def sequential_checkpoints():
    net, x = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(5)]), leaf(3, 6)
    checkpoints.checkpoint_sequential(net, 2, x).sum().backward()
    return [x.grad, *[p.grad for p in net.parameters()]]


# TorchScript and transforms


@scenario
def scripted_and_traced():
    @torch.jit.script
    def f(x):
        y = x.exp()
        for _ in range(3):
            y = y.sin() * x
        return y

    module = torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4))
    x = leaf(2, 4)
    for _ in range(3):
        f(module(x)).sum().backward()
    return [x.grad]


@scenario
def vmap_of_grad():
    functorch = __import__("functorch")
    net = nn.Linear(4, 1)
    f, params = functorch.make_functional(net)
    x = torch.randn(5, 4)
    grads = functorch.vmap(functorch.grad(lambda p, t: f(p, t).tanh().sum()), (None, 0))(params, x)
    return list(grads)


@scenario
def jacobians_both_ways():
    functorch = __import__("functorch")
    x = torch.randn(4, dtype=torch.float64)
    f = lambda t: (t.exp() * t.sum()).sin()  # noqa: E731
    return [functorch.jacrev(f)(x), functorch.jacfwd(f)(x), functorch.hessian(lambda t: f(t).sum())(x)]


@scenario
def vmap_inside_a_graph():
    functorch = __import__("functorch")
    w, x = leaf(4), torch.randn(5, 4)
    functorch.vmap(lambda t: (t * w).exp().sin())(x).sum().backward()
    return [w.grad]


@scenario
def functional_derivatives():
    x, v = torch.randn(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    f = lambda t: (t.exp() * t).sin().sum()  # noqa: E731
    functional = torch.autograd.functional
    return [functional.hessian(f, x), functional.vhp(f, x, v)[1], functional.hvp(f, x, v)[1],
            functional.jacobian(lambda t: t.exp().sin(), x, vectorize=True), functional.jvp(f, x, v)[1]]


@scenario
def forward_mode():
    x = leaf(4)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones(4))
        y = (dual.exp() * dual).sin()
        primal, tangent = torch.autograd.forward_ad.unpack_dual(y)
    (primal.sum() + tangent.sum()).backward()
    return [tangent.detach(), x.grad]


@scenario
def gradcheck_of_a_function():
    x = leaf(3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda t: Scale.apply(t.sin(), 2.0), x)
    assert torch.autograd.gradgradcheck(lambda t: (t.exp() * t).sin(), x)
    return []


@scenario
def dispatch_modes():
    from torch.utils._python_dispatch import TorchDispatchMode

    names = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    x = leaf(4)
    with Log():
        y = x.exp().sin()
    z = y.exp().sum()
    with Log():
        z.backward()
    assert sum("exp" in name for name in names) >= 1
    return [x.grad]


@scenario
def subclasses_by_torch_function():
    class Mine(torch.Tensor):
        pass

    x = leaf(4).detach().as_subclass(Mine).requires_grad_()
    y = (x.exp() * 2).sin()
    assert type(y) is Mine
    y.sum().backward()
    return [x.grad.as_subclass(torch.Tensor)]


@scenario
def wrappers_by_torch_dispatch():
    from torch.utils._pytree import tree_map

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, requires_grad=inner.requires_grad)

        def __init__(self, inner):
            self.inner = inner.detach()

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            unwrap = lambda t: t.inner if isinstance(t, Wrapper) else t  # noqa: E731
            wrap = lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t  # noqa: E731
            return tree_map(wrap, function(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))

    x = Wrapper(leaf(4))
    (x.exp() * 2).sin().sum().backward()
    return [x.grad.inner]


# Tensors and ops of all kinds


@scenario
def sparse_gradients():
    table = nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(list(table.parameters()))
    table(torch.tensor([1, 2, 2])).exp().sum().backward()
    optimizer.step()
    return [table.weight.detach(), table.weight.grad.to_dense()]


@scenario
def sparse_products():
    s, x = torch.randn(4, 4).relu().to_sparse(), leaf(4, 3)
    torch.sparse.mm(s, x.exp()).sin().sum().backward()
    return [x.grad]


@scenario
def complex_numbers():
    x = torch.randn(6, dtype=torch.complex64, requires_grad=True)
    (torch.fft.fft(x.exp()) * x.conj()).abs().sum().backward()
    return [torch.view_as_real(x.grad)]


@scenario
def linear_algebra():
    x = leaf(4, 4, dtype=torch.float64)
    a = x @ x.t() + torch.eye(4)
    u, s, v = torch.linalg.svd(a)
    (torch.linalg.cholesky(a).sum() + torch.linalg.solve(a, x).sum() + s.log().sum() + torch.logdet(a)).backward()
    return [x.grad]


@scenario
def sorting_and_scattering():
    x = leaf(4, 6)
    values, index = x.exp().sort(1)
    top = values.topk(2)[0]
    out = torch.zeros(4, 6).scatter_add(1, index, values)
    (top.sin().sum() + out.cumsum(1).cummax(1)[0].sum() + x.gather(1, index).median()).backward()
    return [x.grad]


@scenario
def strange_strides():
    x = leaf(6, 6)
    h = x.exp()
    y = h.as_strided((3, 3), (7, 1), 2).sin() + h.unfold(0, 3, 3)[0, :3].t() + h[:3, :1].expand(3, 3)
    y.exp().flip(0).roll(1, 1).sum().backward()
    return [x.grad]


@scenario
def recurrent_packed_sequences():
    net, x = nn.GRU(4, 5, bidirectional=True), leaf(6, 3, 4)
    packed = nn.utils.rnn.pack_padded_sequence(x.exp(), torch.tensor([6, 4, 2]))
    out, _ = nn.utils.rnn.pad_packed_sequence(net(packed)[0])
    out.sum().backward()
    return [x.grad, *[p.grad for p in net.parameters()]]


@scenario
def attention_and_transformer_decoder():
    net = nn.Transformer(16, 2, 1, 1, 32, dropout=0.2, batch_first=True)
    a, b = leaf(2, 5, 16), leaf(2, 3, 16)
    net(a, b).sum().backward()
    return [a.grad, b.grad, *[p.grad for p in net.parameters()]]


@scenario
def parametrized_modules():
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    old = nn.utils.weight_norm(nn.Linear(4, 4))
    x = leaf(3, 4)
    old(net(x).exp()).sum().backward()
    return [x.grad, *[p.grad for p in [*net.parameters(), *old.parameters()]], *[b.clone() for b in net.buffers()]]


@scenario
def losses_with_buffers_of_their_own():
    x = leaf(12, 3, 5)
    loss = nn.functional.ctc_loss(x.log_softmax(2), torch.randint(1, 5, (3, 4)), torch.full((3,), 12), torch.full((3,), 4))
    grid = nn.functional.grid_sample(torch.randn(1, 2, 4, 4), x[:2, :2, :2].reshape(1, 2, 2, 2).tanh(), align_corners=False)
    (loss + grid.sum() + nn.functional.max_pool1d(x.exp(), 2).sum()).backward()
    return [x.grad]


@scenario
def numpy_reads():
    x = leaf(4)
    h = x.exp()
    mean = float(h.detach().numpy().mean())
    (h.sin() * mean).sum().backward()
    return [x.grad]


@scenario
def numpy_writes_before_it_is_read():
    x = leaf(4)
    h = x.exp()
    h.detach().numpy()[0] = 7.0  # no version counter moves
    y = h.sin()
    del h
    y.sum().backward()
    return [x.grad]


@scenario
def numpy_writes_after_it_was_saved():
    x = leaf(4)
    h = x * 2
    y = h.sin()
    h.detach().numpy()[0] = 7.0
    del h
    y.sum().backward()  # with what is there when backward runs
    return [x.grad]


@scenario
def numpy_writes_between_two_reads():
    x = leaf(4)
    h = x * 2
    array = h.detach().numpy()
    first = h.cos()
    array[0] = 7.0
    second = h.exp().sin()
    del h, array
    (first + second).sum().backward()
    return [x.grad]


@scenario
def numpy_writes_to_what_others_were_computed_from():
    x = leaf(4)
    h = x * 2
    y = h.exp().sin()
    h.detach().numpy()[0] = 7.0
    z = h.exp()
    del h
    (y + z).sum().backward()
    return [x.grad]


@scenario
def memory_written_through_a_pointer():
    import ctypes

    x = leaf(4)
    h = x.exp()
    ctypes.memset(h.data_ptr(), 0, 8)
    y = h.sin()
    del h
    y.sum().backward()
    return [x.grad]


@scenario
def numpy_shares_what_a_user_holds():
    import numpy

    buffer = numpy.ones(4, dtype=numpy.float32)
    w, x = torch.from_numpy(buffer), leaf(4)
    y = (x * w).exp().sin()
    buffer[0] = 5.0
    y.sum().backward()
    return [x.grad]


@scenario
def storages_resized_and_swapped():
    x = leaf(4)
    h = x.exp()
    y = h.sin()
    w = torch.ones(4)
    w.data = torch.full((4,), 2.0)
    z = torch.empty(0)
    torch.mul(y.detach(), w, out=z)
    (y * z).sum().backward()
    return [x.grad, z]


@scenario
def objects_saved_and_loaded_midway():
    import io

    net, x = nn.Linear(4, 4), leaf(2, 4)
    h = net(x).exp()
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "h": h.detach()}, file)
    file.seek(0)
    net.load_state_dict(torch.load(file)["net"])  # in place, on parameters that backward needs
    with contextlib.suppress(RuntimeError):
        h.sin().sum().backward()
    return [p.detach() for p in net.parameters()]
