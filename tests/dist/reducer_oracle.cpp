// The one file that needs reducer.hpp.
#include "reducer_oracle.h"

#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "tape/compat.h"

struct ReducerOracle::Impl {
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;  // without one the Reducer crashes on unused parameters
};

ReducerOracle::ReducerOracle(const std::vector<at::Tensor>& parameters, const std::vector<std::vector<size_t>>& buckets,
                             const c10::intrusive_ptr<c10d::ProcessGroup>& group)
    : impl_(std::make_unique<Impl>()) {
  const std::vector<bool> sparse(parameters.size(), false);
  const std::unordered_map<size_t, std::string> names;
  constexpr int64_t kLimit = int64_t{1} << 30;
  constexpr int64_t kFirstLimit = int64_t{1} << 20;
#if ENCORE_TORCH_AT_LEAST(2, 12)
  impl_->reducer = std::make_shared<c10d::Reducer>(
      parameters, buckets, group, sparse, kLimit, /*find_unused_parameters=*/true, /*gradient_as_bucket_view=*/false,
      names, kFirstLimit, /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
#else
  const std::vector<size_t> limits(buckets.size(), size_t{kLimit});
  impl_->reducer = std::make_shared<c10d::Reducer>(parameters, buckets, limits, group, sparse, kLimit,
                                                   /*find_unused_parameters=*/true, /*gradient_as_bucket_view=*/false,
                                                   names, kFirstLimit);
#endif
  impl_->logger = std::make_shared<c10d::Logger>(impl_->reducer);
  impl_->reducer->set_logger(impl_->logger);
}

ReducerOracle::~ReducerOracle() = default;

void ReducerOracle::before_backward(const at::Tensor& loss) {
  impl_->reducer->prepare_for_backward({loss});
}
