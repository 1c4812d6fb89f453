// Text for pages: escaping, and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace encore::report {

/// For text and for attributes in double quotes. Control characters become spaces.
std::string escape_html(std::string_view text);

/// JSON for a <script> element: no character in it can end the element or begin a comment.
std::string escape_script_json(std::string_view json);

/// -1 and below: a dash, for unknown.
std::string bytes_text(int64_t bytes);

/// 0.1824 -> "182 ms"; a dash for what isn't finite.
std::string seconds_text(double seconds);

/// 12345 -> "12,345".
std::string count_text(int64_t count);

/// 0.0512 -> "5.1%"; with `sign`, "+5.1%".
std::string percent_text(double part, bool sign = false);

/// "1 step", "2 steps".
std::string counted(int64_t count, const std::string& noun);

}  // namespace encore::report
