#include "target/manifest_cache.h"

#include <sys/stat.h>

#include "source/file.h"

namespace shardc {
FileStamp StampOf(const std::string& path) {
  FileStamp stamp;
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return stamp;
  }
  stamp.file = FileIdOf(status);
  stamp.size = status.st_size;
  stamp.modified_ns = ModifiedNs(status);
  stamp.changed_ns = ChangedNs(status);
  return stamp;
}

std::optional<Manifest> ManifestCache::Find(const std::string& path,
                                            const FileStamp& stamp) const {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(path);
  if (stamp.size < 0 || at == entries_.end() || at->second.stamp != stamp) {
    return std::nullopt;
  }
  return at->second.manifest;
}

void ManifestCache::Keep(const std::string& path, const FileStamp& stamp,
                         const Manifest& manifest) {
  if (stamp.size < 0) return;
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kLimit) entries_.clear();
  entries_.insert_or_assign(path, Entry{stamp, manifest});
}

}  // namespace shardc
