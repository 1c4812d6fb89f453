// Reads IDX files: a magic number with type and rank, the sizes, all big-endian, and the bytes.
#include <filesystem>
#include <memory>
#include <random>

#include <zlib.h>

#include <torch/torch.h>

#include <encore/error.h>

#include "data.h"

namespace demo {
namespace {

constexpr const char* kDebianFolder = "/usr/share/datasets/fashion-mnist";
constexpr uint32_t kBytesMagic = 0x800;  // the lowest byte is the rank

struct Idx {
  std::vector<int64_t> sizes;
  std::vector<uint8_t> bytes;
};

/// A file that zlib reads, whether it is compressed or not.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb"), gzclose) {
    if (!file_) {
      throw encore::InvalidArgument(path_ + ": can't be opened");
    }
  }
  void read(uint8_t* to, size_t size) {
    if (gzfread(to, 1, size, file_.get()) != size) {
      throw encore::InvalidArgument(path_ + ": ends too early, or is damaged");
    }
  }
  uint32_t read_number() {
    uint8_t b[4];
    read(b, sizeof b);
    return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | uint32_t{b[3]};
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

Idx read_idx(const std::string& path, uint32_t rank) {
  Reader reader(path);
  if (reader.read_number() != kBytesMagic + rank) {
    throw encore::InvalidArgument(path + ": is not an IDX file of bytes of rank " + std::to_string(rank));
  }
  Idx idx;
  size_t count = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    idx.sizes.push_back(reader.read_number());
    count *= static_cast<size_t>(idx.sizes.back());
  }
  constexpr size_t kMost = size_t{1} << 30;
  if (count == 0 || count > kMost) {
    throw encore::InvalidArgument(path + ": holds " + std::to_string(count) + " bytes, which can't be right");
  }
  idx.bytes.resize(count);
  reader.read(idx.bytes.data(), count);
  return idx;
}

/// The file of this name in the folder, compressed or not.
std::string find_file(const std::string& folder, const std::string& name) {
  for (const char* ending : {".gz", ""}) {
    const std::string path = (std::filesystem::path(folder) / (name + ending)).string();
    if (std::filesystem::exists(path)) {
      return path;
    }
  }
  throw encore::InvalidArgument(folder + ": has no " + name +
                                ".gz; install Debian's package dataset-fashion-mnist, or name a folder with --data");
}

}  // namespace

Images::Images(const std::string& folder) : folder_(folder.empty() ? kDebianFolder : folder) {
  Idx images = read_idx(find_file(folder_, "train-images-idx3-ubyte"), 3);
  Idx labels = read_idx(find_file(folder_, "train-labels-idx1-ubyte"), 1);
  if (images.sizes[0] != labels.sizes[0]) {
    throw encore::InvalidArgument(folder_ + ": has " + std::to_string(images.sizes[0]) + " images, but " +
                                  std::to_string(labels.sizes[0]) + " labels");
  }
  for (const uint8_t label : labels.bytes) {
    if (label >= kClasses) {
      throw encore::InvalidArgument(folder_ + ": has the label " + std::to_string(label) + ", not one of 0 to 9");
    }
  }
  height_ = images.sizes[1];
  width_ = images.sizes[2];
  pixels_ = std::move(images.bytes);
  labels_ = std::move(labels.bytes);
}

Batch Images::batch(int64_t step, int64_t count) const {
  std::mt19937_64 random(static_cast<uint64_t>(step));
  Batch batch{torch::empty({count, 1, height_, width_}), torch::empty({count}, torch::kLong)};
  auto* pixel = batch.inputs.data_ptr<float>();
  auto* label = batch.targets.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const auto image = static_cast<int64_t>(random() % labels_.size());
    const auto from = pixels_.begin() + image * height_ * width_;
    pixel = std::transform(from, from + height_ * width_, pixel, [](uint8_t p) { return static_cast<float>(p) / 255; });
    *label++ = labels_[static_cast<size_t>(image)];
  }
  return batch;
}

}  // namespace demo
