"""What a test suite of autograd asks, each as a function that gives tensors, or raises. For adversary_test.py."""
import gc

import torch
from torch import nn
from torch.autograd import Function

from support import leaf

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


class Scale(Function):
    """Saves an input, an output and something in between."""

    @staticmethod
    def forward(ctx, x, factor):
        between = x.exp()
        y = between * factor
        ctx.save_for_backward(x, between, y)
        ctx.factor = factor
        return y

    @staticmethod
    def backward(ctx, grad):
        x, between, y = ctx.saved_tensors
        return grad * between * ctx.factor + 0 * (x + y), None


# Graphs and how they are run


@scenario
def accumulates_over_backwards():
    x = leaf(4, 4)
    for _ in range(3):
        (x @ x).sin().exp().sum().backward()
    return [x.grad]


@scenario
def second_backward_without_retain_graph_raises():
    x = leaf(4)
    y = x.exp().sin().sum()
    y.backward()
    y.backward()


@scenario
def backward_of_what_is_no_scalar_raises():
    leaf(4).exp().sin().backward()


@scenario
def grad_of_what_is_not_used():
    x, y = leaf(3), leaf(3)
    used, unused = torch.autograd.grad(x.exp().sin().sum(), [x, y], allow_unused=True)
    assert unused is None
    return [used]


@scenario
def grad_of_what_is_not_used_raises():
    torch.autograd.grad(leaf(3).exp().sin().sum(), [leaf(3)])


@scenario
def several_roots_with_gradients_of_their_own():
    x = leaf(5)
    a, b = x.exp().sin(), x.cos().exp()
    torch.autograd.backward([a, b], [torch.ones(5), torch.arange(5.0)])
    return [x.grad]


@scenario
def batched_gradients():
    x = leaf(4)
    y = x.exp().sin()
    return [torch.autograd.grad(y, x, torch.eye(4), is_grads_batched=True)[0]]


@scenario
def retained_gradients_of_intermediates():
    x = leaf(4)
    h = x.exp()
    h.retain_grad()
    k = h.sin()
    k.retain_grad()
    k.exp().sum().backward()
    return [x.grad, h.grad, k.grad]


@scenario
def a_deep_graph():
    x = leaf(4)
    y = x
    for i in range(3000):
        y = y.sin() if i % 2 else y * 1.01
    y.sum().backward()
    return [x.grad]


@scenario
def a_deep_graph_is_let_go_of():
    y = leaf(4)
    for _ in range(5000):
        y = y.sin()
    del y
    gc.collect()
    return []


@scenario
def gradient_penalty():
    net, x = nn.Sequential(nn.Linear(6, 16), nn.Softplus(), nn.Linear(16, 1)), leaf(5, 6)
    (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    (net(x).mean() + (g.norm(dim=1) - 1).square().mean()).backward()
    return [x.grad, *[p.grad for p in net.parameters()]]


@scenario
def two_losses_over_one_trunk():
    trunk, a, b = nn.Linear(6, 6), nn.Linear(6, 2), nn.Linear(6, 3)
    h = trunk(torch.randn(4, 6)).tanh()
    first, second = a(h).square().sum(), b(h).exp().sum()
    first.backward(retain_graph=True)
    second.backward()
    return [p.grad for net in (trunk, a, b) for p in net.parameters()]


@scenario
def closures_of_lbfgs():
    net, x = nn.Linear(4, 1), torch.randn(8, 4)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = net(x).tanh().square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    return [p.detach() for p in net.parameters()]


@scenario
def clipped_and_scaled_gradients():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(net.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        (net(torch.randn(4, 4)).sum() * 64).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
    return [p.detach() for p in net.parameters()]


# Hooks


@scenario
def hooks_change_add_and_remove_themselves():
    x = leaf(4)
    h = x.exp()
    seen = []
    first = h.register_hook(lambda g: g * 2)
    h.register_hook(lambda g: seen.append(g.clone()))
    first_too = x.register_hook(lambda g: first_too.remove() or g + 1)
    y = h.sin().sum()
    y.backward(retain_graph=True)
    first.remove()
    y.backward()
    return [x.grad, *seen]


@scenario
def hooks_of_nodes():
    x = leaf(4)
    y = x.exp().sin()
    order = []
    y.grad_fn.register_hook(lambda ins, outs: order.append(1))
    y.grad_fn.next_functions[0][0].register_hook(lambda ins, outs: order.append(2) or tuple(g * 3 for g in ins))
    y.sum().backward()
    return [x.grad, torch.tensor(order)]


@scenario
def hooks_of_modules():
    net, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), leaf(3, 4)
    seen = []
    net[0].register_forward_hook(lambda module, args, out: out * 2)
    net[2].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    net[1].register_full_backward_hook(lambda module, gin, gout: seen.append(gout[0].clone()) or (gin[0] * 2,))
    net(x).sum().backward()
    return [x.grad, *seen, *[p.grad for p in net.parameters()]]


@scenario
def a_hook_that_runs_a_backward():
    x, w = leaf(4), leaf(4)
    h = x.exp()

    def inner(grad):
        with torch.enable_grad():
            (w.exp().sin().sum() * 2).backward()
        return grad * 2

    h.register_hook(inner)
    h.sin().sum().backward()
    return [x.grad, w.grad]


@scenario
def a_hook_that_raises():
    x = leaf(4)
    h = x.exp()
    h.register_hook(lambda g: {}["missing"])
    h.sin().sum().backward()


# Functions of the user's own


@scenario
def a_function_that_saves_all_kinds():
    x = leaf(4)
    Scale.apply(Scale.apply(x.sin(), 2.0), 0.5).sum().backward()
    return [x.grad]


@scenario
def a_function_differentiated_twice():
    x = leaf(4, dtype=torch.float64)
    (g,) = torch.autograd.grad(Scale.apply(x.sin(), 2.0).sum(), x, create_graph=True)
    g.square().sum().backward()
    return [x.grad]


@scenario
def a_function_that_may_be_differentiated_once_only():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].exp()

    x = leaf(4)
    (g,) = torch.autograd.grad(Once.apply(x.sin()).exp().sum(), x, create_graph=True)
    g.sum().backward()


@scenario
def a_function_that_writes_to_its_input():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(4)
    h = x * 3
    Double.apply(h).sin().sum().backward()
    return [x.grad]


@scenario
def a_function_without_some_gradients():
    class Pair(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x, None, y)
            index = x.argmax()
            ctx.mark_non_differentiable(index)
            return x * y, x + y, index

        @staticmethod
        def backward(ctx, first, second, index):
            assert second is None
            x, none, y = ctx.saved_tensors
            assert none is None
            return (first * y if ctx.needs_input_grad[0] else None), (first * x if ctx.needs_input_grad[1] else None)

    x = leaf(4)
    product, _, index = Pair.apply(x.exp(), x.sin())
    product.sum().backward()
    return [x.grad, index]


@scenario
def a_function_with_too_many_gradients_raises():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x.exp()

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    Wrong.apply(leaf(4).sin()).sum().backward()


@scenario
def a_function_that_raises_in_forward():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            x.exp()
            raise ArithmeticError("forward")

    Wrong.apply(leaf(4).sin())


@scenario
def a_function_that_raises_in_backward():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.exp())
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ArithmeticError(f"backward {len(ctx.saved_tensors)}")

    Wrong.apply(leaf(4).sin()).sum().backward()


@scenario
def a_function_that_keeps_tensors_as_attributes():
    class Attributes(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.kept = x.exp()
            return ctx.kept.sin()

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.kept.cos() * ctx.kept

    x = leaf(4)
    Attributes.apply(x * 2).sum().backward()
    return [x.grad]


@scenario
def backwards_nested_deeper_than_a_thread_takes_them():
    """From a depth of 60 on the engine goes to another thread."""

    class Deeper(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                t = x.detach().requires_grad_()
                h = t.exp().log()
                y = Deeper.apply(h, ctx.depth - 1) if ctx.depth > 0 else h.sin()
                y.backward(grad)
            return t.grad, None

    x = leaf(4)
    Deeper.apply(x.exp(), 90).sum().backward()
    return [x.grad]


# In-place changes


@scenario
def in_place_on_a_leaf_raises():
    leaf(4).exp_()


@scenario
def in_place_on_a_view_of_a_leaf_raises():
    leaf(4)[1:].mul_(2)


@scenario
def in_place_on_what_backward_needs_raises():
    x = leaf(4)
    h = x.exp()
    y = h.sin()
    h.add_(1)
    y.sum().backward()
    return [x.grad]


@scenario
def in_place_on_a_result_that_its_op_needs_raises():
    x = leaf(4)
    y = (x * 2).exp()
    y.mul_(2)
    y.sum().backward()
    return [x.grad]


@scenario
def in_place_on_the_base_of_a_saved_view_raises():
    x = leaf(4, 4)
    h = x * 2
    y = h[1].sin()
    h.zero_()
    y.sum().backward()
    return [x.grad]


@scenario
def in_place_through_many_views():
    x = leaf(4, 6)
    h = x.clone()
    a = h.view(2, 2, 6).transpose(0, 1)[1]
    a.mul_(x[:2].exp())
    h[:, ::2].add_(h[:, 1::2])
    h.t()[3].copy_(x[:, 0])
    h.unbind(0)  # not written to
    h.exp().sum().backward()
    return [x.grad]


@scenario
def in_place_after_detach():
    x = leaf(4)
    h = x * 2
    y = h.sin()
    h.detach().add_(1)  # shares the version counter
    y.sum().backward()
    return [x.grad]


@scenario
def in_place_through_data():
    x = leaf(4)
    h = x * 2
    y = h.sin()
    h.data.add_(1)  # has a counter of its own: plain autograd reads what is there in backward
    y.sum().backward()
    return [x.grad]


@scenario
def in_place_random_numbers():
    x = leaf(64)
    h = x.exp()
    noise = torch.empty(64).bernoulli_(0.5).normal_(0, 1)
    (h * noise.uniform_()).sin().sum().backward()
    return [x.grad, noise]


@scenario
def in_place_activations():
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(True), nn.Linear(6, 6), nn.LeakyReLU(inplace=True), nn.Dropout(0.3, True))
    x = leaf(3, 6)
    net(x).sum().backward()
    return [x.grad, *[p.grad for p in net.parameters()]]


@scenario
def index_put_and_masks():
    x, values = leaf(6), leaf(3)
    h = x * 2
    h[torch.tensor([0, 2, 2])] = values
    h[h > 1] *= 2
    h.index_add_(0, torch.tensor([1]), values[:1])
    h.masked_fill_(h < 0.5, 0)
    h.sin().sum().backward()
    return [x.grad, values.grad]


# Modes


@scenario
def anomaly_mode_finds_nan():
    x = torch.tensor([-1.0, 1.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        (x.sqrt().exp() * 0).sum().backward()


@scenario
def no_grad_in_between_and_as_a_decorator():
    @torch.no_grad()
    def constant(t):
        return t.exp().sum()

    x = leaf(4)
    h = x * constant(x)
    with torch.set_grad_enabled(False):
        h2 = h.sin()
    (h.exp() * h2).sum().backward()
    return [x.grad]


@scenario
def inference_tensors_cannot_be_saved():
    with torch.inference_mode():
        w = torch.ones(4) * 2
    (leaf(4).exp() * w).sum().backward()


@scenario
def requires_grad_turned_on_midway():
    w = torch.randn(4)
    a = w.exp()
    w.requires_grad_()
    b = (w * a).sin()
    b.sum().backward()
    return [w.grad]


@scenario
def profiler_of_pytorch_inside():
    x = leaf(4, 4)
    with torch.autograd.profiler.profile() as profile:
        with torch.autograd.profiler.record_function("mine"):
            y = (x @ x).sin().exp()
        y.sum().backward()
    names = {event.name for event in profile.function_events}
    assert {"mine", "aten::mm", "aten::sin"} <= names, names
    return [x.grad]


@scenario
def number_of_threads_changed_midway():
    x = leaf(64, 64)
    h = (x @ x).exp()
    torch.set_num_threads(2)
    try:
        y = h.sin().sum()
        y.backward()
    finally:
        torch.set_num_threads(1)
    return [x.grad]
