// A cache of the decoded chunks of a stored tree, which is a checkpoint in the
// format of orbax, zarr or PyTorch DCP.
#ifndef SHARDC_CHECKPOINT_CHUNK_CACHE_H_
#define SHARDC_CHECKPOINT_CHUNK_CACHE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "source/finding.h"
#include "stored/box.h"
#include "stored/tree.h"

namespace shardc {

// A cache of chunks for several threads that copy disjoint boxes of arrays.
// Each box is copied once. A chunk is decoded only once, unless the chunks in
// use need more than `most_bytes` bytes.
class ChunkCache {
 public:
  ChunkCache(const stored::Tree& tree, int64_t most_bytes)
      : tree_(tree), most_bytes_(most_bytes) {}

  // Copies the elements of the box to `out` in row-major order. Returns false
  // after a finding.
  bool Take(size_t array, const Box& box, char* out, Findings& findings);

 private:
  // The index of an array in the tree, and the index of a chunk in the array.
  using Key = std::pair<size_t, int64_t>;
  struct Entry {
    std::mutex mutex;  // held while the chunk is decoded
    std::shared_ptr<const std::string> bytes;
    // The number of elements that have not been copied since the entry was
    // made.
    int64_t left = 0;
    std::list<Key>::iterator place;
  };

  std::shared_ptr<Entry> Find(const Key& key);
  std::shared_ptr<const std::string> Load(const Key& key, Entry& entry,
                                          Findings& findings);
  // Removes the least recently used chunks until the remaining chunks have at
  // most `most_bytes_` bytes. Never removes the chunk `key`, which was decoded
  // just before, or a chunk that is still being decoded.
  void Shrink(const Key& key);
  void Remove(const Key& key, const Entry& entry);

  const stored::Tree& tree_;
  const int64_t most_bytes_;
  // Guards all members below, and `left` and `place` of entries.
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  std::list<Key> recent_;  // keys of chunks, the most recently used first
  int64_t bytes_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_CHUNK_CACHE_H_
