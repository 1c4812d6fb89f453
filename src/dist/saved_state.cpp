// Saved training states: one file, by parameter, so that any number of ranks can read it.
//
// The file: a line "encore-ranks-1", then entries of two lengths (8 bytes each, as the machine has them), a name and
// bytes, then an entry "end" with the hash of all before it. Entries: "model" (what ranks compare), "note", "tensor"
// for each parameter and buffer in order, "state" for each optimizer in order of parameters.
#include "dist/sharded.h"

#include <cstdio>
#include <fstream>

#include <ATen/Functions.h>
#include <xxhash.h>

namespace encore {
namespace {

constexpr char kMagic[] = "encore-ranks-1\n";

class Writer {
 public:
  explicit Writer(std::string path) : path_(std::move(path)), file_(path_ + ".new", std::ios::binary) {
    XXH3_64bits_reset(&hash_);
    put(kMagic, sizeof(kMagic) - 1);
  }
  ~Writer() { std::remove((path_ + ".new").c_str()); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void entry(const std::string& name, const void* data, size_t nbytes) {
    const uint64_t lengths[2] = {name.size(), nbytes};
    put(lengths, sizeof(lengths));
    put(name.data(), name.size());
    put(data, nbytes);
  }
  /// Empty, or why the file could not be written.
  std::string end() {
    const uint64_t sum = XXH3_64bits_digest(&hash_);
    entry("end", &sum, sizeof(sum));
    file_.close();
    if (!file_ || std::rename((path_ + ".new").c_str(), path_.c_str()) != 0) {
      return "dist: could not write " + path_;
    }
    return "";
  }

 private:
  void put(const void* data, size_t nbytes) {
    XXH3_64bits_update(&hash_, data, nbytes);
    file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(nbytes));
  }
  std::string path_;
  std::ofstream file_;
  XXH3_state_t hash_;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    std::string magic(sizeof(kMagic) - 1, '\0');
    file_.read(magic.data(), static_cast<std::streamsize>(magic.size()));
    require(magic == kMagic);
  }
  /// Looks at all of it, then goes back to the first entry.
  void check() {
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    XXH3_64bits_update(&hash, kMagic, sizeof(kMagic) - 1);
    while (true) {
      std::string name;
      const std::string bytes = next(name);
      if (name == "end") {
        uint64_t sum = 0;
        require(bytes.size() == sizeof(sum));
        bytes.copy(reinterpret_cast<char*>(&sum), sizeof(sum));
        require(sum == XXH3_64bits_digest(&hash));
        break;
      }
      const uint64_t lengths[2] = {name.size(), bytes.size()};
      XXH3_64bits_update(&hash, lengths, sizeof(lengths));
      XXH3_64bits_update(&hash, name.data(), name.size());
      XXH3_64bits_update(&hash, bytes.data(), bytes.size());
    }
    file_.clear();
    file_.seekg(sizeof(kMagic) - 1);
  }
  std::string expect(const std::string& name) {
    std::string found;
    std::string bytes = next(found);
    require(found == name);
    return bytes;
  }

 private:
  std::string next(std::string& name) {
    uint64_t lengths[2] = {0, 0};
    file_.read(reinterpret_cast<char*>(lengths), sizeof(lengths));
    require(file_ && lengths[0] < 256 && lengths[1] < (uint64_t{1} << 46));
    name.resize(lengths[0]);
    file_.read(name.data(), static_cast<std::streamsize>(lengths[0]));
    // A broken length must not ask for more memory than there is file.
    const auto here = file_.tellg();
    file_.seekg(0, std::ios::end);
    require(file_ && lengths[1] <= static_cast<uint64_t>(file_.tellg() - here));
    file_.seekg(here);
    std::string bytes(lengths[1], '\0');
    file_.read(bytes.data(), static_cast<std::streamsize>(lengths[1]));
    require(static_cast<bool>(file_));
    return bytes;
  }
  void require(bool holds) const {
    if (!holds) {
      throw InvalidArgument("dist: " + path_ + " is not there, or no saved state of Encore's, or damaged");
    }
  }
  std::string path_;
  std::ifstream file_;
};

std::string model_text(const dist::Layout& layout) {
  std::string text;
  for (const std::string& line : layout.lines) {
    text += line + "\n";
  }
  return text;
}

void require_same_model(const std::string& path, std::string theirs, std::string mine) {
  while (!theirs.empty() || !mine.empty()) {
    const std::string a = theirs.substr(0, theirs.find('\n'));
    const std::string b = mine.substr(0, mine.find('\n'));
    if (a != b) {
      throw InvalidArgument("dist: " + path + " is of another model: it has " + (a.empty() ? "nothing more" : a) +
                            " where this one has " + (b.empty() ? "nothing more" : b));
    }
    theirs.erase(0, a.size() + 1);
    mine.erase(0, b.size() + 1);
  }
}

}  // namespace

void ShardedOptimizer::save(const std::string& path, const std::string& note) {
  dist::Channel& channel = impl_->reduction().channel();
  const dist::Layout& layout = impl_->layout();
  const bool writes = channel.rank() == 0;
  std::optional<Writer> writer;
  if (writes) {
    writer.emplace(path);
    const std::string model = model_text(layout);
    writer->entry("model", model.data(), model.size());
    writer->entry("note", note.data(), note.size());
    for (const at::Tensor& tensor : layout.tensors()) {
      const at::Tensor whole = tensor.detach().contiguous();
      writer->entry("tensor", whole.data_ptr(), whole.nbytes());
    }
  }
  for (const dist::Parameter& parameter : layout.parameters) {
    const auto i = static_cast<size_t>(&parameter - layout.parameters.data());
    if (!parameter.tensor.requires_grad() || parameter.tensor.numel() == 0) {
      continue;
    }
    const std::string state = channel.text_from(
        impl_->owner_of(parameter), impl_->optimizers[i] ? impl_->state_of(i) : "", "saving optimizer state");
    if (writes) {
      writer->entry("state", state.data(), state.size());
    }
  }
  const std::string error = channel.text_from(0, writes ? writer->end() : "", "saving optimizer state");
  if (!error.empty()) {
    throw Error(error);
  }
}

std::string ShardedOptimizer::load(const std::string& path) {
  dist::Channel& channel = impl_->reduction().channel();
  const dist::Layout& layout = impl_->layout();
  const bool reads = channel.rank() == 0;
  const std::string name = "loading a saved state";
  std::optional<Reader> reader;
  std::string error;
  std::string note;
  if (reads) {
    try {
      reader.emplace(path);
      reader->check();
      require_same_model(path, reader->expect("model"), model_text(layout));
      note = reader->expect("note");
    } catch (const InvalidArgument& invalid) {
      error = invalid.what();
    }
  }
  error = channel.text_from(0, error, name);
  if (!error.empty()) {
    throw InvalidArgument(error);
  }
  note = channel.text_from(0, note, name);
  if (reads) {
    const at::NoGradGuard no_grad;
    for (at::Tensor tensor : layout.tensors()) {
      std::string bytes = reader->expect("tensor");
      tensor.copy_(at::from_blob(bytes.data(), tensor.sizes(), at::TensorOptions(tensor.scalar_type())));
    }
  }
  impl_->reduction().broadcast_all(0);
  for (const dist::Parameter& parameter : layout.parameters) {
    if (!parameter.tensor.requires_grad() || parameter.tensor.numel() == 0) {
      continue;
    }
    const std::string state = channel.text_from(0, reads ? reader->expect("state") : "", name);
    const auto i = static_cast<size_t>(&parameter - layout.parameters.data());
    if (impl_->optimizers[i]) {
      impl_->set_state(i, state);
    }
  }
  return note;
}

}  // namespace encore
