#include "attention_cases.h"
#include "floats/convert.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <vector>

#include "exec/kernels/arithmetic.h"
#include "exec/kernels/kernels.h"
#include "exec/machine/random.h"
#include "exec/machine/sharded.h"
#include "exec/operations/operation.h"
#include "floor.h"

namespace shardc::bench {
namespace {

constexpr int64_t kHeads = 8;
constexpr int64_t kDim = 128;

size_t Size(int64_t x) { return static_cast<size_t>(x); }

std::vector<float> Values(int64_t count, uint64_t seed) {
  const exec::Random random(seed);
  std::vector<float> out(Size(count));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(random.Uniform(i) * 2 - 1);
  }
  return out;
}

constexpr std::align_val_t kPage{2 << 20};

// Vectors in huge pages, so that timings do not depend on how the kernel places
// small pages.
template <class T>
struct Aligned {
  using value_type = T;
  Aligned() = default;
  template <class U>
  explicit Aligned(const Aligned<U>&) {}
  T* allocate(size_t n) {
    void* const p = ::operator new(n * sizeof(T), kPage);
    if (n * sizeof(T) >= static_cast<size_t>(kPage)) {
      madvise(p, n * sizeof(T), MADV_HUGEPAGE);
    }
    return static_cast<T*>(p);
  }
  void deallocate(T* p, size_t) { ::operator delete(p, kPage); }
  bool operator==(const Aligned&) const { return true; }
};
template <class T>
using Line = std::vector<T, Aligned<T>>;

// An array [rows, heads, dim] of some dtype; int8 has scales.
struct Tensor {
  Line<float> wide;
  Line<uint16_t> half;
  Line<int8_t> narrow;
  std::vector<float> scale;  // [rows, heads]

  Tensor(int64_t rows, Dtype dtype, uint64_t seed) {
    const std::vector<float> values = Values(rows * kHeads * kDim, seed);
    wide.assign(values.begin(), values.end());
    if (dtype == Dtype::kBF16) {
      half.resize(wide.size());
      F32ToBf16(wide, half);
    }
    if (dtype == Dtype::kF16) {
      half.resize(wide.size());
      F32ToF16(wide, half);
    }
    if (dtype == Dtype::kI8) {
      narrow.resize(wide.size());
      for (size_t i = 0; i < wide.size(); i += kDim) {
        scale.push_back(exec::QuantizeInt8(std::span(wide).subspan(i, kDim),
                                           std::span(narrow).subspan(i, kDim)));
      }
    }
    if (dtype != Dtype::kF32) Line<float>().swap(wide);
  }

  const void* Head(int64_t h) const {
    if (!half.empty()) return half.data() + h * kDim;
    if (!narrow.empty()) return narrow.data() + h * kDim;
    return wide.data() + h * kDim;
  }
  size_t Bytes() const {
    return wide.size() * 4 + half.size() * 2 + narrow.size();
  }
};

std::optional<Dtype> DtypeOf(const std::string& name) {
  if (name == "f32") return Dtype::kF32;
  if (name == "bf16") return Dtype::kBF16;
  if (name == "f16") return Dtype::kF16;
  if (name == "int8") return Dtype::kI8;
  return std::nullopt;
}

// Attention of all heads of one sequence, with its inputs and output.
struct Attention {
  Tensor query, key, value;
  std::vector<int32_t> end;
  std::vector<float> max, sum, raw, out;
  std::vector<exec::AttentionSlice> slices;
  std::vector<exec::AttentionState> states;
  exec::Scratch scratch;

  Attention(int64_t rows, int64_t keys, Dtype dtype, bool causal)
      : query(rows, dtype == Dtype::kI8 ? Dtype::kF32 : dtype, 1),
        key(keys, dtype, 2),
        value(keys, dtype, 3),
        max(Size(rows * kHeads)),
        sum(max.size()),
        raw(max.size() * kDim),
        out(raw.size()) {
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t seen = causal ? keys - rows + t + 1 : keys;
      end.push_back(static_cast<int32_t>(seen));
    }
    for (int64_t h = 0; h < kHeads; ++h) {
      exec::AttentionSlice s;
      s.query_rows = rows;
      s.key_rows = keys;
      s.head_dim = s.value_dim = kDim;
      s.query = query.Head(h);
      s.query_dtype = dtype == Dtype::kI8 ? Dtype::kF32 : dtype;
      s.key = key.Head(h);
      s.value = value.Head(h);
      s.kv_dtype = dtype;
      s.query_row_stride = s.key_row_stride = s.value_row_stride =
          kHeads * kDim;
      if (dtype == Dtype::kI8) {
        s.key_scale = key.scale.data() + h;
        s.value_scale = value.scale.data() + h;
        s.scale_stride = kHeads;
      }
      s.scale = 1 / std::sqrt(static_cast<float>(kDim));
      s.end = end.data();
      slices.push_back(s);
      states.push_back({max.data() + h * rows, sum.data() + h * rows,
                        raw.data() + h * rows * kDim});
    }
  }

  void Clear(size_t h) { ClearState(slices[h], states[h]); }
  void Finish(size_t h) {
    FinishAttention(slices[h], states[h], nullptr, out.data() + h * kDim, 0,
                    kHeads * kDim, nullptr);
  }
  // Head by head, so that the accumulated output stays in the cache.
  void Prefill() {
    for (size_t h = 0; h < slices.size(); ++h) {
      Clear(h);
      PrefillAttention(slices[h], states[h], scratch);
      Finish(h);
    }
  }
  void Decode() {
    for (size_t h = 0; h < slices.size(); ++h) Clear(h);
    DecodeAttention(slices, states, scratch);
    for (size_t h = 0; h < slices.size(); ++h) Finish(h);
  }
};

TimedCase PrefillCase(int64_t rows, bool causal, Dtype dtype) {
  auto a = std::make_shared<Attention>(rows, rows, dtype, causal);
  double pairs = 0;
  for (const int32_t end : a->end) pairs += end;
  return {[a] { a->Prefill(); }, 4 * pairs * kDim * kHeads};
}

// Returns the number of caches that a case uses in turn, one per call, as the
// layers of a model do. Together they are larger than the processor's caches,
// so that a call reads from memory.
int64_t LayersOf(double bytes) {
  constexpr double kTogether = 256 << 20;
  return std::max<int64_t>(1, static_cast<int64_t>(kTogether / bytes));
}

TimedCase DecodeCase(int64_t keys, Dtype dtype, bool turns) {
  auto layers = std::make_shared<std::vector<std::unique_ptr<Attention>>>();
  const auto add = [&] {
    layers->push_back(std::make_unique<Attention>(1, keys, dtype, false));
  };
  add();
  const Attention& first = *layers->front();
  const auto bytes =
      static_cast<double>(first.key.Bytes() + first.value.Bytes());
  for (int64_t i = LayersOf(bytes); turns && i > 1; --i) add();
  return {[layers, next = size_t{0}]() mutable {
            (*layers)[next++ % layers->size()]->Decode();
          },
          bytes};
}

// Reads buffers of the same size as the caches of DecodeCase.
TimedCase ReadCase(int64_t keys, Dtype dtype, bool turns) {
  struct Layer {
    Tensor key, value;
  };
  auto layers = std::make_shared<std::vector<Layer>>();
  const auto add = [&] {
    layers->push_back({Tensor(keys, dtype, 2), Tensor(keys, dtype, 3)});
  };
  add();
  const auto bytes = static_cast<double>(layers->front().key.Bytes() +
                                         layers->front().value.Bytes());
  for (int64_t i = LayersOf(bytes); turns && i > 1; --i) add();
  return {[layers, next = size_t{0}]() mutable {
            const Layer& layer = (*layers)[next++ % layers->size()];
            volatile uint64_t keep =
                ReadAll(layer.key.Head(0), layer.key.Bytes());
            keep = ReadAll(layer.value.Head(0), layer.value.Bytes());
            static_cast<void>(keep);
          },
          bytes};
}

TimedCase MeshCase(int64_t devices, int64_t rows) {
  auto problem = std::make_shared<exec::AttentionProblem>();
  const auto make = [&](uint64_t seed) {
    exec::Buffer x = exec::Buffer::Zeros({1, rows, kHeads, kDim}, Dtype::kF32);
    x.real = Values(x.Elements(), seed);
    return x;
  };
  problem->query = make(1);
  problem->key = make(2);
  problem->value = make(3);
  problem->options.causal = true;
  Mesh mesh;
  mesh.axes = {{"tp", devices, AxisType::kAuto}};
  mesh.devices = devices;
  const Spec spec = {{}, {}, {"tp"}, {}};
  exec::AttentionSpecs specs;
  specs.query = specs.key = specs.value = specs.output = spec;
  return {[problem, mesh, specs] {
            const exec::SimMesh sim(mesh);
            exec::Machine machine(sim);
            const exec::OperationOutcome outcome = exec::kFlashAttention.run(
                machine, *problem, specs, exec::OperationSettings());
            if (outcome.unsupported) std::abort();
          },
          2.0 * static_cast<double>(rows * (rows + 1)) * kDim * kHeads};
}

TimedCase PeakCase() {
  constexpr int64_t kRounds = 1000000;
  return {[] { SpinFma(kRounds); }, SpinFma(1) * kRounds};
}

std::optional<TimedCase> Make(const std::string& name) {
  std::istringstream words(name);
  std::string kind, mask, type;
  int64_t a = 0;
  int64_t b = 0;
  words >> kind;
  if (kind == "peak") return PeakCase();
  if (kind == "prefill" && words >> a >> mask >> type && DtypeOf(type)) {
    return PrefillCase(a, mask == "causal", *DtypeOf(type));
  }
  if ((kind == "decode" || kind == "read") && words >> a >> type &&
      DtypeOf(type)) {
    std::string again;
    const bool turns = !(words >> again);
    return kind == "decode" ? DecodeCase(a, *DtypeOf(type), turns)
                            : ReadCase(a, *DtypeOf(type), turns);
  }
  if (kind == "mesh" && words >> a >> b) return MeshCase(a, b);
  return std::nullopt;
}

}  // namespace

const TimedCase* AttentionCases::Find(const std::string& name) {
  const auto known = cases_.find(name);
  if (known != cases_.end()) return &known->second;
  auto made = Make(name);
  if (!made) return nullptr;
  return &cases_.emplace(name, std::move(*made)).first->second;
}

}  // namespace shardc::bench
