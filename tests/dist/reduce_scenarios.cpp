// Same bits as c10d's Reducer and as an allreduce by hand; what rests; what is refused.
#include "reducer_oracle.h"
#include "worker.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "../support/german_locale.h"

namespace worker {

std::vector<at::Tensor> parameters_once(Net& net, std::map<std::string, size_t>& index) {
  std::vector<at::Tensor> parameters;
  for (const auto& item : net->named_parameters()) {
    const bool again = item.key().rfind("again.", 0) == 0;
    if (!again && item.value().requires_grad()) {
      index[item.key()] = parameters.size();
      parameters.push_back(item.value());
    }
  }
  return parameters;
}

std::vector<std::vector<size_t>> indices_of(const Buckets& buckets, const std::map<std::string, size_t>& index) {
  std::vector<std::vector<size_t>> indices;
  for (const auto& names : buckets) {
    indices.emplace_back();
    for (const std::string& name : names) {
      indices.back().push_back(index.at(name));
    }
  }
  return indices;
}

namespace {

/// The other ways to the same gradients.
enum class Way { kOurs, kReducer, kByHand };

void reduce_by_hand(const World& world, const std::vector<at::Tensor>& parameters, const Buckets& buckets,
                    const std::map<std::string, size_t>& index) {
  const at::NoGradGuard no_grad;
  for (const auto& names : buckets) {
    std::vector<at::Tensor> parts;
    for (const std::string& name : names) {
      const at::Tensor& parameter = parameters[index.at(name)];
      // In the order in which the parameter lies in memory.
      const at::Tensor like = parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
      parts.push_back(
          torch::empty_like(parameter).copy_(like).as_strided({parameter.numel()}, {1}).mul(1. / world.size));
    }
    std::vector<at::Tensor> flat{torch::cat(parts)};
    world.group.process_group()->allreduce(flat)->wait();
    int64_t at = 0;
    for (const std::string& name : names) {
      const at::Tensor& parameter = parameters[index.at(name)];
      at::Tensor sum = torch::empty_like(parameter);
      sum.as_strided({parameter.numel()}, {1}).copy_(flat[0].narrow(0, at, parameter.numel()));
      at += parameter.numel();
      at::Tensor used = torch::tensor({parameter.grad().defined() ? 1 : 0});
      std::vector<at::Tensor> everybody{used};
      world.group.process_group()->allreduce(everybody)->wait();
      if (used.item<int64_t>() > 0) {
        parameter.mutable_grad() = sum;
      }
    }
  }
}

void broadcast_by_hand(const World& world, Net& net) {
  const at::NoGradGuard no_grad;
  const auto send = [&](const at::Tensor& tensor) {
    std::vector<at::Tensor> whole{tensor.detach().contiguous().clone()};
    world.group.process_group()->broadcast(whole)->wait();
    at::Tensor(tensor).copy_(whole[0]);
  };
  for (const at::Tensor& tensor : net->parameters()) {
    send(tensor);
  }
  for (const at::Tensor& tensor : net->buffers()) {
    send(tensor);
  }
}

/// `accumulate`: before each backward another one under no_sync(), which alone uses `extra`, and only on rank 0.
std::vector<at::Tensor> train(const World& world, Way way, int steps, Buckets& buckets, bool accumulate = false) {
  Net net = make_net(world);
  std::map<std::string, size_t> index;
  const auto parameters = parameters_once(net, index);
  std::optional<encore::DataParallel> ours;
  std::optional<ReducerOracle> reducer;
  if (way == Way::kOurs) {
    ours.emplace(*net, world.group, small_buckets());
    buckets = ours->buckets();
  } else {
    broadcast_by_hand(world, net);
  }
  if (way == Way::kReducer) {
    reducer.emplace(parameters, indices_of(buckets, index), world.group.process_group());
  }
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < steps; ++step) {
    for (const at::Tensor& parameter : parameters) {
      parameter.mutable_grad().reset();
    }
    if (accumulate) {
      std::optional<encore::DataParallel::NoSync> alone;
      if (ours) {
        alone.emplace(ours->no_sync());
      }
      loss_of(net, world, 2 * step + 101).backward();
    }
    const at::Tensor loss = loss_of(net, world, accumulate ? 2 * step : step);
    if (reducer) {
      reducer->before_backward(loss);
    }
    loss.backward();
    if (way == Way::kByHand) {
      reduce_by_hand(world, parameters, buckets, index);
    }
    if (way != Way::kOurs) {
      for (const at::Tensor& buffer : net->buffers()) {
        std::vector<at::Tensor> whole{buffer};
        world.group.process_group()->broadcast(whole)->wait();
      }
    }
    const bool used = net->extra->weight.grad().defined();
    expect(used == (accumulate || step % 2 == 1),
           "a parameter that rank 0 alone used has a gradient everywhere, else nowhere");
    expect(!net->never->weight.grad().defined(), "a parameter that nobody used has no gradient");
    expect(net->right->weight.grad().strides() == net->right->weight.strides(), "gradients lie as parameters do");
    optimizer.step();
  }
  return state_of(*net);
}

}  // namespace

void same_bits_as_the_reducer(const World& world) {
  Buckets buckets;
  const auto ours = train(world, Way::kOurs, 50, buckets);
  expect(buckets.size() >= 4, "several buckets");
  const auto reducer = train(world, Way::kReducer, 50, buckets);
  const auto hand = train(world, Way::kByHand, 50, buckets);
  expect_same(ours, reducer, "the Reducer");
  expect_same(ours, hand, "an allreduce by hand");
  print_hash("reducer", ours);
  const auto summed = train(world, Way::kOurs, 6, buckets, true);
  expect_same(summed, train(world, Way::kByHand, 6, buckets, true),
              "a parameter that one rank used under no_sync() only");
  print_hash("accumulated", summed);
}

void resting_bytes(const World& world) {
  Net net = make_net(world);
  const int64_t before = encore::live_tensor_bytes();
  encore::DataParallel parallel(*net, world.group, small_buckets());
  const int64_t scale = 8;  // one over the number of ranks
  for (int step = 0; step < 2; ++step) {
    for (const at::Tensor& parameter : net->parameters()) {
      parameter.mutable_grad().reset();
    }
    loss_of(net, world, 1).backward();
    int64_t gradients = 0;
    for (const auto& item : net->named_parameters()) {
      const bool again = item.key().rfind("again.", 0) == 0;
      gradients += !again && item.value().grad().defined() ? static_cast<int64_t>(item.value().nbytes()) : 0;
    }
    const int64_t rest = encore::live_tensor_bytes() - before;
    expect(rest == gradients + scale,
           "at rest " + std::to_string(rest) + " bytes, gradients take " + std::to_string(gradients));
  }
  for (const at::Tensor& parameter : net->parameters()) {
    parameter.mutable_grad().reset();
  }
  {
    const auto alone = parallel.no_sync();
    const auto step = parallel.step();
    expect(encore::live_tensor_bytes() - before == parallel.slot_bytes() + parallel.scratch_bytes() + scale,
           "a step holds its slots and what stands for Gloo's scratch, nothing more");
  }
  expect(encore::live_tensor_bytes() - before == scale, "slots are free after a step");
}

void resting_bytes_of_the_reducer(const World& world) {
  Net net = make_net(world);
  Buckets buckets;
  std::map<std::string, size_t> index;
  const auto parameters = parameters_once(net, index);
  int64_t gradients = 0;
  for (const at::Tensor& parameter : parameters) {
    gradients += static_cast<int64_t>(parameter.nbytes());
  }
  const auto rest_of = [&](bool ours) {
    const int64_t before = encore::live_tensor_bytes();
    std::optional<encore::DataParallel> parallel;
    std::optional<ReducerOracle> reducer;
    if (ours) {
      parallel.emplace(*net, world.group, small_buckets());
      buckets = parallel->buckets();
    } else {
      reducer.emplace(parameters, indices_of(buckets, index), world.group.process_group());
    }
    at::Tensor loss = loss_of(net, world, 1);
    if (reducer) {
      reducer->before_backward(loss);
    }
    loss.backward();
    loss.reset();
    const int64_t rest = encore::live_tensor_bytes() - before;
    for (const at::Tensor& parameter : parameters) {
      parameter.mutable_grad().reset();
    }
    return rest;
  };
  const int64_t ours = rest_of(true);
  const int64_t theirs = rest_of(false);
  std::cout << "at rest after a backward: ours " << ours << ", the Reducer's " << theirs << ", gradients " << gradients
            << std::endl;
  expect(theirs - ours >= gradients, "the Reducer has all gradients twice");
}

void differing_models(const World& world) {
  if (world.size == 1) {
    return;
  }
  torch::manual_seed(1);
  Net net(world.rank == world.size - 1 ? 41 : 40);
  const auto error =
      caught<encore::InvalidArgument>([&] { encore::DataParallel(*net, world.group); }, "differing models");
  const std::string text = error.what();
  expect(text.find("'left.weight' Float [40, 24]") != std::string::npos &&
             text.find("rank " + std::to_string(world.size - 1) + " has parameter 'left.weight' Float [41, 24]") !=
                 std::string::npos,
         "the difference is not named: " + text);
  // The group is as good as before.
  Net same = make_net(world);
  encore::DataParallel parallel(*same, world.group);
  loss_of(same, world, 0).backward();
}

void several_models(const World& world) {
  // Two models in one backward, ready in another order on each rank; each has the mean of its own.
  Net one = make_net(world);
  Net two = make_net(world);
  encore::DataParallel first(*one, world.group, small_buckets());
  encore::DataParallel second(*two, world.group, small_buckets());
  one->eval();
  two->eval();
  // Apart, for comparison.
  loss_of(one, world, 1).backward();
  loss_of(two, world, 2).backward();
  std::vector<at::Tensor> apart;
  for (Net* net : {&one, &two}) {
    for (const at::Tensor& parameter : (*net)->parameters()) {
      apart.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
    }
    // Afterwards, since one parameter is there twice.
    for (const at::Tensor& parameter : (*net)->parameters()) {
      parameter.mutable_grad().reset();
    }
  }
  // Together; the one whose graph was made last goes first.
  at::Tensor a;
  at::Tensor b;
  if (world.rank % 2 == 0) {
    a = loss_of(one, world, 1);
    b = loss_of(two, world, 2);
  } else {
    b = loss_of(two, world, 2);
    a = loss_of(one, world, 1);
  }
  (a + b).backward();
  std::vector<at::Tensor> together;
  for (Net* net : {&one, &two}) {
    for (const at::Tensor& parameter : (*net)->parameters()) {
      together.push_back(parameter.grad());
    }
  }
  expect_same(apart, together, "two models in one backward");
  encore::RanksReport report = first.report();
  expect(report.ranks.size() == static_cast<size_t>(world.size), "a row for each rank");
  for (const encore::RankRow& row : report.ranks) {
    expect(row.reduced_backwards == 2 && row.sent_bytes > 0, "what each rank did");
  }
  expect(report.html("<all>").find("&lt;all&gt;") != std::string::npos, "the page's title");
  report.ranks[0].peak_bytes = 12'500'000;
  const encore::test::GermanLocale german;
  for (const std::string& text : {report.text(), report.html("")}) {
    expect(text.find("12.5") != std::string::npos && text.find("12,5") == std::string::npos, "a decimal point");
  }
}

void bad_gradients(const World& world) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true));
  encore::DataParallel sparse(*embedding, world.group);
  const auto error =
      caught<encore::Error>([&] { embedding->forward(torch::arange(4)).sum().backward(); }, "a sparse gradient");
  expect(std::string(error.what()).find("sparse") != std::string::npos, error.what());
  Net net = make_net(world);
  net->big->to(torch::kBFloat16);
  const bool refused = [&] {
    try {
      encore::DataParallel parallel(*net, world.group);
      return false;
    } catch (const encore::InvalidArgument& invalid) {
      return std::string(invalid.what()).find("'big.") != std::string::npos;
    }
  }();
  expect(refused || TORCH_VERSION_MAJOR >= 2, "bfloat16 is refused by name where Gloo does not add it");
}

}  // namespace worker
