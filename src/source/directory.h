// Lists the names in a directory, and joins a directory and a name.
#ifndef SHARDC_SOURCE_DIRECTORY_H_
#define SHARDC_SOURCE_DIRECTORY_H_

#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace shardc {

// Returns all names but `.` and `..`, sorted. Returns nullopt if the directory
// cannot be read, with the reason in `error`.
std::optional<std::vector<std::string>> NamesIn(const std::string& directory,
                                                std::error_code& error);

// Returns the path of a name in a directory: `ckpt/a` for `a` in `ckpt` or
// `ckpt/`. If `directory` is empty, returns the name.
std::string PathIn(std::string_view directory, std::string_view name);

}  // namespace shardc

#endif  // SHARDC_SOURCE_DIRECTORY_H_
