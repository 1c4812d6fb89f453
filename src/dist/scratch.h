// Memory of any size that takes none: a few pages, mapped over and over.
#pragma once

#include <cstddef>
#include <memory>

namespace encore::dist {

/// For collectives whose result nobody will read, of a rank that has no memory left. Numbers in it are any; where the
/// system can't map it, plain pages.
std::shared_ptr<char> make_scratch(size_t nbytes);

}  // namespace encore::dist
