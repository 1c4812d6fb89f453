// Handing memory to a process group and waiting for it.
#include "dist/channel.h"

#include <ATen/Functions.h>
#include <ATen/core/ivalue_inl.h>

namespace encore::dist {
namespace {

using Clock = std::chrono::steady_clock;

/// Memory of collectives that never ended for us. Gloo's thread may write to it until its own time is up.
class Abandoned {
 public:
  static Abandoned& instance() {
    static auto* abandoned = new Abandoned;  // never destroyed: threads of Gloo's may be there to the end
    return *abandoned;
  }
  void add(c10::intrusive_ptr<c10d::Work> work, std::shared_ptr<const void> memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back({std::move(work), std::move(memory)});
  }
  void free_ended() {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.erase(
        std::remove_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.work->isCompleted(); }),
        entries_.end());
  }

 private:
  struct Entry {
    c10::intrusive_ptr<c10d::Work> work;
    std::shared_ptr<const void> memory;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

/// Wakes the waiting thread when the work ends.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  bool done = false;
};

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    const std::string text = exception.what();
    return text.substr(0, text.find('\n'));  // without c10's list of callers
  } catch (...) {
    return "an exception of unknown type";
  }
}

/// Bytes of a tensor among others of other types.
int64_t padded(const at::Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + 15) / 16 * 16;
}

}  // namespace

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    abandon();
    work_ = std::move(other.work_);
    memory_ = std::move(other.memory_);
    name_ = std::move(other.name_);
  }
  return *this;
}

void Pending::abandon() noexcept {
  if (work_ && !work_->isCompleted()) {
    Abandoned::instance().add(std::move(work_), std::move(memory_));
  }
}

void Channel::require_group(const std::string& name) const {
  if (group_->lost) {
    throw RankError("dist: " + name + ": this group has lost a rank; go on in RankGroup::without_lost() or start again",
                    -1, name);
  }
}

at::Tensor Channel::over(void* data, int64_t count, at::ScalarType type) {
  Abandoned::instance().free_ended();
  sent_bytes_ += count * static_cast<int64_t>(c10::elementSize(type));
  return at::from_blob(data, {count}, at::TensorOptions(type));
}

Pending Channel::allreduce(void* data, int64_t count, at::ScalarType type, std::shared_ptr<const void> memory,
                           std::string name) {
  require_group(name);
  std::vector<at::Tensor> tensors{over(data, count, type)};
  return {connections_->allreduce(tensors), std::move(memory), std::move(name)};
}

Pending Channel::reduce(void* data, int64_t count, at::ScalarType type, int root, std::shared_ptr<const void> memory,
                        std::string name) {
  require_group(name);
  std::vector<at::Tensor> tensors{over(data, count, type)};
  c10d::ReduceOptions options;
  options.rootRank = root;
  return {connections_->reduce(tensors, options), std::move(memory), std::move(name)};
}

Pending Channel::broadcast(void* data, int64_t nbytes, int root, std::shared_ptr<const void> memory, std::string name) {
  require_group(name);
  std::vector<at::Tensor> tensors{over(data, nbytes, at::kByte)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return {connections_->broadcast(tensors, options), std::move(memory), std::move(name)};
}

void Channel::wait(Pending& pending) {
  const auto began = Clock::now();
  if (group_->roll) {
    group_->roll->now_in(pending.name());
  }
  const auto bell = std::make_shared<Bell>();
  const auto future = pending.work().getFuture();
  future->addCallback([bell](c10::ivalue::Future&) {
    const std::lock_guard<std::mutex> lock(bell->mutex);
    bell->done = true;
    bell->rung.notify_all();
  });
  // What is left of the time is for the roll call.
  const auto until = began + group_->options.timeout - group_->patience();
  bool told = false;
  bool done = false;
  {
    std::unique_lock<std::mutex> lock(bell->mutex);
    while (!bell->done && !told && Clock::now() < until) {
      bell->rung.wait_for(lock, std::chrono::milliseconds(20));
      told = !bell->done && group_->roll && group_->roll->news();
    }
    done = bell->done;
  }
  waiting_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count();
  if (!done) {
    group_->fail(pending.name(), told ? "another rank failed" : "not everybody took part within the time-out");
  }
  pending.over();
  if (future->hasError()) {
    group_->fail(pending.name(), message_of(future->exception_ptr()));
  }
  if (group_->roll) {
    group_->roll->now_in("");
  }
}

std::vector<std::vector<int64_t>> Channel::exchange(const std::vector<int64_t>& mine, const std::string& name) {
  // A sum in which everybody has a part of its own: what every version of every process group can do.
  const auto all = std::make_shared<std::vector<int64_t>>(mine.size() * static_cast<size_t>(size()));
  std::copy(mine.begin(), mine.end(),
            all->begin() + static_cast<std::ptrdiff_t>(mine.size() * static_cast<size_t>(rank())));
  Pending sum = allreduce(all->data(), static_cast<int64_t>(all->size()), at::kLong, all, name);
  wait(sum);
  std::vector<std::vector<int64_t>> rows;
  for (auto at = all->begin(); at != all->end(); at += static_cast<std::ptrdiff_t>(mine.size())) {
    rows.emplace_back(at, at + static_cast<std::ptrdiff_t>(mine.size()));
  }
  return rows;
}

std::string Channel::text_from(int root, const std::string& mine, const std::string& name) {
  const auto length = std::make_shared<int64_t>(static_cast<int64_t>(mine.size()));
  Pending first = broadcast(length.get(), sizeof(*length), root, length, name);
  wait(first);
  const auto text = std::make_shared<std::string>(mine);
  text->resize(static_cast<size_t>(*length));
  if (*length > 0) {
    Pending second = broadcast(text->data(), *length, root, text, name);
    wait(second);
  }
  return *text;
}

void Channel::broadcast_tensors(const std::vector<at::Tensor>& tensors, int root, const at::Tensor& piece,
                                const std::string& name) {
  const at::NoGradGuard no_grad;
  const int64_t piece_bytes = piece.numel();
  std::vector<at::Tensor> together;
  int64_t bytes = 0;
  const auto send = [&] {
    if (!together.empty()) {
      broadcast_together(together, root, bytes <= piece_bytes ? piece : at::empty({bytes}, at::kByte), bytes, name);
    }
    together.clear();
    bytes = 0;
  };
  for (const at::Tensor& tensor : tensors) {
    const auto nbytes = static_cast<int64_t>(tensor.nbytes());
    if (nbytes == 0) {
      continue;
    }
    if (nbytes >= piece_bytes && tensor.is_non_overlapping_and_dense()) {
      send();
      Pending pending = broadcast(tensor.data_ptr(), nbytes, root, std::make_shared<at::Tensor>(tensor), name);
      wait(pending);
      if (rank() != root) {
        tensor.unsafeGetTensorImpl()->bump_version();
      }
      continue;
    }
    if (bytes + padded(tensor) > piece_bytes) {
      send();
    }
    together.push_back(tensor);
    bytes += padded(tensor);
  }
  send();
}

void Channel::broadcast_together(const std::vector<at::Tensor>& tensors, int root, const at::Tensor& piece,
                                 int64_t bytes, const std::string& name) {
  const auto place_of = [](char* at, const at::Tensor& tensor) {
    return at::from_blob(at, tensor.sizes(), at::TensorOptions(tensor.scalar_type()));
  };
  auto* at = static_cast<char*>(piece.data_ptr());
  if (rank() == root) {
    for (const at::Tensor& tensor : tensors) {
      place_of(at, tensor).copy_(tensor);
      at += padded(tensor);
    }
  }
  Pending pending = broadcast(piece.data_ptr(), bytes, root, std::make_shared<at::Tensor>(piece), name);
  wait(pending);
  if (rank() != root) {
    for (const at::Tensor& tensor : tensors) {
      at::Tensor(tensor).copy_(place_of(at, tensor));
      at += padded(tensor);
    }
  }
}

}  // namespace encore::dist
