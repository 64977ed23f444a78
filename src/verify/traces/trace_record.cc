// Names the tensors of a trace for --dump. The names have the form
// section/time/tensor. A section is a chunk of the prefill, the insertion of a
// row, or another step. It has the state before it, its inputs, and the state
// after it, so that it can be recomputed from its own tensors. For example, the
// keys of the first decode step are:
//
//   step-0000/before/key, step-0000/in/key, step-0000/after/key
#include "verify/traces/trace_record.h"

#include "source/index.h"

namespace shardc::verify {

void TraceRecord::Begin(const std::string& kind) {
  number_ = kind == kind_ ? number_ + 1 : 0;
  kind_ = kind;
  const std::string digits = std::to_string(number_);
  phase_ = kind + "-" +
           std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') +
           digits + "/";
}

void TraceRecord::Add(const std::string& name, const exec::Buffer& buffer) {
  if (!IsOn()) return;
  bytes_ += buffer.Bytes();
  to_->emplace_back(phase_ + name, buffer);
}

void TraceRecord::Add(const std::string& name,
                      const std::vector<int64_t>& values) {
  if (!IsOn()) return;
  exec::Buffer buffer =
      exec::Buffer::Zeros({static_cast<int64_t>(values.size())}, Dtype::kI32);
  buffer.integers.assign(values.begin(), values.end());
  Add(name, buffer);
}

void TraceRecord::Add(const std::string& name, const exec::SimMesh& mesh,
                      const exec::ShardedTensor& tensor) {
  if (!IsOn()) return;
  exec::LayoutError why;
  if (const auto all = exec::Gather(mesh, tensor, why)) Add(name, *all);
}

void TraceRecord::Cache(const std::string& name, const exec::SimMesh& mesh,
                        const exec::KvCache& cache) {
  if (!IsOn()) return;
  Add(name + "/key", mesh, cache.key);
  Add(name + "/value", mesh, cache.value);
  if (cache.IsQuantized()) {
    Add(name + "/key_scale", mesh, cache.key_scale);
    Add(name + "/value_scale", mesh, cache.value_scale);
  }
  if (cache.Rolls()) Add(name + "/positions", mesh, cache.positions);
  Add(name + "/index", cache.index);
  Add(name + "/start", cache.start);
}

void TraceRecord::Owners(const exec::SimMesh& mesh, const exec::KvCache& cache,
                         int64_t n, const std::vector<int64_t>& counts) {
  if (!IsOn()) return;
  const auto batch = static_cast<int64_t>(counts.size());
  exec::Buffer owners = exec::Buffer::Zeros({batch, n}, Dtype::kI32);
  const Spec& spec = cache.spec();
  const int64_t parts = spec.size() > 1 ? mesh.Parts(spec[1]) : 1;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      int32_t& owner = owners.integers[AsIndex(b * n + i)];
      owner = -1;
      for (int64_t rank = 0; i < counts[AsIndex(b)] && rank < parts; ++rank) {
        const exec::SlotQuery query{cache.index[AsIndex(b)] + i,
                                    cache.config.window,
                                    cache.config.max_length, parts, rank};
        if (exec::OwnSlot(query) >= 0) owner = static_cast<int32_t>(rank);
      }
    }
  }
  Add("owners", owners);
  Add("length_parts", {parts});
}

void TraceRecord::Mask(const exec::CacheView& view,
                       const exec::Buffer& positions, int64_t window) {
  if (!IsOn()) return;
  const int64_t batch = view.key.shape[0], slots = view.key.shape[1];
  exec::Buffer mask = exec::Buffer::Zeros({batch, slots}, Dtype::kI32);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = view.lengths[AsIndex(b)];
    for (int64_t s = 0; s < slots; ++s) {
      const size_t at = AsIndex(b * slots + s);
      const int64_t position =
          positions.integers.empty() ? s : positions.integers[at];
      const bool seen = position >= view.starts[AsIndex(b)] && position >= 0 &&
                        position < length &&
                        (window == 0 || position >= length - window);
      mask.integers[at] = seen ? 1 : 0;
    }
  }
  Add("mask", mask);
}

void TraceRecord::Pages(const std::string& name, const exec::SimMesh& mesh,
                        const exec::PagePool& pool,
                        const exec::PageTable& table) {
  if (!IsOn()) return;
  Add(name + "/first", mesh, pool.first);
  if (pool.config.format == exec::PageFormat::kSeparate) {
    Add(name + "/second", mesh, pool.second);
  }
  if (pool.IsQuantized()) {
    Add(name + "/key_scale", mesh, pool.key_scale);
    Add(name + "/value_scale", mesh, pool.value_scale);
  }
  Add(name + "/table", table.Table());
  Add(name + "/lengths", table.lengths());
}

}  // namespace shardc::verify
