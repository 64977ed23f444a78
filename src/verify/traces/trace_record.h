// Records the contents of a cache or of pages at each step of a trace, for
// --dump.
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

// Adds tensors under the name of a section of the trace, such as `step-0003/`
// for a decode step. Adds nothing if the destination is null, or once the
// recorded tensors have 1 GiB.
class TraceRecord {
 public:
  explicit TraceRecord(NamedBuffers* to) : to_(to) {}

  bool IsOn() const { return to_ != nullptr && bytes_ < kMostBytes; }
  // Begins the next section. A section has a kind and a number, such as
  // `prefill-0000` and then `prefill-0001`. The number is 0 again if the
  // previous section was of another kind.
  void Begin(const std::string& kind);
  void Add(const std::string& name, const exec::Buffer& buffer);
  // Adds the values as an I32 tensor [n].
  void Add(const std::string& name, const std::vector<int64_t>& values);
  void Add(const std::string& name, const exec::SimMesh& mesh,
           const exec::ShardedTensor& tensor);
  // Adds NAME/key, NAME/value, NAME/index and NAME/start. For int8, also adds
  // key_scale and value_scale. For a cache that reuses slots, also adds their
  // positions.
  void Cache(const std::string& name, const exec::SimMesh& mesh,
             const exec::KvCache& cache);
  // Adds a tensor I32 [B, n]: for each appended token, the rank that owns the
  // token's slot, or -1 if the token is not written. Ranks are counted along
  // the axes of the cache's length. Adds the number of ranks too.
  void Owners(const exec::SimMesh& mesh, const exec::KvCache& cache, int64_t n,
              const std::vector<int64_t>& counts);
  // Adds a tensor I32 [B, S] that is 1 for the slots that attention may read.
  void Mask(const exec::CacheView& view, const exec::Buffer& positions,
            int64_t window);
  // Adds the pages: NAME/first and, if keys and values are separate,
  // NAME/second. For an int8 cache, also adds their scales. Adds the page table
  // and the lengths of requests.
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
