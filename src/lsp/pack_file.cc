#include "lsp/pack_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "source/file_sink.h"
#include "source/finding.h"

namespace shardc::lsp {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> CacheFolder() {
  const auto absolute = [](const char* name) -> std::optional<fs::path> {
    const char* const value = std::getenv(name);
    if (value == nullptr || !fs::path(value).is_absolute()) return std::nullopt;
    return value;
  };
  if (auto cache = absolute("XDG_CACHE_HOME")) return cache;
  if (const auto home = absolute("HOME")) return *home / ".cache";
  return std::nullopt;
}

bool Holds(const fs::path& path, std::string_view text) {
  std::ifstream file(path, std::ios::binary);
  return file && std::equal(std::istreambuf_iterator<char>(file), {},
                            text.begin(), text.end());
}

}  // namespace

SourceRef PackAsFile(const Source& pack) {
  const auto cache = CacheFolder();
  if (!cache) return nullptr;
  std::string name = pack.name().substr(pack.name().find(':') + 1) + ".yaml";
  std::replace(name.begin(), name.end(), '/', '.');
  const fs::path path = *cache / "shardc" / "packs" / name;
  // Write the file unless it already has the pack's text.
  if (!Holds(path, pack.text())) {  // missing, or from another version
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    Findings unwritten;
    if (error || !WriteToFile(path.string(), pack.text(), unwritten)) {
      return nullptr;
    }
    constexpr auto kRead =
        fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
    fs::permissions(path, kRead, error);
  }
  return MakeSource(path.string(), std::string(pack.text()));
}

}  // namespace shardc::lsp
