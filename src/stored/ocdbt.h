// Reads OCDBT, tensorstore's format of a key-value database that is stored in a
// few files. A manifest refers to a B-tree. The leaves of the B-tree contain
// small values, and the places of large values in other files.
#ifndef SHARDC_STORED_OCDBT_H_
#define SHARDC_STORED_OCDBT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "stored/store.h"

namespace shardc::stored {

inline constexpr std::string_view kOcdbtManifest = "manifest.ocdbt";

// The key-value pairs of the newest version of a database, or of several
// databases together.
class OcdbtStore : public Store {
 public:
  // Reads the manifests and all B-tree nodes of the databases below `root`.
  // There is one database in each of `folders`, where "" is the root itself.
  // Values that no node contains stay in their files; Open only checks that the
  // files are long enough. On failure, returns null and adds a finding. Its
  // code is header, offsets, limit, path, missing, unreadable or duplicate-key
  // (two databases have different values for a key).
  static std::shared_ptr<const OcdbtStore> Open(
      const std::string& root, const std::vector<std::string>& folders,
      Findings& findings);

  std::optional<Value> Find(std::string_view key,
                            Findings& findings) const override;
  std::optional<std::vector<std::string>> MetadataKeys(
      Findings& findings) const override;
  size_t size() const { return entries_.size(); }

 private:
  friend class OcdbtWalk;

  struct Entry {
    size_t key = 0;  // offset in `texts_`
    uint32_t key_bytes = 0;
    // The index of the value's file in `files_`; kHeld if a B-tree node
    // contains the value.
    uint32_t file = kHeld;
    // The offset of the value in the file, or in `texts_` if a B-tree node
    // contains the value.
    int64_t offset = 0;
    int64_t bytes = 0;
  };
  static constexpr uint32_t kHeld = UINT32_MAX;

  std::string_view KeyOf(const Entry& entry) const {
    return std::string_view(texts_).substr(entry.key, entry.key_bytes);
  }
  std::string_view HeldOf(const Entry& entry) const;
  bool Unite(const std::string& root, Findings& findings);

  std::string texts_;           // keys and small values
  std::vector<Entry> entries_;  // sorted by key
  std::vector<std::string> files_;
};

}  // namespace shardc::stored

#endif  // SHARDC_STORED_OCDBT_H_
