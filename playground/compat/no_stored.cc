// Checkpoints of other systems, which need libraries that the playground lacks.
// It reads no folders: every one is of an unknown format.
#include "stored/tree.h"

namespace shardc::stored {

std::optional<Folder> ReadFolder(const std::string&) { return std::nullopt; }
bool IsTree(const std::string&) { return false; }
const Format* FormatOf(const Folder&) { return nullptr; }
std::optional<Tree> OpenAs(const Format&, const Folder&, Findings&) {
  return std::nullopt;
}
std::optional<Tree> OpenTree(const std::string&, Findings&) {
  return std::nullopt;
}

}  // namespace shardc::stored
