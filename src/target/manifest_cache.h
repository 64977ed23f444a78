// A cache of manifests, for programs that read the same one repeatedly.
#ifndef SHARDC_TARGET_MANIFEST_CACHE_H_
#define SHARDC_TARGET_MANIFEST_CACHE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "model/manifest.h"
#include "source/finding.h"

namespace shardc {

// Identifies one state of a file: any change of the file changes it.
struct FileStamp {
  FileId file;
  int64_t size = -1;  // negative: there is no such regular file
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileStamp&) const = default;
};
FileStamp StampOf(const std::string& path);

// Safe for use by several threads.
class ManifestCache {
 public:
  // The manifest read from this path, if the file has not changed since.
  std::optional<Manifest> Find(const std::string& path,
                               const FileStamp& stamp) const;
  // `stamp` was taken before the file was read.
  void Keep(const std::string& path, const FileStamp& stamp,
            const Manifest& manifest);

 private:
  struct Entry {
    FileStamp stamp;
    Manifest manifest;
  };
  static constexpr size_t kLimit = 64;  // entries

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace shardc

#endif  // SHARDC_TARGET_MANIFEST_CACHE_H_
