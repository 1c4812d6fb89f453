// Bits equal to the Reducer's in every mode; peaks within a limit over many steps.
#include "reducer_oracle.h"
#include "worker.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace worker {
namespace {

struct Mode {
  std::string name;
  bool checkpointed = false;
  double fraction = 0;  // of a budget; 0: none
  bool in_steps = false;
  enum { kWhole, kSharded, kInside } state = kWhole;
};

std::vector<Mode> modes() {
  return {{"plain"},
          {"in steps", false, 0, true},
          {"checkpoints", true},
          {"100%", false, 1, true},
          {"50%", false, 0.5, true},
          {"30%", false, 0.3, true},
          {"sharded", false, 0, true, Mode::kSharded},
          {"sharded, 50%", false, 0.5, true, Mode::kSharded},
          {"inside backward", false, 0, true, Mode::kInside},
          {"inside backward, checkpoints, 30%", true, 0.3, true, Mode::kInside}};
}

void reset(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    parameter.mutable_grad().reset();
  }
}

/// Of the backward under no_sync() before that of `step`. An even number: where rank 0 alone has used `extra`, and only
/// then, the Reducer leaves each rank with another gradient, and no oracle can be had of it.
int step_before(int step) {
  return 100 + 2 * step;
}

constexpr int64_t kRows = 192;

std::unique_ptr<torch::optim::Optimizer> make_adam(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01));
}

std::vector<at::Tensor> train_by_reducer(const World& world, int steps, bool accumulate) {
  Net net = make_net(world);
  std::map<std::string, size_t> index;
  const auto parameters = parameters_once(net, index);
  Buckets buckets;
  {
    const encore::DataParallel once(*net, world.group, small_buckets());  // sends rank 0's parameters
    buckets = once.buckets();
  }
  ReducerOracle reducer(parameters, indices_of(buckets, index), world.group.process_group());
  const auto adam = make_adam(parameters);
  for (int step = 0; step < steps; ++step) {
    reset(parameters);
    if (accumulate) {
      loss_of(net, world, step_before(step), false, kRows).backward();
    }
    const at::Tensor loss = loss_of(net, world, step, false, kRows);
    reducer.before_backward(loss);
    loss.backward();
    for (const at::Tensor& buffer : net->buffers()) {
      std::vector<at::Tensor> whole{buffer};
      world.group.process_group()->broadcast(whole)->wait();
    }
    adam->step();
  }
  return state_of(*net);
}

std::vector<at::Tensor> train_in(const World& world, const Mode& mode, int steps, bool accumulate) {
  Net net = make_net(world);
  std::map<std::string, size_t> index;
  const auto parameters = parameters_once(net, index);
  encore::DataParallel parallel(*net, world.group, small_buckets());
  std::optional<encore::ShardedOptimizer> sharded;
  std::unique_ptr<torch::optim::Optimizer> whole;
  if (mode.state == Mode::kWhole) {
    whole = make_adam(parameters);
  } else {
    encore::ShardOptions options;
    options.inside_backward = mode.state == Mode::kInside;
    sharded.emplace(parallel, make_adam, options);
  }
  std::optional<encore::MemoryBudget> budget;
  if (mode.fraction > 0) {
    budget = encore::MemoryBudget::fraction(mode.fraction);
  }
  for (int step = 0; step < steps; ++step) {
    reset(parameters);
    std::optional<encore::DataParallel::Step> scope;
    if (mode.in_steps) {
      scope.emplace(budget ? parallel.step(*budget) : parallel.step());
    }
    if (accumulate) {
      const auto alone = parallel.no_sync();
      loss_of(net, world, step_before(step), mode.checkpointed, kRows).backward();
    }
    loss_of(net, world, step, mode.checkpointed, kRows).backward();
    sharded ? sharded->step() : (void)whole->step();
    scope.reset();
    if (budget) {
      const encore::StepReport report = budget->report();
      expect(report.limit_bytes < 0 || report.peak_bytes <= report.limit_bytes, mode.name + ": peak above the limit");
    }
  }
  return state_of(*net);
}

}  // namespace

void oracle(const World& world, int steps) {
  for (const bool accumulate : {false, true}) {
    const auto reducer = train_by_reducer(world, steps, accumulate);
    for (const Mode& mode : modes()) {
      expect_same(reducer, train_in(world, mode, steps, accumulate), mode.name + (accumulate ? ", accumulating" : ""));
      std::cout << "equal to the Reducer after " << steps << " steps: " << mode.name
                << (accumulate ? ", accumulating" : "") << std::endl;
    }
    print_hash("oracle" + std::to_string(accumulate), reducer);
  }
}

void steady(const World& world, int steps) {
  std::map<std::string, size_t> index;
  const auto train = [&](encore::MemoryBudget* budget, const std::function<void(int)>& after_step) {
    Net net = make_net(world);
    const auto parameters = parameters_once(net, index);
    encore::DataParallel parallel(*net, world.group, small_buckets());
    encore::ShardedOptimizer optimizer(parallel, make_adam);
    for (int step = 0; step < steps; ++step) {
      {
        auto scope = budget != nullptr ? parallel.step(*budget) : parallel.step();
        loss_of(net, world, step, false, kRows).backward();
        optimizer.step();
      }
      after_step(step);
    }
    if (budget != nullptr && world.rank == 0) {
      std::cout << parallel.report().text();
    } else if (budget != nullptr) {
      (void)parallel.report();
    }
    return state_of(*net);
  };
  const auto plain = train(nullptr, [](int) {});
  // Another limit on each rank, and so other plans.
  auto budget = encore::MemoryBudget::fraction(0.4 + 0.1 * (world.rank % 4));
  int64_t worst = 0;
  int64_t limited = 0;
  int64_t planned = 0;
  const auto state = train(&budget, [&](int) {
    const encore::StepReport report = budget.report();
    if (report.limit_bytes > 0) {
      expect(report.peak_bytes <= report.limit_bytes,
             "peak " + std::to_string(report.peak_bytes) + " above the limit " + std::to_string(report.limit_bytes));
      worst = std::max(worst, report.peak_bytes);
      ++limited;
      planned += report.mode == encore::StepMode::kPlanned ? 1 : 0;
    }
  });
  expect_same(plain, state, "steps within a limit");
  std::cout << "steady: rank " << world.rank << ", " << limited << " of " << steps << " steps within a limit of "
            << budget.limit_bytes() << ", " << planned << " planned, highest peak " << worst << std::endl;
  expect(limited >= steps - 4, "nearly all steps had a limit");
  print_hash("steady", state);
}

}  // namespace worker
