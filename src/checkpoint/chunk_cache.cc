// Copies boxes (rectangular parts) of an array from the chunks that overlap
// them. If the boxes and the chunks form different grids, several boxes need
// the same chunk. A chunk therefore stays in memory until all its elements have
// been copied. It is removed earlier if too much memory is in use, and decoded
// again when another box needs it.
//
//   chunks [4, 8] and [4, 8] of w [8, 8], copied as boxes [8, 4]: the first box
//   copies half of each chunk, and the second box the other half
#include "checkpoint/chunk_cache.h"

#include <iterator>

#include "source/index.h"
#include "stored/region.h"

namespace shardc {

std::shared_ptr<ChunkCache::Entry> ChunkCache::Find(const Key& key) {
  const std::lock_guard lock(mutex_);
  auto& entry = entries_[key];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>();
    entry->left = tree_.arrays[key.first].BoxOf(key.second).Elements();
    entry->place = recent_.insert(recent_.begin(), key);
  } else {
    recent_.splice(recent_.begin(), recent_, entry->place);
  }
  return entry;
}

std::shared_ptr<const std::string> ChunkCache::Load(const Key& key,
                                                    Entry& entry,
                                                    Findings& findings) {
  const std::lock_guard entry_lock(entry.mutex);
  if (entry.bytes != nullptr) return entry.bytes;
  auto read = tree_.reader->Read(key.first, key.second, findings);
  if (!read) return nullptr;
  const std::lock_guard lock(mutex_);
  entry.bytes = std::make_shared<const std::string>(std::move(*read));
  bytes_ += static_cast<int64_t>(entry.bytes->size());
  Shrink(key);
  return entry.bytes;
}

void ChunkCache::Remove(const Key& key, const Entry& entry) {
  if (entry.bytes != nullptr) {
    bytes_ -= static_cast<int64_t>(entry.bytes->size());
  }
  recent_.erase(entry.place);
  entries_.erase(key);
}

void ChunkCache::Shrink(const Key& key) {
  auto at = recent_.end();
  while (bytes_ > most_bytes_ && at != recent_.begin()) {
    --at;
    const auto found = entries_.find(*at);
    // A chunk that is still being decoded has no bytes, so removing it would
    // free no memory.
    if (*at == key || found->second->bytes == nullptr) continue;
    const Key removed = *at;
    ++at;
    Remove(removed, *found->second);
  }
}

bool ChunkCache::Take(size_t array, const Box& box, char* out,
                      Findings& findings) {
  if (box.Elements() == 0) return true;
  const stored::Array& stored = tree_.arrays[array];
  const Region wanted = RegionOf(box);
  return stored::ForEachChunk(stored, box, [&](int64_t chunk) {
    const Key key(array, chunk);
    const auto entry = Find(key);
    const auto bytes = Load(key, *entry, findings);
    if (bytes == nullptr) return false;
    const int64_t taken =
        stored::CopyOfChunk(stored, chunk, bytes->data(), wanted, out);
    const std::lock_guard lock(mutex_);
    entry->left -= taken;
    const auto found = entries_.find(key);
    if (entry->left == 0 && found != entries_.end() && found->second == entry) {
      Remove(key, *entry);
    }
    return true;
  });
}

}  // namespace shardc
