// A cache of manifests, for programs that read the same manifest repeatedly.
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

// The identity, size and times of a file. If two stamps of a file are equal,
// the file has not been written between them, within the resolution of its
// times.
struct FileStamp {
  FileId file;
  int64_t size = -1;  // negative if this is not a regular file
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileStamp&) const = default;
};
FileStamp StampOf(const std::string& path);

// Several threads may use a cache at once.
class ManifestCache {
 public:
  // Returns the manifest that was kept for this path if the stamp is still the
  // same, else nullopt.
  std::optional<Manifest> Find(const std::string& path,
                               const FileStamp& stamp) const;
  // Keeps a manifest of a regular file. `stamp` must have been taken before the
  // file was read. A full cache is emptied first.
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
