// Optimizers for a part of the parameters each.
#include "dist/sharded.h"

#include <numeric>
#include <sstream>

#include <torch/optim/lbfgs.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

namespace encore {
namespace {

/// Buckets to ranks, the largest first, each to the rank that has the fewest bytes.
std::vector<int> share_out(const std::vector<dist::Bucket>& buckets, int ranks) {
  std::vector<size_t> order(buckets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buckets[a].nbytes > buckets[b].nbytes; });
  std::vector<int64_t> bytes(static_cast<size_t>(ranks), 0);
  std::vector<int> owners(buckets.size(), 0);
  for (const size_t b : order) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    owners[b] = static_cast<int>(least - bytes.begin());
    *least += buckets[b].nbytes;
  }
  return owners;
}

}  // namespace

std::string ShardedOptimizer::Impl::state_of(size_t parameter) const {
  torch::serialize::OutputArchive archive;
  optimizers[parameter]->save(archive);
  std::ostringstream out;
  archive.save_to(out);
  return out.str();
}

void ShardedOptimizer::Impl::set_state(size_t parameter, const std::string& state) {
  std::istringstream in(state);
  torch::serialize::InputArchive archive;
  archive.load_from(in);
  optimizers[parameter]->load(archive);
}

ShardedOptimizer::ShardedOptimizer(DataParallel parallel, Make make, const ShardOptions& options)
    : impl_(std::make_shared<Impl>()) {
  impl_->parallel = parallel.impl_;
  impl_->options = options;
  dist::Reduction& reduction = impl_->reduction();
  const dist::Layout& layout = reduction.layout();
  const int rank = reduction.channel().rank();
  // On every rank, also on one that owns nothing, so that all throw or none.
  const auto probe = make({layout.parameters[layout.buckets[0].parameters[0]].tensor});
  if (!probe || dynamic_cast<torch::optim::LBFGS*>(probe.get()) != nullptr) {
    throw InvalidArgument(probe ? "dist: LBFGS looks at all parameters at once and can't be sharded"
                                : "dist: the function that makes optimizers made none");
  }
  impl_->owners = share_out(layout.buckets, reduction.channel().size());
  impl_->optimizers.resize(layout.parameters.size());
  for (const dist::Bucket& bucket : layout.buckets) {
    for (const size_t i : bucket.parameters) {
      if (impl_->owner_of(layout.parameters[i]) == rank) {
        impl_->optimizers[i] = make({layout.parameters[i].tensor});
      }
    }
  }
  std::function<void(size_t)> update;
  if (options.inside_backward) {
    update = [impl = impl_.get()](size_t i) { impl->optimizers[i]->step(); };
  }
  reduction.shard(impl_->owners, std::move(update));
}

void ShardedOptimizer::step() {
  if (impl_->options.inside_backward) {
    return;
  }
  dist::Reduction& reduction = impl_->reduction();
  dist::Failure mine;
  std::exception_ptr thrown;
  try {
    for (const auto& optimizer : impl_->optimizers) {
      if (optimizer) {
        optimizer->step();
      }
    }
  } catch (const std::exception& error) {
    thrown = std::current_exception();
    const auto* budget = dynamic_cast<const BudgetError*>(&error);
    mine.kind = budget != nullptr ? dist::FailureKind::kBudget : dist::FailureKind::kThrew;
    mine.figures = budget != nullptr ? budget->figures() : BudgetError::Figures{};
    mine.text = error.what();
  }
  mine.parameters_differ = true;  // if anybody failed
  try {
    const auto rows = reduction.channel().exchange(mine.numbers(), "updating parameters");
    dist::judge(reduction.channel(), rows, mine, "updating parameters");
  } catch (...) {
    reduction.all_know();
    if (thrown) {
      std::rethrow_exception(thrown);
    }
    throw;
  }
  reduction.send_parameters();
  reduction.drop_gradients();
}

void ShardedOptimizer::for_each(const std::function<void(const std::string&, torch::optim::Optimizer&)>& change) {
  for (size_t i = 0; i < impl_->optimizers.size(); ++i) {
    if (impl_->optimizers[i]) {
      change(impl_->layout().parameters[i].name, *impl_->optimizers[i]);
    }
  }
}

std::vector<int64_t> ShardedOptimizer::owned_bytes() const {
  std::vector<int64_t> bytes(static_cast<size_t>(impl_->parallel->group->size), 0);
  for (size_t b = 0; b < impl_->owners.size(); ++b) {
    bytes[static_cast<size_t>(impl_->owners[b])] += impl_->layout().buckets[b].nbytes;
  }
  return bytes;
}

}  // namespace encore
