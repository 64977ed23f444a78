// Checkpoints of other systems, which need libraries that the playground lacks.
// It reads no folders: every one is of an unknown format.
#include "stored/tree.h"

namespace shardc::stored {

std::optional<Folder> ReadFolder(const std::string&) { return std::nullopt; }
std::string_view FormOf(const Folder&) { return {}; }
std::optional<Tree> OpenTree(const std::string&, Findings&) {
  return std::nullopt;
}

}  // namespace shardc::stored
