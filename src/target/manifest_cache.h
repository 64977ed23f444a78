// Caches manifests for programs, such as the language server, that read the
// same manifest repeatedly.
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
// the file was not written between them, except for writes that keep its size
// and are too quick for the resolution of its times.
struct FileStamp {
  FileId file;
  int64_t size = -1;  // negative if the path is not a regular file
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileStamp&) const = default;
};
FileStamp StampOf(const std::string& path);

// A cache of manifests by path. Several threads may use it at the same time.
class ManifestCache {
 public:
  // Returns the manifest that was kept for this path, if its stamp equals
  // `stamp`; otherwise nullopt.
  std::optional<Manifest> Find(const std::string& path,
                               const FileStamp& stamp) const;
  // Keeps the manifest of a regular file. `stamp` must have been taken before
  // the file was read. If the cache is full, all its entries are removed first.
  void Keep(const std::string& path, const FileStamp& stamp,
            const Manifest& manifest);

 private:
  struct Entry {
    FileStamp stamp;
    Manifest manifest;
  };
  static constexpr size_t kLimit = 64;  // the largest number of entries

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace shardc

#endif  // SHARDC_TARGET_MANIFEST_CACHE_H_
