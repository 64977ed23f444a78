// A random case is a function of seed and index, so a failure can name its
// case. Axes are assigned to dimensions as the operation allows, and then sizes
// are chosen that these axes usually divide. Some cases must be refused.
//
//   heads over tp 4, key parts 4, group 2  ->  8 heads, 4 key heads
#include "verify/cases/random_cases.h"

#include <algorithm>
#include <utility>

#include "exec/machine/random.h"
#include "model/manifest.h"
#include "verify/cases/grid.h"

namespace shardc::verify {
namespace {

using exec::RandomSequence;

template <class T>
const T& Pick(RandomSequence& random, const std::vector<T>& from) {
  return from[random.Below(from.size())];
}

int64_t PartsOf(const Mesh& mesh, const AxisGroup& axes) {
  return mesh.Parts(axes).value_or(1);
}

// Returns a mesh of up to 16 devices with axes for batch, sequence and heads
// (two).
Mesh PickMesh(RandomSequence& random) {
  while (true) {
    std::vector<std::pair<std::string, int64_t>> axes;
    int64_t total = 1;
    for (const char* name : {"dp", "fsdp", "sp", "tp", "tq"}) {
      const int64_t size =
          Pick(random, std::vector<int64_t>{1, 1, 2, 2, 4, 3, 8});
      if (total * size > 16) continue;
      total *= size;
      axes.emplace_back(name, size);
    }
    // Shuffle the axes, because their order is part of the mesh.
    for (size_t i = axes.size(); i > 1; --i) {
      std::swap(axes[i - 1], axes[random.Below(i)]);
    }
    if (total > 1) return MeshOf(axes);
  }
}

bool Has(const Mesh& mesh, const std::string& axis) {
  return std::any_of(mesh.axes.begin(), mesh.axes.end(),
                     [&](const MeshAxis& a) { return a.name == axis; });
}

AxisGroup Some(RandomSequence& random, const Mesh& mesh,
               std::vector<std::string> names) {
  AxisGroup out;
  for (size_t i = names.size(); i > 1; --i) {
    std::swap(names[i - 1], names[random.Below(i)]);
  }
  for (const std::string& name : names) {
    if (Has(mesh, name) && random.Chance(0.8)) out.push_back(name);
  }
  return out;
}

// Chooses head counts that the axes divide, with groups of 1, 2, 4 or 8.
void PickHeads(RandomSequence& random, Case& test, const Assignment& axes) {
  const int64_t head_parts = PartsOf(test.mesh, axes.heads);
  const int64_t key_parts = PartsOf(test.mesh, axes.key_heads);
  int64_t group = Pick(random, std::vector<int64_t>{1, 2, 4, 8});
  int64_t keys = key_parts * Pick(random, std::vector<int64_t>{1, 1, 2});
  int64_t heads = keys * group;
  if (heads % head_parts != 0) heads *= head_parts;
  while (heads > 32 && keys > key_parts) {
    keys = key_parts;
    heads = std::max(keys, head_parts);
    if (heads % keys != 0) heads = keys * head_parts;
  }
  test.sizes.heads = heads;
  test.sizes.key_heads = keys;
}

void PickFeatures(RandomSequence& random, Case& test) {
  Features& f = test.features;
  const bool packed = test.layout == Layout::kThd;
  f.causal = random.Chance(0.6);
  if (random.Chance(0.3)) {
    f.window = 1 + static_cast<int64_t>(random.Below(
                       static_cast<uint64_t>(test.sizes.key_length)));
    if (random.Chance(0.3)) f.window_right = 2;
  }
  if (random.Chance(0.2)) f.soft_cap = 5;
  f.bias = !packed && random.Chance(0.25);
  f.bias_by_head = f.bias && random.Chance(0.5);
  f.mask = random.Chance(0.2);
  f.additive_mask = !f.mask && random.Chance(0.15);
  f.segments = !packed && random.Chance(0.2);
  if (random.Chance(0.25)) f.sinks_rank = random.Chance(0.5) ? 1 : 2;
  f.ragged = random.Chance(0.3);
  f.left_padding = !packed && random.Chance(0.15);
  f.masked_row = test.sizes.query_length > 1 && random.Chance(0.15);
  if (random.Chance(0.1)) f.dropout = 0.25;
  f.large_logits = test.dtype == Dtype::kF32 && random.Chance(0.15);
  if (random.Chance(0.2)) f.scale = 0.37;
  if (test.operation->IsPaged()) {
    f.causal = true;
    f.bias = f.bias_by_head = f.mask = f.additive_mask = f.masked_row = false;
    f.segments = f.left_padding = false;
    f.dropout = 0;
    const bool by_key = test.operation->Takes(exec::Input::kSinksByKeyHead);
    if (!by_key && f.sinks_rank == 2) f.sinks_rank = 1;
  }
  f.custom_blocks = test.operation->Takes(exec::Input::kBlockTable) &&
                    test.settings.block_mask == exec::BlockMask::kCustom;
}

// Adds a head axis to the axes of the lengths, before or after them, and lets
// one of these axes or both form a ring.
void PickRing(uint64_t seed, uint64_t index, Case& test, Assignment& axes) {
  RandomSequence random(exec::Random(seed).Split(index).Split("ring"));
  if (!random.Chance(0.6)) return;
  const bool wide = !axes.heads.empty() && random.Chance(0.8);
  if (wide) {
    const std::string moved = axes.heads.back();
    axes.heads.pop_back();
    axes.key_heads = axes.heads;
    axes.key_length.insert(
        random.Chance(0.5) ? axes.key_length.begin() : axes.key_length.end(),
        moved);
    axes.query_length = axes.key_length;
  }
  for (const std::string& axis : axes.key_length) {
    if (random.Chance(0.5)) test.settings.ring_axes.push_back(axis);
  }
}

// Chooses dtypes of cache and computation that may differ, and narrow softmax
// and quantised matmul, if the operation supports them.
void PickArithmetic(exec::Random numbers, Case& test) {
  RandomSequence random(numbers);
  const std::vector<Dtype> real = {Dtype::kF32, Dtype::kBF16, Dtype::kF16};
  if (random.Chance(0.2)) test.kv_dtype = Pick(random, real);
  if (random.Chance(0.1)) test.settings.runtime_dtype = Pick(random, real);
  const exec::Operation& operation = *test.operation;
  if (operation.pages && random.Chance(0.3)) test.kv_dtype = Dtype::kI8;
  if (operation.narrow_softmax && random.Chance(0.25)) {
    test.settings.softmax_dtype = Pick(random, real);
  }
  if (operation.Takes(Setting::kDotBits) && random.Chance(0.25)) {
    test.settings.dot_bits = random.Chance(0.6) ? 8 : 4;
  }
}

}  // namespace

Case RandomCase(uint64_t seed, uint64_t index) {
  RandomSequence random(exec::Random(seed).Split(index));
  Case test;
  test.seed = seed * 1000003 + index;
  const auto operations = exec::Operations();
  test.operation = operations[random.Below(operations.size())];
  const exec::Operation& operation = *test.operation;
  test.mesh = PickMesh(random);
  test.layout = Pick(random, std::vector<Layout>{Layout::kBthd, Layout::kBthd,
                                                 Layout::kBhtd, Layout::kThd});
  test.dtype =
      Pick(random, std::vector<Dtype>{Dtype::kF32, Dtype::kBF16, Dtype::kF16});
  test.mode = Pick(
      random, std::vector<Mode>{Mode::kTrain, Mode::kPrefill, Mode::kDecode});
  const bool decode = operation.decode_only || (test.mode == Mode::kDecode &&
                                                !operation.equal_length_axes);
  if (decode) test.mode = Mode::kDecode;
  if (!decode && test.mode == Mode::kDecode) test.mode = Mode::kPrefill;
  if (operation.decode_only && test.layout == Layout::kThd) {
    test.layout = Layout::kBthd;
  }

  Assignment axes;
  axes.batch = Some(random, test.mesh, {"dp", "fsdp"});
  axes.key_length = Some(random, test.mesh, {"sp"});
  if (!decode) axes.query_length = axes.key_length;
  axes.heads = Some(random, test.mesh, {"tp", "tq"});
  axes.key_heads = axes.heads;
  if (operation.global_view) {
    // The global view supports every legal layout.
    const double kind = random.Uniform();
    if (kind < 0.3) axes.key_heads.clear();
    if (kind >= 0.3 && kind < 0.5 && !axes.key_heads.empty()) {
      axes.key_heads.pop_back();
    }
    if (kind >= 0.5 && kind < 0.6) {
      std::reverse(axes.key_heads.begin(), axes.key_heads.end());
    }
    if (random.Chance(0.3)) axes.query_length.clear();
  }
  if (operation.adds_logits && random.Chance(0.25)) {
    // The axes of the heads shard the head dimension instead.
    axes.dim = axes.heads;
    axes.heads.clear();
    axes.key_heads.clear();
    if (random.Chance(0.5)) axes.value_dim = axes.dim;
  }
  if (operation.context_parallel && axes.dim.empty() && random.Chance(0.2)) {
    // Decode context parallelism: the last axis of the heads shards the key
    // length too.
    if (!axes.heads.empty()) {
      axes.key_length = {axes.heads.back()};
      axes.key_heads = {axes.heads.begin(), axes.heads.end() - 1};
    }
  }

  if (operation.IsPaged()) {
    // The queries of a request and all packed tokens are unsharded.
    axes.query_length.clear();
    if (!operation.latent || test.layout == Layout::kThd) {
      axes.key_length.clear();
    }
    if (test.layout == Layout::kThd) axes.batch.clear();
    test.settings.page_size = Pick(random, std::vector<int64_t>{1, 2, 3, 16});
  }

  if (operation.Takes(Setting::kRingAxes)) PickRing(seed, index, test, axes);

  Sizes& n = test.sizes;
  n.batch =
      PartsOf(test.mesh, axes.batch) * Pick(random, std::vector<int64_t>{1, 2});
  const int64_t parts = PartsOf(test.mesh, axes.key_length);
  const int64_t unit = parts * 2 * Pick(random, std::vector<int64_t>{1, 2, 3});
  n.key_length = std::max<int64_t>(unit, 4);
  if (n.key_length % (2 * parts) != 0) n.key_length = 4 * parts;
  n.query_length = n.key_length;
  if (decode) n.query_length = 1;
  if (test.mode == Mode::kPrefill && !decode && random.Chance(0.5)) {
    n.key_length *= 2;
  }
  n.head_dim = Pick(random, std::vector<int64_t>{4, 8, 16, 20});
  const int64_t dim_parts = PartsOf(test.mesh, axes.dim);
  if (n.head_dim % dim_parts != 0) n.head_dim = 4 * dim_parts;
  if (operation.IsPaged()) {
    if (random.Chance(0.3) && 64 % dim_parts == 0) n.head_dim = 64;
  } else if (random.Chance(0.2)) {
    n.value_dim = n.head_dim * 2;
  }
  PickHeads(random, test, axes);
  if (operation.latent) n.key_heads = n.heads;
  if (operation.exchanges_heads) {
    // Batch and length axes together shard packed tokens.
    const int64_t ranks = test.layout == Layout::kThd
                              ? parts * PartsOf(test.mesh, axes.batch)
                              : parts;
    const int64_t heads = PartsOf(test.mesh, axes.heads);
    const int64_t keys = Pick(random, std::vector<int64_t>{1, ranks});
    n.key_heads = heads * keys;
    n.heads = heads * ranks * Pick(random, std::vector<int64_t>{1, 2});
    if (n.heads % n.key_heads != 0) n.heads = n.key_heads;
  }

  exec::OperationSettings& s = test.settings;
  s.blocksize_q = Pick(random, std::vector<int64_t>{2, 3, 8, 512});
  s.blocksize_k = Pick(random, std::vector<int64_t>{2, 3, 8, 512});
  if (operation.Takes(Setting::kOrder)) {
    s.order = Pick(random, std::vector<exec::SequenceOrder>{
                               exec::SequenceOrder::kContiguous,
                               exec::SequenceOrder::kZigZag,
                               exec::SequenceOrder::kStriped});
  }
  if (operation.Takes(Setting::kMerge) && random.Chance(0.4)) {
    s.merge = exec::DecodeMerge::kAllGather;
  }
  if (operation.Takes(Setting::kBlockMask)) {
    s.block_mask =
        Pick(random, std::vector<exec::BlockMask>{
                         exec::BlockMask::kCausal, exec::BlockMask::kSliding,
                         exec::BlockMask::kGlobal, exec::BlockMask::kCustom});
  }
  PickFeatures(random, test);
  test.specs =
      SpecsFor(test.layout, axes, test.features.sinks_rank, random.Chance(0.4));
  PickArithmetic(exec::Random(seed).Split(index).Split("arithmetic"), test);
  return test;
}

std::string CaseText(const Case& test) {
  std::string out(test.operation->name);
  out += ' ';
  out += ModeName(test.mode);
  out += ' ';
  out += LayoutName(test.layout);
  out += ' ';
  out += DtypeName(test.dtype);
  if (test.kv_dtype) out += " kv=" + std::string(DtypeName(*test.kv_dtype));
  if (test.settings.runtime_dtype) {
    out += " in=" + std::string(DtypeName(*test.settings.runtime_dtype));
  }
  for (const std::string& axis : test.settings.ring_axes) {
    out += " ring=" + axis;
  }
  if (test.settings.softmax_dtype != Dtype::kF32) {
    out += " softmax=" + std::string(DtypeName(test.settings.softmax_dtype));
  }
  if (test.settings.dot_bits > 0) {
    out += " bits=" + std::to_string(test.settings.dot_bits);
  }
  for (const MeshAxis& axis : test.mesh.axes) {
    out += ' ' + axis.name + '=' + std::to_string(axis.size);
  }
  const Sizes& n = test.sizes;
  out += " B" + std::to_string(n.batch) + " T" +
         std::to_string(n.query_length) + " S" + std::to_string(n.key_length) +
         " H" + std::to_string(n.heads) + " K" + std::to_string(n.key_heads) +
         " D" + std::to_string(n.head_dim);
  const Features& f = test.features;
  if (f.causal) out += " causal";
  if (f.window) out += " window=" + std::to_string(*f.window);
  if (f.soft_cap > 0) out += " cap";
  if (f.bias) out += f.bias_by_head ? " bias-by-head" : " bias";
  if (f.mask) out += " mask";
  if (f.additive_mask) out += " additive-mask";
  if (f.segments) out += " segments";
  if (f.sinks_rank > 0) out += " sinks" + std::to_string(f.sinks_rank);
  if (f.ragged) out += " ragged";
  if (f.left_padding) out += " left-padding";
  if (f.masked_row) out += " masked-row";
  if (f.dropout > 0) out += " dropout";
  if (f.large_logits) out += " large-logits";
  out += " q=" + SpecText(test.specs.query) + " k=" + SpecText(test.specs.key);
  return out;
}

}  // namespace shardc::verify
