// Tried while configuring: a group of one rank over Gloo.
#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

int main() {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  c10d::ProcessGroupGloo group(c10::make_intrusive<c10d::HashStore>(), 0, 1, options);
  std::vector<at::Tensor> tensors{at::ones({3})};
  group.allreduce(tensors)->wait();
  return tensors[0].sum().item<float>() == 3 ? 0 : 1;
}
