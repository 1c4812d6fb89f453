// Operators, looked up once and remembered for the life of the process.
#include "tape/op_info.h"

#include <array>
#include <string_view>
#include <unordered_set>

#include <ATen/core/enum_tag.h>
#include <c10/util/flat_hash_map.h>
#include <xxhash.h>

namespace encore::tape {
namespace {

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

template <size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 12> kOverwriting = {
    "aten::copy_",   "aten::fill_",        "aten::zero_",      "aten::bernoulli_", "aten::normal_",    "aten::uniform_",
    "aten::random_", "aten::exponential_", "aten::geometric_", "aten::cauchy_",    "aten::log_normal_"};

constexpr std::array<std::string_view, 8> kMovingStorage = {"aten::resize_",  "aten::resize_as_",
                                                            "aten::set_",     "aten::resize_as_sparse_",
                                                            "aten::set_data", "aten::_resize_output_"};

// Operators that change state outside their schema (or, in newer versions, inside it) without their results depending
// on it. Running them again must leave the state alone.
struct Stateful {
  std::string_view name;
  std::array<std::string_view, 2> args;
  bool overwritten;
};
constexpr std::array<Stateful, 8> kStateful = {{
    {"aten::native_batch_norm", {"running_mean", "running_var"}, false},
    {"aten::_native_batch_norm_legit", {"running_mean", "running_var"}, false},
    {"aten::_batch_norm_with_update", {"running_mean", "running_var"}, false},
    {"aten::cudnn_batch_norm", {"running_mean", "running_var"}, false},
    {"aten::miopen_batch_norm", {"running_mean", "running_var"}, false},
    {"aten::batch_norm_update_stats", {"running_mean", "running_var"}, false},
    {"aten::rrelu_with_noise", {"noise", ""}, true},
    {"aten::rrelu_with_noise_", {"noise", ""}, true},
}};

// Results of which not every byte is set. oneDNN's recurrent layer is what an LSTM on the CPU runs on in LibTorch 2;
// the CTC loss leaves out what lies beyond each target's length.
struct Workspace {
  std::string_view name;
  int64_t dim;
};
constexpr std::array<Workspace, 2> kLeavingWorkspace = {{{"aten::mkldnn_rnn_layer", -1}, {"aten::_ctc_loss", 3}}};

bool holds_tensors(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) {
    return true;
  }
  for (const auto& contained : type->containedTypes()) {
    if (holds_tensors(contained)) {
      return true;
    }
  }
  return false;
}

void read_state_writes(OpInfo& info, const std::string& name) {
  for (const Stateful& known : kStateful) {
    if (known.name != name) {
      continue;
    }
    info.state_overwritten = known.overwritten;
    const auto& args = info.handle.schema().arguments();
    for (size_t i = 0; i < args.size(); ++i) {
      if (!args[i].name().empty() && is_one_of(args[i].name(), known.args)) {
        info.state_writes.push_back(i);
      } else if (args[i].name() == "training") {
        info.training_arg = i;
      }
    }
  }
}

std::unique_ptr<OpInfo> analyse(const c10::OperatorHandle& handle) {
  auto info = std::make_unique<OpInfo>(handle);
  const c10::FunctionSchema& schema = handle.schema();
  const std::string& name = schema.name();
  info->name = schema.overload_name().empty() ? name : name + "." + schema.overload_name();
  info->is_clone = info->name == "aten::clone";
  info->is_detach = info->name == "aten::detach_";
  info->num_args = schema.arguments().size();
  info->num_returns = schema.returns().size();
  info->composite = handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  info->autocasts = handle.hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU);
  info->replayable = handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  info->metadata_only = handle.hasTag(at::Tag::inplace_view);
  info->moves_storage = is_one_of(name, kMovingStorage);
  info->bumps_versions = handle.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView);
  info->name_hash = XXH3_64bits(info->name.data(), info->name.size());
  for (const Workspace& known : kLeavingWorkspace) {
    if (known.name == name) {
      info->leaves_workspace = true;
      info->workspace_dim = known.dim;
    }
  }
  const auto& returns = schema.returns();
  info->returns_other = std::any_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
    return result.alias_info() == nullptr || !result.alias_info()->isWrite();
  });

  bool reads_tensors = false;
  bool only_out = true;  // all that it writes are keyword arguments for its results
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& arg = schema.arguments()[i];
    const bool written = arg.alias_info() != nullptr && arg.alias_info()->isWrite();
    if (written) {
      info->writes.push_back(i);
      only_out = only_out && arg.is_out();
    }
    if (holds_tensors(arg.type())) {
      reads_tensors = reads_tensors || !written;
    } else if (arg.type()->str().find("Generator") != std::string::npos) {
      info->may_draw = true;
    }
  }
  info->may_draw = info->may_draw || handle.hasTag(at::Tag::nondeterministic_seeded);

  std::string_view bare = name;
  bare.remove_prefix(starts_with(bare, "aten::") ? 6 : 0);
  const bool aten = bare.size() < name.size();
  info->undeclared_draw = !aten && !info->may_draw;
  info->uninitialised = aten && (starts_with(bare, "empty") || starts_with(bare, "new_empty"));
  // Others may read what they write: of a written keyword argument LibTorch only knows that it is written.
  const auto is_about = [&](std::string_view what) { return bare.find(what) != std::string_view::npos; };
  const bool sets_bytes = !is_about("empty") && !is_about("resize") && bare != "set";
  info->overwrites = (aten && !info->writes.empty() && only_out && sets_bytes) || is_one_of(name, kOverwriting);
  info->factory =
      info->writes.empty() && (!reads_tensors || (aten && (ends_with(bare, "_like") || starts_with(bare, "new_"))));
  info->is_view = aten && info->writes.empty() && !returns.empty() &&
                  std::all_of(returns.begin(), returns.end(), [](const c10::Argument& result) {
                    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
                  });
  read_state_writes(*info, name);
  return info;
}

struct Cache {
  std::mutex mutex;
  // A schema keeps its name at one address while its operator is registered, so that address stands for the overload.
  std::unordered_map<const char*, std::unique_ptr<OpInfo>> by_name_address;
};

Cache& cache() {
  static auto* cache = new Cache;  // outlives every thread that may still record at exit
  return *cache;
}

}  // namespace

std::unique_ptr<OpInfo> OpInfo::of(const c10::OperatorHandle& handle) {
  return analyse(handle);
}

const OpInfo* OpInfo::find(const at::RecordFunction& call) {
  thread_local ska::flat_hash_map<const char*, const OpInfo*> seen;
  const char* key = call.name();
  if (const auto hit = seen.find(key); hit != seen.end() && hit->second != nullptr) {
    return hit->second;
  }
  const auto operator_name = call.operator_name();
  if (!operator_name.has_value()) {
    return nullptr;
  }
  const auto handle = c10::Dispatcher::singleton().findSchema(*operator_name);
  if (!handle.has_value()) {
    return nullptr;
  }
  Cache& shared = cache();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  auto& entry = shared.by_name_address[key];
  if (entry == nullptr) {
    entry = analyse(*handle);
  }
  return seen[key] = entry.get();
}

}  // namespace encore::tape
