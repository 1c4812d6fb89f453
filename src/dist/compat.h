// What differs in c10d between the LibTorch versions that Encore supports.
#pragma once

// LibTorch shows its Gloo group only to those who say that they want it.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tape/compat.h"

namespace encore::compat {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

/// A connection to the store at host:port, which this process serves if `serves`.
inline StorePtr connect_store(const std::string& host, uint16_t port, bool serves, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = serves;
  options.waitWorkers = false;
  options.timeout = timeout;
#if ENCORE_TORCH_AT_LEAST(2, 2)
  options.useLibUV = false;  // Debian's builds have none
#endif
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

/// A Gloo group over the store. `interface` and `host` may be empty; the interface comes first.
inline GroupPtr make_gloo(const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout,
                          const std::string& interface, const std::string& host) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(!interface.empty() ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                             : !host.empty()    ? c10d::ProcessGroupGloo::createDeviceForHostname(host)
                                                : c10d::ProcessGroupGloo::createDefaultDevice());
#if ENCORE_TORCH_AT_LEAST(2, 0)
  // Gloo is a backend there, one of several that a group may have by device.
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
#if ENCORE_TORCH_AT_LEAST(2, 6)
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
#else
  auto group = c10::make_intrusive<c10d::ProcessGroup>(
      store, rank, size, c10::make_intrusive<c10d::ProcessGroup::Options>("gloo", timeout));
#endif
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  return group;
#else
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
#endif
}

/// Whether Gloo adds numbers of this type.
inline bool gloo_adds(at::ScalarType type) {
#if ENCORE_TORCH_AT_LEAST(2, 7)
  if (type == at::kBFloat16) {
    return true;
  }
#endif
  return type == at::kFloat || type == at::kDouble || type == at::kHalf;
}

}  // namespace encore::compat
