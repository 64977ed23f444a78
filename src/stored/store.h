// A store maps keys to values. zarr stores metadata and chunks under keys such
// as `w/.zarray` and `w/0.1`. The keys are files in a folder or entries of an
// OCDBT database.
#ifndef SHARDC_STORED_STORE_H_
#define SHARDC_STORED_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"

namespace shardc::stored {

// The limit on the bytes that are read from a file at once, and on the bytes of
// a decoded chunk.
inline constexpr int64_t kValueLimitBytes = int64_t{8} << 30;

struct Value {
  bool found = false;
  // The path of the file that contains the bytes; empty if they are in `held`.
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
  std::string_view held;
};

class Store {
 public:
  virtual ~Store() = default;
  // Returns the place of the value of a key. Value::found is false if there is
  // no value. Returns nullopt after a finding.
  virtual std::optional<Value> Find(std::string_view key,
                                    Findings& findings) const = 0;
  // Returns the sorted keys of the metadata of arrays, which end in `.zarray`
  // or `zarr.json`. The keys may include a `zarr.json` that describes a group.
  // Returns nullopt after a finding.
  virtual std::optional<std::vector<std::string>> MetadataKeys(
      Findings& findings) const = 0;
};

bool IsMetadataKey(std::string_view key);

// Reads `bytes` bytes of the value, beginning at byte `offset` of the value.
// Returns nullopt after a finding.
std::optional<std::string> ReadValue(const Value& value, int64_t offset,
                                     int64_t bytes, Findings& findings);

// A store whose values are the files below a folder.
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

// Checks a path that is read from a file of the checkpoint. Returns the reason
// why the path is refused: it is empty, is absolute, leads upwards or has
// control characters. Returns an empty text if the path is accepted.
std::string_view PathFault(std::string_view path);

// Returns whether the file at `path` is inside `folder` after links are
// resolved. If the file is outside, adds a finding with the code `path`.
// Returns true for a path that cannot be resolved, for example because no file
// exists there.
bool IsInside(const std::string& folder, const std::string& path,
              Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_STORE_H_
