#include "source/directory.h"

#include <algorithm>
#include <filesystem>

namespace shardc {

std::optional<std::vector<std::string>> NamesIn(const std::string& directory,
                                                std::error_code& error) {
  std::vector<std::string> names;
  std::filesystem::directory_iterator at;
  do {  // retry: EINTR is possible on network file systems
    at = std::filesystem::directory_iterator(directory, error);
  } while (error == std::errc::interrupted);
  const std::filesystem::directory_iterator end;
  for (; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) return std::nullopt;
  std::sort(names.begin(), names.end());
  return names;
}

std::string PathIn(std::string_view directory, std::string_view name) {
  std::string out(directory);
  if (!out.empty() && !out.ends_with('/')) out += '/';
  return out.append(name);
}

}  // namespace shardc
