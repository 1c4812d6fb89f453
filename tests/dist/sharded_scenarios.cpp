// Sharded optimizer state gives the bits of the unsharded run; saved states serve any number of ranks.
#include "worker.h"

namespace worker {
namespace {

using encore::DataParallel;
using encore::ShardedOptimizer;
using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
using Tensors = std::vector<at::Tensor>;

struct Kind {
  std::string name;
  std::function<Optimizer(Tensors)> make;
};

std::vector<Kind> kinds() {
  using namespace torch::optim;
  return {{"sgd", [](Tensors p) { return std::make_unique<SGD>(p, SGDOptions(0.05).momentum(0.9)); }},
          {"adam", [](Tensors p) { return std::make_unique<Adam>(p, AdamOptions(0.01)); }},
          {"adamw", [](Tensors p) { return std::make_unique<AdamW>(p, AdamWOptions(0.01)); }},
          {"rmsprop", [](Tensors p) { return std::make_unique<RMSprop>(p, RMSpropOptions(0.001)); }},
          {"adagrad", [](Tensors p) { return std::make_unique<Adagrad>(p, AdagradOptions(0.01)); }}};
}

Tensors trained(Net& net) {
  Tensors once;
  for (const auto& item : net->named_parameters()) {
    if (item.value().requires_grad() && item.key().rfind("again.", 0) != 0) {
      once.push_back(item.value());
    }
  }
  return once;
}

void reset(Net& net) {
  for (const at::Tensor& parameter : net->parameters()) {
    parameter.mutable_grad().reset();
  }
}

Tensors train_sharded(const World& world, const Kind& kind, bool inside, bool with_budget) {
  Net net = make_net(world);
  DataParallel parallel(*net, world.group, small_buckets());
  encore::ShardOptions options;
  options.inside_backward = inside;
  ShardedOptimizer optimizer(parallel, kind.make, options);
  auto budget = encore::MemoryBudget::fraction(0.5);
  for (int step = 0; step < 6; ++step) {
    reset(net);
    auto scope = with_budget ? parallel.step(budget) : parallel.step();
    loss_of(net, world, step).backward();
    int64_t gradients = 0;
    for (const at::Tensor& parameter : trained(net)) {
      gradients += parameter.grad().defined() ? static_cast<int64_t>(parameter.nbytes()) : 0;
    }
    const int64_t own = optimizer.owned_bytes()[static_cast<size_t>(world.rank)];
    expect(inside ? gradients == 0 : gradients <= own, "gradients that another rank owns are free after backward");
    optimizer.step();
  }
  int64_t all = 0;
  int64_t most = 0;
  for (const int64_t bytes : optimizer.owned_bytes()) {
    all += bytes;
    most = std::max(most, bytes);
  }
  int64_t parameters = 0;
  for (const at::Tensor& parameter : trained(net)) {
    parameters += static_cast<int64_t>(parameter.nbytes());
  }
  expect(all == parameters, "every parameter has one owner");
  expect(world.size == 1 || most < all, "more than one rank owns something");
  return state_of(*net);
}

}  // namespace

void sharded(const World& world) {
  for (const Kind& kind : kinds()) {
    Net net = make_net(world);
    DataParallel parallel(*net, world.group, small_buckets());
    Optimizer optimizer = kind.make(trained(net));
    for (int step = 0; step < 6; ++step) {
      reset(net);
      loss_of(net, world, step).backward();
      optimizer->step();
    }
    const auto plain = state_of(*net);
    expect_same(plain, train_sharded(world, kind, false, false), kind.name + ", sharded");
    expect_same(plain, train_sharded(world, kind, true, false), kind.name + ", inside backward");
    if (kind.name == "adam") {
      expect_same(plain, train_sharded(world, kind, false, true), kind.name + ", sharded, within a budget");
      expect_same(plain, train_sharded(world, kind, true, true), kind.name + ", inside backward, within a budget");
    }
    print_hash("sharded " + kind.name, plain);
  }
  Net net = make_net(world);
  DataParallel parallel(*net, world.group, small_buckets());
  caught<encore::InvalidArgument>(
      [&] { ShardedOptimizer(parallel, [](Tensors p) { return std::make_unique<torch::optim::LBFGS>(p); }); }, "LBFGS");
}

void saved_states(const World& world, const std::string& load, const std::string& save, int steps) {
  // The same batch on every rank: powers of two of them have the same mean, bit for bit.
  torch::manual_seed(7);
  Net net;
  net->eval();
  const World first{world.group, 0, world.size};
  DataParallel parallel(*net, world.group, small_buckets());
  ShardedOptimizer optimizer(parallel, kinds()[1].make);
  int step = 0;
  if (load != "-") {
    const auto error =
        caught<encore::InvalidArgument>([&] { optimizer.load(load + ".not"); }, "a file that is not there");
    expect(std::string(error.what()).find(load + ".not") != std::string::npos, "the file is not named");
    step = std::stoi(optimizer.load(load));
  }
  for (const int end = step + steps; step < end; ++step) {
    reset(net);
    loss_of(net, first, step).backward();
    optimizer.step();
  }
  optimizer.save(save, std::to_string(step));
  // Over the file that is there, whole or not at all.
  optimizer.save(save, std::to_string(step));
  print_hash("saved", state_of(*net));
}

}  // namespace worker
