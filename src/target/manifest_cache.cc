#include "target/manifest_cache.h"

#include <sys/stat.h>

#include "source/file.h"

namespace shardc {
namespace {

int64_t Nanoseconds(const timespec& time) {
  constexpr int64_t kPerSecond = 1000000000;
  return static_cast<int64_t>(time.tv_sec) * kPerSecond + time.tv_nsec;
}

}  // namespace

FileStamp StampOf(const std::string& path) {
  FileStamp stamp;
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return stamp;
  }
  stamp.file = FileIdOf(status);
  stamp.size = status.st_size;
  stamp.modified_ns = Nanoseconds(status.st_mtim);
  stamp.changed_ns = Nanoseconds(status.st_ctim);
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
