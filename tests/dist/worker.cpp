// Started once a rank by dist_test.py, or by a launcher: worker SCENARIO [ARGUMENTS]
#include "worker.h"

namespace worker {

NetImpl::NetImpl(int64_t width) {
  left = register_module("left", torch::nn::Linear(24, width));
  right = register_module("right", torch::nn::Linear(24, width));
  norm = register_module("norm", torch::nn::BatchNorm1d(width));
  shared = register_module("shared", torch::nn::Linear(width, width));
  register_module("again", shared);
  big = register_module("big", torch::nn::Linear(width, 80));
  head = register_module("head", torch::nn::Linear(80, 5));
  extra = register_module("extra", torch::nn::Linear(width, width));
  never = register_module("never", torch::nn::Linear(3, 3));
  // Strides of its own, which its gradient has too.
  right->weight.set_data(right->weight.detach().t().contiguous().t());
  left->bias.set_requires_grad(false);
}

torch::Tensor NetImpl::tower(torch::nn::Linear& linear, const torch::Tensor& x) {
  torch::Tensor out = linear->forward(x);
  for (int i = 0; i < 3; ++i) {
    out = torch::dropout(torch::gelu(shared->forward(norm->forward(out))), 0.1, is_training());
  }
  return out;
}

torch::Tensor NetImpl::forward(const torch::Tensor& x, bool left_first, bool with_extra, bool checkpointed) {
  const auto run = [&](torch::nn::Linear& linear) {
    return checkpointed ? encore::checkpoint([&](const at::Tensor& in) { return tower(linear, in); }, x)
                        : tower(linear, x);
  };
  // The one that is made first is ready last.
  torch::Tensor a = run(left_first ? left : right);
  torch::Tensor b = run(left_first ? right : left);
  torch::Tensor sum = a + b;
  if (with_extra) {
    sum = sum + extra->forward(sum);
  }
  return head->forward(torch::relu(big->forward(sum))).square().mean();
}

void expect(bool holds, const std::string& what) {
  if (!holds) {
    std::cerr << "worker: " << what << std::endl;
    std::_Exit(1);
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) {
    return false;
  }
  if (!a.defined()) {
    return true;
  }
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

std::vector<at::Tensor> state_of(torch::nn::Module& model) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : model.parameters()) {
    all.push_back(tensor.detach().clone());
  }
  for (const at::Tensor& tensor : model.buffers()) {
    all.push_back(tensor.detach().clone());
  }
  return all;
}

void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, const std::string& what) {
  expect(a.size() == b.size(), what + ": other tensors");
  for (size_t i = 0; i < a.size(); ++i) {
    expect(same_bits(a[i], b[i]), what + ": tensor " + std::to_string(i) + " differs");
  }
}

void print_hash(const std::string& name, const std::vector<at::Tensor>& tensors) {
  uint64_t hash = 14695981039346656037ULL;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor whole = tensor.contiguous();
    const auto* bytes = static_cast<const unsigned char*>(whole.data_ptr());
    for (size_t i = 0; i < whole.nbytes(); ++i) {
      hash = (hash ^ bytes[i]) * 1099511628211ULL;
    }
  }
  std::cout << "same " << name << " " << hash << std::endl;
}

encore::DataParallelOptions small_buckets() {
  encore::DataParallelOptions options;
  options.bucket_bytes = 4 << 10;
  return options;
}

Net make_net(const World& world) {
  torch::manual_seed(1 + world.rank);  // other numbers on each rank: rank 0's are everybody's in the end
  Net net;
  torch::manual_seed(100 + world.rank);
  return net;
}

at::Tensor batch(const World& world, int step, int64_t rows) {
  const int seed = 1000 * step + world.rank;
  return torch::arange(rows * 24, torch::kFloat).add_(seed).mul_(0.37).sin_().view({rows, 24});
}

at::Tensor loss_of(Net& net, const World& world, int step, bool checkpointed, int64_t rows) {
  const bool with_extra = world.rank == 0 && step % 2 == 1;
  return net->forward(batch(world, step, rows), world.rank % 2 == 0, with_extra, checkpointed);
}

}  // namespace worker

namespace {

int run(int count, char** arguments) {
  using namespace worker;
  const std::string scenario = count > 1 ? arguments[1] : "";
  const auto argument = [&](int i) { return std::string(count > i ? arguments[i] : ""); };
  at::set_num_threads(1);
  encore::GroupOptions options;
  const bool hurries = scenario == "fault" || scenario == "storm";
  options.timeout = hurries ? std::chrono::seconds(8) : std::chrono::seconds(60);
  const encore::RankGroup group = encore::RankGroup::from_environment(options);
  const World world{group, group.rank(), group.size()};
  const std::map<std::string, void (*)(const World&)> simple = {{"reducer", same_bits_as_the_reducer},
                                                                {"resting", resting_bytes},
                                                                {"reducer_rests", resting_bytes_of_the_reducer},
                                                                {"scratch", scratch_of_gloo},
                                                                {"differ", differing_models},
                                                                {"several", several_models},
                                                                {"bad", bad_gradients},
                                                                {"refusals", refusals},
                                                                {"throws", throws},
                                                                {"sharded", sharded}};
  if (scenario == "saved") {
    saved_states(world, argument(2), argument(3), std::stoi(argument(4)));
  } else if (scenario == "storm") {
    if (!storm(world, argument(2), std::stoi(argument(3)), argument(4))) {
      return 3;
    }
  } else if (scenario == "oracle") {
    oracle(world, std::stoi(argument(2)));
  } else if (scenario == "steady") {
    steady(world, std::stoi(argument(2)));
  } else if (scenario == "fault") {
    fault(world, argument(2), std::stoi(argument(3)), std::stoi(argument(4)), argument(5));
  } else {
    for (int i = 1; i < count; ++i) {
      expect(simple.count(arguments[i]) == 1, "no scenario " + std::string(arguments[i]));
      simple.at(arguments[i])(world);
      std::cout << "done " << arguments[i] << std::endl;
    }
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const auto began = std::chrono::steady_clock::now();
  try {
    return run(count, arguments);
  } catch (const encore::RankError& error) {
    const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    std::cerr << "lost " << error.rank() << " in '" << error.collective() << "' after " << seconds
              << " s: " << error.what() << std::endl;
    return 3;
  } catch (const std::exception& error) {
    worker::expect(false, error.what());
  }
}
