// Where a tree's values are by name: zarr keeps metadata and chunks as values
// of keys such as `w/.zarray` and `w/0.1`, in files of a folder or in an OCDBT
// database.
#ifndef SHARDC_STORED_STORE_H_
#define SHARDC_STORED_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"

namespace shardc::stored {

// Refuses values above this before they are read into memory.
inline constexpr int64_t kValueLimitBytes = int64_t{8} << 30;

struct Value {
  bool found = false;
  std::string file;  // the bytes are in this file, or else in `held`
  int64_t offset = 0;
  int64_t bytes = 0;
  std::string_view held;
};

class Store {
 public:
  virtual ~Store() = default;
  // Returns where the value of a key is; `found` is false if there is none.
  // Returns nullopt after a finding.
  virtual std::optional<Value> Find(std::string_view key,
                                    Findings& findings) const = 0;
  // Returns the keys of arrays' metadata, sorted: those that end in `.zarray`
  // or `zarr.json`. Returns nullopt after a finding.
  virtual std::optional<std::vector<std::string>> MetadataKeys(
      Findings& findings) const = 0;
};

bool IsMetadataKey(std::string_view key);

// Reads `bytes` bytes of the value from its byte `offset` on.
std::optional<std::string> ReadValue(const Value& value, int64_t offset,
                                     int64_t bytes, Findings& findings);

// The values are the files below a folder.
class FolderStore : public Store {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}
  std::optional<Value> Find(std::string_view key,
                            Findings& findings) const override;
  std::optional<std::vector<std::string>> MetadataKeys(
      Findings& findings) const override;

 private:
  std::string folder_;
};

// Returns why a path that a file of the checkpoint gives is refused: it is
// absolute, leads upwards or holds control characters. Empty if it is accepted.
std::string_view PathFault(std::string_view path);

// Returns whether the file at `path` is inside `folder` after resolving links;
// otherwise adds a finding (path). A file that does not exist is inside.
bool IsInside(const std::string& folder, const std::string& path,
              Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_STORE_H_
