// The one file that needs reducer.hpp.
#include "reducer_oracle.h"

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

struct ReducerOracle::Impl {
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;  // without one the Reducer crashes on unused parameters
};

ReducerOracle::ReducerOracle(const std::vector<at::Tensor>& parameters, const std::vector<std::vector<size_t>>& buckets,
                             const c10::intrusive_ptr<c10d::ProcessGroup>& group)
    : impl_(std::make_unique<Impl>()) {
  const std::vector<size_t> limits(buckets.size(), size_t{1} << 30);
  const std::vector<bool> sparse(parameters.size(), false);
  impl_->reducer = std::make_shared<c10d::Reducer>(parameters, buckets, limits, group, sparse, int64_t{1} << 30,
                                                   /*find_unused_parameters=*/true, /*gradient_as_bucket_view=*/false,
                                                   std::unordered_map<size_t, std::string>{}, int64_t{1} << 20
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 12)
                                                   ,
                                                   false, false
#endif
  );
  impl_->logger = std::make_shared<c10d::Logger>(impl_->reducer);
  impl_->reducer->set_logger(impl_->logger);
}

ReducerOracle::~ReducerOracle() = default;

void ReducerOracle::before_backward(const at::Tensor& loss) {
  impl_->reducer->prepare_for_backward({loss});
}
