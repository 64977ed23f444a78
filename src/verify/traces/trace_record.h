// Records what a cache or pages held at each step of a trace, for --dump.
#ifndef SHARDC_VERIFY_TRACES_TRACE_RECORD_H_
#define SHARDC_VERIFY_TRACES_TRACE_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exec/cache/kv_cache.h"
#include "exec/pages/page_pool.h"
#include "exec/pages/page_table.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {

// Adds tensors under a phase, such as `step-0003/`. Does nothing without a
// destination, and stops where the tensors pass 1 GiB.
class TraceRecord {
 public:
  explicit TraceRecord(NamedBuffers* to) : to_(to) {}

  bool IsOn() const { return to_ != nullptr && bytes_ < kMostBytes; }
  // Begins the next phase of a kind: `prefill-0000`, `prefill-0001`.
  void Begin(const std::string& kind);
  void Add(const std::string& name, const exec::Buffer& buffer);
  // I32 of shape [n].
  void Add(const std::string& name, const std::vector<int64_t>& values);
  void Add(const std::string& name, const exec::SimMesh& mesh,
           const exec::ShardedTensor& tensor);
  // NAME/key, value, index and start; key_scale and value_scale of int8, and
  // the positions of slots that are used again.
  void Cache(const std::string& name, const exec::SimMesh& mesh,
             const exec::KvCache& cache);
  // I32 [B, n]: for each token that is appended the rank along the length that
  // owns its slot, -1 for a token that is not written; and the number of ranks.
  void Owners(const exec::SimMesh& mesh, const exec::KvCache& cache, int64_t n,
              const std::vector<int64_t>& counts);
  // I32 [B, S]: 1 where attention may read the slot.
  void Mask(const exec::CacheView& view, const exec::Buffer& positions,
            int64_t window);
  // NAME/first and second, with scales of int8, the page table and the
  // requests' lengths.
  void Pages(const std::string& name, const exec::SimMesh& mesh,
             const exec::PagePool& pool, const exec::PageTable& table);

 private:
  static constexpr int64_t kMostBytes = int64_t{1} << 30;

  NamedBuffers* to_;
  std::string phase_;
  std::string kind_;
  size_t number_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_RECORD_H_
