// Lists the names in a directory.
#ifndef SHARDC_SOURCE_DIRECTORY_H_
#define SHARDC_SOURCE_DIRECTORY_H_

#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace shardc {

// Returns all names but `.` and `..`, sorted. Returns nullopt if the directory
// cannot be read, with the reason in `error`.
std::optional<std::vector<std::string>> NamesIn(const std::string& directory,
                                                std::error_code& error);

}  // namespace shardc

#endif  // SHARDC_SOURCE_DIRECTORY_H_
