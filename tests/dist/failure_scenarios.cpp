// Refusals and exceptions of one rank reach all, and the next step works; ranks that are killed or stopped are named.
#include "worker.h"

#include <csignal>

namespace worker {
namespace {

using encore::DataParallel;
using encore::MemoryBudget;

/// The rank that fails in these scenarios.
int culprit(const World& world) {
  return world.size - 1;
}

void zero(Net& net) {
  for (const at::Tensor& parameter : net->parameters()) {
    parameter.mutable_grad().reset();
  }
}

struct Training {
  explicit Training(const World& of)
      : world(of),
        net(make_net(of)),
        parallel(std::in_place, *net, of.group, small_buckets()),
        optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)) {}

  void step(int number, MemoryBudget* budget = nullptr, const std::function<void()>& inside = {}) {
    zero(net);
    auto scope = budget != nullptr ? parallel->step(*budget) : parallel->step();
    at::Tensor loss = loss_of(net, world, number, false, 64);
    if (inside) {
      inside();
    }
    loss.backward();
    optimizer.step();
  }

  const World& world;
  Net net;
  std::optional<DataParallel> parallel;
  torch::optim::SGD optimizer;
};

std::vector<at::Tensor> undisturbed(const World& world, int steps) {
  Training training(world);
  for (int step = 0; step < steps; ++step) {
    training.step(step);
  }
  return state_of(*training.net);
}

}  // namespace

void refusals(const World& world) {
  const auto plain = undisturbed(world, 4);
  Training training(world);
  MemoryBudget budget("1GiB");
  const bool mine = world.rank == culprit(world);
  training.step(0, &budget);

  // Before the step: what rests does not fit.
  budget.set_limit(mine ? int64_t{1000} : int64_t{1} << 30);
  const auto early = caught<encore::RankBudgetError>([&] { training.step(1, &budget); }, "a refusal");
  expect(early.rank() == culprit(world), "another rank refused");
  expect(early.figures().limit_bytes == 1000, "the figures of the rank that refused");
  budget.set_limit(int64_t{1} << 30);
  training.step(1, &budget);

  // Inside the step: a kind of step that is not known yet meets an allocation that can't be.
  MemoryBudget fresh("1GiB");
  if (mine) {
    fresh.set_limit(encore::live_tensor_bytes() + training.parallel->slot_bytes() + 20000);
  }
  const auto inside = [&] { training.step(2, &fresh); };
  if (mine) {
    caught<encore::BudgetError>(inside, "a refusal inside a step");
  } else {
    const auto late = caught<encore::RankBudgetError>(inside, "a refusal inside a step");
    expect(late.rank() == culprit(world), "another rank refused");
  }
  expect(!training.net->head->weight.grad().defined(), "a failed step leaves no gradients");
  fresh.set_limit("1GiB");
  training.step(2, &fresh);
  training.step(3, &fresh);
  expect_same(plain, state_of(*training.net), "after refusals");
  print_hash("refusals", state_of(*training.net));
}

void throws(const World& world) {
  const auto plain = undisturbed(world, 5);
  Training training(world);
  const bool mine = world.rank == culprit(world);
  const auto expect_failure = [&](const std::function<void()>& f, const std::string& what) {
    if (mine) {
      caught<std::runtime_error>(f, what);
    } else {
      const auto error = caught<encore::RankError>(f, what);
      expect(error.rank() == culprit(world), what + ": another rank is named: " + error.what());
    }
  };
  const auto throw_it = [&] {
    if (mine) {
      throw std::runtime_error("thrown by the test");
    }
  };
  training.step(0);
  expect_failure([&] { training.step(1, nullptr, throw_it); }, "in forward");
  training.step(1);

  const auto in_backward = [&] {
    const auto scope = training.parallel->step();
    zero(training.net);
    at::Tensor x = batch(world, 2, 64).requires_grad_();
    x.register_hook([&](const at::Tensor& grad) {
      throw_it();
      return grad;
    });
    training.net->forward(x, true, false).backward();
  };
  expect_failure(in_backward, "in backward");
  training.step(2);

  // Without a step: backward itself tells. The generator is not put back then.
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  const auto buffers = training.net->buffers();
  std::vector<at::Tensor> then;
  for (const at::Tensor& buffer : buffers) {
    then.push_back(buffer.clone());
  }
  const auto without_step = [&] {
    zero(training.net);
    at::Tensor x = batch(world, 2, 64).requires_grad_();
    x.register_hook([&](const at::Tensor& grad) {
      throw_it();
      return grad;
    });
    training.net->forward(x, true, false).backward();
  };
  expect_failure(without_step, "in backward, without a step");
  generator.set_state(state);
  for (size_t i = 0; i < buffers.size(); ++i) {
    at::Tensor(buffers[i]).copy_(then[i]);
  }
  training.step(3);

  // A step without a backward on one rank.
  const auto skips = [&] {
    zero(training.net);
    const auto scope = training.parallel->step();
    if (!mine) {
      loss_of(training.net, world, 4, false, 64).backward();
    }
  };
  if (mine) {
    skips();
  } else {
    const auto error = caught<encore::RankError>(skips, "a rank without a backward");
    expect(error.rank() == culprit(world), "another rank is named");
  }
  training.step(4);
  expect_same(plain, state_of(*training.net), "after exceptions");

  // After the gradients were reduced: told when the next step begins, since the others have updated.
  const auto in_optimizer = [&] {
    const auto scope = training.parallel->step();
    zero(training.net);
    loss_of(training.net, world, 5, false, 64).backward();
    throw_it();
  };
  if (mine) {
    caught<std::runtime_error>(in_optimizer, "after the verdict");
  } else {
    in_optimizer();
  }
  const auto late = caught<encore::RankError>([&] { training.step(6); }, "the step after");
  expect(late.rank() == culprit(world) && std::string(late.what()).find("updated parameters") != std::string::npos,
         "a failure after the verdict is named: " + std::string(late.what()));
  training.parallel->broadcast();
  training.step(6);
  print_hash("throws", state_of(*training.net));
}

void fault(const World& world, const std::string& how, int victim, int at_step, const std::string& place) {
  Training training(world);
  training.step(0);
  const auto began = std::chrono::steady_clock::now();
  // By value: the hook outlives the exception that leaves the steps.
  const auto now = std::make_shared<bool>(false);
  const auto strike = [now, how, place](const std::string& here) {
    if (*now && place == here) {
      std::raise(how == "killed" ? SIGKILL : SIGSTOP);
    }
  };
  training.net->shared->weight.register_hook([strike](const at::Tensor& grad) {
    strike("backward");
    return grad;
  });
  const auto go_on = [&] {
    for (int step = 1; step < 1000; ++step) {
      *now = step == at_step && world.rank == victim;
      strike("begin");
      training.step(step, nullptr, [&] { strike("forward"); });
    }
  };
  const auto error = caught<encore::RankError>(go_on, "a lost rank");
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::cout << "lost " << error.rank() << " in '" << error.collective() << "' after " << seconds
            << " s: " << error.what() << std::endl;
  expect(error.rank() == victim, "another rank is named: " + std::string(error.what()));
  expect(!error.collective().empty(), "the collective is not named");
  caught<encore::RankError>([&] { training.step(9); }, "a step in the lost group");
  if (victim == 0) {
    caught<encore::RankError>([&] { (void)world.group.without_lost(); }, "a new group without the store");
    std::cout << "done fault" << std::endl;
    std::cout.flush();
    std::_Exit(0);  // the stopped host's connections would be waited for
  }
  // On in a new group, from where everybody was: rank 0's parameters.
  const encore::RankGroup group = world.group.without_lost();
  expect(group.size() == world.size - 1, "the new group has another size");
  const World next{group, group.rank(), group.size()};
  training.parallel.reset();  // its hooks belong to the lost group
  encore::DataParallel parallel(*training.net, group, small_buckets());
  for (int step = 0; step < 3; ++step) {
    zero(training.net);
    const auto scope = parallel.step();
    loss_of(training.net, next, step).backward();
    training.optimizer.step();
  }
  print_hash("fault", {training.net->head->weight.detach()});
  std::cout << "done fault" << std::endl;
}

}  // namespace worker
