// One rank of the tests: a model that has everything that goes wrong, and what every scenario needs.
#pragma once

#include <chrono>
#include <cstring>
#include <iostream>
#include <map>

#include <torch/torch.h>

#include <encore/dist.h>
#include <encore/encore.h>

namespace worker {

/// Two towers whose order of readiness is the caller's choice, a module that is there twice, batch norm, dropout, a
/// parameter larger than a bucket, one that is not used by all, one by nobody, and one that takes no gradient.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t width = 40);
  torch::Tensor tower(torch::nn::Linear& linear, const torch::Tensor& x);
  torch::Tensor forward(const torch::Tensor& x, bool left_first, bool with_extra, bool checkpointed = false);

  torch::nn::Linear left{nullptr}, right{nullptr}, shared{nullptr}, big{nullptr}, head{nullptr}, extra{nullptr},
      never{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

struct World {
  encore::RankGroup group;
  int rank;
  int size;
};

/// Fails the program with a sentence.
void expect(bool holds, const std::string& what);
bool same_bits(const at::Tensor& a, const at::Tensor& b);
/// Clones of parameters and buffers.
std::vector<at::Tensor> state_of(torch::nn::Module& model);
void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, const std::string& what);
/// Printed for the driver, which compares ranks.
void print_hash(const std::string& name, const std::vector<at::Tensor>& tensors);

using Buckets = std::vector<std::vector<std::string>>;
/// What is trained, each once, and where each name is found.
std::vector<at::Tensor> parameters_once(Net& net, std::map<std::string, size_t>& index);
std::vector<std::vector<size_t>> indices_of(const Buckets& buckets, const std::map<std::string, size_t>& index);

encore::DataParallelOptions small_buckets();
Net make_net(const World& world);
/// A batch of this rank and step.
at::Tensor batch(const World& world, int step, int64_t rows = 24);
/// Forward and loss of a step; the ready order differs by rank.
at::Tensor loss_of(Net& net, const World& world, int step, bool checkpointed = false, int64_t rows = 24);

/// The message and rank of the exception of type E that f throws.
template <class E, class F>
E caught(const F& f, const std::string& what) {
  try {
    f();
  } catch (const E& error) {
    return error;
  } catch (const std::exception& error) {
    expect(false, what + ": another exception: " + error.what());
  }
  expect(false, what + ": nothing was thrown");
  std::abort();
}

// Scenarios; each runs on all ranks.
void same_bits_as_the_reducer(const World& world);
void resting_bytes(const World& world);
void resting_bytes_of_the_reducer(const World& world);
void scratch_of_gloo(const World& world);
/// So many steps in every mode, compared with the Reducer's.
void oracle(const World& world, int steps);
/// Peaks over so many steps within a limit.
void steady(const World& world, int steps);
void differing_models(const World& world);
void several_models(const World& world);
void bad_gradients(const World& world);
void refusals(const World& world);
void throws(const World& world);
void sharded(const World& world);
void saved_states(const World& world, const std::string& load, const std::string& save, int steps);
/// Trains to the end from what `path` has, and saves there. `failure`: "RANK:STEP:PLACE" of one that is thrown, or "-".
/// Returns false if a rank was lost, who is named then.
bool storm(const World& world, const std::string& path, int steps, const std::string& failure);
void fault(const World& world, const std::string& how, int victim, int at_step, const std::string& place);

}  // namespace worker
