// Builds the matrix, which is the list of all cases of a request. Every
// operation is run in every requested dtype, and in the requested modes and
// layouts to which it applies. For each requested feature, such as attention
// sinks, all cases are added once more with this feature. For example:
//
//   vanilla: 4 modes, 3 layouts, 3 dtypes  ->  36 cases, 72 with `sinks`
//
// Each case has its own test data. Sizes are reduced to the smallest that keep
// the effect of the shardings (reduced_sizes.h). The mesh is reduced too.
#include "verify/cases/matrix.h"

#include <algorithm>
#include <utility>

#include "exec/machine/random.h"
#include "legalize/legalize.h"
#include "model/mesh_layout.h"
#include "resolve/resolve.h"
#include "source/list.h"
#include "verify/cases/case.h"
#include "verify/cases/problem_data.h"
#include "verify/cases/reduced_sizes.h"

namespace shardc::verify {
namespace {

// Finds into how many shards a request's layouts split each dimension. These
// numbers must divide a reduced size if and only if they divide the real size.
// The axis rules are resolved for each mode. Each list of axes in a spec is one
// way to split a dimension, and adds one number of shards.
//
// In the packed layout thd, batch and length are one dimension of tokens, which
// the axes of the batch shard. The operation ulysses then exchanges shards of
// tokens for shards of heads over these axes. For example, 32 heads over tp 4
// and the batch over dp 2 lead to these numbers:
//
//   bthd  batch in 2 shards, query and key heads in 4
//   thd   tokens in 2 shards; dp divides the 8 heads of a device by 2

// The numbers of shards of query, key, bias and mask in every mode and layout
// that runs, and in the prefill of a cache. A policy may remove axes that do
// not divide a dimension. The numbers over the remaining axes are then
// included.
struct MeshSplits {
  // The numbers of shards on the given mesh and on the mesh on which the cases
  // run. Entries with the same index belong to the same axes.
  Splits given, used;
};

// The numbers of shards over one list of axes: on the given mesh, and on the
// mesh on which the cases run.
struct Parts {
  int64_t given = 1, used = 1;
  bool operator==(const Parts&) const = default;
};

// Appends `given` and `used` to the two lists, unless the lists already have
// this pair at a common index.
template <class T>
void AddPair(std::vector<T>& to_given, std::vector<T>& to_used, T given,
             T used) {
  for (size_t i = 0; i < to_given.size(); ++i) {
    if (to_given[i] == given && to_used[i] == used) return;
  }
  to_given.push_back(std::move(given));
  to_used.push_back(std::move(used));
}

AxisGroup Without(const AxisGroup& axes, const AxisGroup& taken) {
  AxisGroup out = axes;
  std::erase_if(out,
                [&](const std::string& axis) { return IsAmong(axis, taken); });
  return out;
}

class Splitter {
 public:
  Splitter(const Request& request, const Resolver& resolver, const Mesh& given,
           const Mesh& used)
      : request_(request), resolver_(resolver), mesh_(given), used_(used) {
    for (const Feature feature : request.more) {
      masks_ = masks_ || feature == Feature::kBias ||
               feature == Feature::kBiasByHead || feature == Feature::kMask ||
               feature == Feature::kAdditiveMask ||
               feature == Feature::kMaskedRow;
    }
    const Features& f = request.features;
    masks_ = masks_ || f.bias || f.mask || f.additive_mask || f.masked_row;
  }

  MeshSplits Run() {
    const auto& layouts = request_.layouts;
    const bool packed = IsAmong(Layout::kThd, layouts);
    const bool rows = !packed || layouts.size() > 1;
    for (const Mode mode : request_.modes) {
      if (rows || IsGeneration(mode)) Add(mode, Layout::kBthd);
      if (packed) Add(mode, Layout::kThd);
    }
    // Decoding reads a cache that is first written in the layout of prefill.
    // The shards of that layout must therefore be added as well.
    const bool caches = std::any_of(
        request_.operations.begin(), request_.operations.end(),
        [](const auto* o) { return o->trace == exec::StateTrace::kCache; });
    if (caches && std::any_of(request_.modes.begin(), request_.modes.end(),
                              IsGeneration)) {
      Add(Mode::kPrefill, Layout::kBthd);
    }
    return std::move(out_);
  }

 private:
  // Returns the possible numbers of shards of a dimension with these axes. The
  // first is the number over all axes. A policy may drop the axes if they do
  // not divide the dimension; then one shard is also possible. A policy may
  // instead shorten the list of axes; then the number over each prefix is also
  // possible.
  std::vector<Parts> PartsOf(const AxisGroup& axes) const {
    std::vector<Parts> out{Count(axes)};
    if (request_.illegal == IllegalPolicy::kDrop) AddOnce(out, Parts{});
    if (request_.illegal != IllegalPolicy::kShrink) return out;
    AxisGroup begin = axes;
    while (!begin.empty()) {
      begin.pop_back();
      AddOnce(out, Count(begin));
    }
    return out;
  }

  Parts Count(const AxisGroup& axes) const {
    return {mesh_.Parts(axes).value_or(1), used_.Parts(axes).value_or(1)};
  }

  void AddParts(const AxisGroup& axes, std::vector<int64_t> Splits::*to) {
    for (const Parts& n : PartsOf(axes)) {
      AddPair(out_.given.*to, out_.used.*to, n.given, n.used);
    }
  }

  void AddHeads(const AxisGroup& query, const AxisGroup& key) {
    for (const Parts& a : PartsOf(query)) {
      for (const Parts& c : PartsOf(key)) {
        AddPair(out_.given.heads, out_.used.heads, std::pair(a.given, c.given),
                std::pair(a.used, c.used));
      }
    }
  }

  void Add(Mode mode, Layout layout) {
    Case test;
    test.mode = mode;
    test.layout = layout;
    test.mesh = mesh_;
    test.sizes = request_.sizes;
    exec::AttentionSpecs specs =
        ResolveSpecs(resolver_, test, IllegalPolicy::kError);
    const exec::TensorSharding query =
        exec::InBthd(Shape(Rank(layout)), specs.query, layout);
    const exec::TensorSharding key =
        exec::InBthd(Shape(Rank(layout)), specs.key, layout);
    for (const Spec* spec : {&query.spec, &key.spec}) {
      if (layout == Layout::kThd) {
        AddParts((*spec)[1], &Splits::tokens);
      } else {
        AddParts((*spec)[0], &Splits::batch);
        AddParts((*spec)[1], &Splits::length);
      }
      AddParts((*spec)[3], &Splits::dim);
    }
    AddHeads(query.spec[2], key.spec[2]);
    if (masks_) AddMasks(specs, layout);
    for (const exec::Operation* operation : request_.operations) {
      AddOperation(*operation, query.spec, key.spec);
    }
  }

  static size_t Rank(Layout layout) { return layout == Layout::kThd ? 3 : 4; }

  // Adds the splits of masks, which are [batch, heads, query length, key
  // length] in every layout.
  void AddMasks(const exec::AttentionSpecs& specs, Layout layout) {
    const auto lengths =
        layout == Layout::kThd ? &Splits::tokens : &Splits::length;
    for (const Spec& given : {specs.bias, specs.mask}) {
      const Spec spec = exec::PadSpec(given, 4);
      if (layout != Layout::kThd) AddParts(spec[0], &Splits::batch);
      AddHeads(spec[1], {});
      AddParts(spec[2], lengths);
      AddParts(spec[3], lengths);
    }
  }

  void AddOperation(const exec::Operation& operation, const Spec& query,
                    const Spec& key) {
    // The operations ring and blocksparse shard key heads over the query's head
    // axes.
    if (operation.heads_on_keys) AddHeads(query[2], query[2]);
    // The operation ulysses divides a device's heads over the axes of the
    // length. It keeps the length sharded over `ring_axes`, so these axes
    // divide no heads.
    if (operation.exchanges_heads) {
      const auto& ring = request_.RecordOf(operation).ring_axes;
      const AxisGroup lengths = Without(query[1], ring.value_or(AxisGroup{}));
      for (const Parts& n : PartsOf(lengths)) {
        if (n.given > 1) AddExchange(query[2], key[2], n);
      }
    }
    // In context parallelism, the query's heads are gathered over the axes that
    // also shard the key length.
    if (operation.context_parallel) AddHeads(Without(query[2], key[1]), key[2]);
    if (operation.pages &&
        operation.pages->format == exec::PageFormat::kPacked) {
      for (const Parts& n : PartsOf(query[2])) AddWords(n);
    }
  }

  void AddExchange(const AxisGroup& query, const AxisGroup& key,
                   const Parts& n) {
    for (const Parts& a : PartsOf(query)) {
      for (const Parts& c : PartsOf(key)) {
        AddPair(
            out_.given.exchanges, out_.used.exchanges,
            Splits::Exchange{
                .heads = a.given, .keys = c.given, .parts = n.given},
            Splits::Exchange{.heads = a.used, .keys = c.used, .parts = n.used});
      }
    }
  }

  void AddWords(const Parts& n) {
    for (const Dtype dtype : request_.dtypes) {
      const Dtype stored = request_.kv_dtype.value_or(dtype);
      const int64_t heads = 32 / DtypeBits(stored);
      AddPair(out_.given.words, out_.used.words, std::pair(n.given, heads),
              std::pair(n.used, heads));
    }
  }

  const Request& request_;
  const Resolver& resolver_;
  const Mesh& mesh_;
  const Mesh& used_;
  bool masks_ = false;
  MeshSplits out_;
};

// Returns the numbers of shards. `resolver` must be made for the mesh `given`.
MeshSplits SplitsOf(const Request& request, const Resolver& resolver,
                    const Mesh& given, const Mesh& used) {
  return Splitter(request, resolver, given, used).Run();
}

Spec Corrected(const Mesh& mesh, Spec spec, const Shape& shape,
               IllegalPolicy illegal) {
  if (illegal == IllegalPolicy::kError) return spec;
  LegalizeOptions options;
  options.illegal = illegal;
  Legal legal = Legalize(spec, shape, mesh, options);
  return legal.problems.empty() ? std::move(legal.spec) : spec;
}

}  // namespace

int64_t PartsOf(const Mesh& mesh, const Spec& spec, size_t dim) {
  return dim < spec.size() ? mesh.Parts(spec[dim]).value_or(1) : 1;
}

Sizes SizesOfMode(const Sizes& sizes, Mode mode) {
  Sizes out = sizes;
  if (IsGeneration(mode)) out.query_length = 1;
  return out;
}

const SettingsRecord& Request::RecordOf(
    const exec::Operation& operation) const {
  static const SettingsRecord kNothing;
  for (const auto& [name, record] : records) {
    if (name == operation.name) return record;
  }
  return kNothing;
}

const std::vector<Mode>* Request::OnlyModes(
    const exec::Operation& operation) const {
  for (const auto& [one, its_modes] : only) {
    if (one == &operation) return &its_modes;
  }
  return nullptr;
}

bool Request::Covers(const exec::Operation& operation, Mode mode) const {
  const std::vector<Mode>* own = OnlyModes(operation);
  return own == nullptr || IsAmong(mode, *own);
}

bool Applies(const exec::Operation& operation, Mode mode, Layout layout) {
  if (!operation.decode_only) return true;
  return IsGeneration(mode) && layout != Layout::kThd;
}

exec::AttentionSpecs ResolveSpecs(const Resolver& resolver, const Case& test,
                                  IllegalPolicy illegal) {
  AttentionOptions options;
  options.layout = test.layout;
  options.mni = test.operation != nullptr && test.operation->heads_on_keys;
  if (test.features.sinks_rank > 0) {
    options.softmax_aux_rank = test.features.sinks_rank;
  }
  const Sizes& n = test.sizes;
  const bool packed = test.layout == Layout::kThd;
  const auto in_layout = [&](int64_t length, int64_t heads, int64_t dim) {
    return ShapeIn(test.layout, n.batch, length, heads, dim);
  };
  // The shape [batch, queries, keys] of a mask. Packed tokens are one batch
  // row.
  const Shape rows =
      packed ? Shape{1, n.batch * n.query_length, n.batch * n.key_length}
             : Shape{n.batch, n.query_length, n.key_length};
  const size_t heads_dim = test.layout == Layout::kBthd ? 2 : 1;
  exec::AttentionSpecs out;
  for (const AttentionTensor& tensor :
       AttentionSpecs(resolver, test.mode, options)) {
    const std::string_view name = tensor.name;
    Spec spec = RefinedSpec(test.mesh, tensor.resolved.spec);
    // A refined mesh replicates KV heads (`kv_replicate`).
    if (IsRefined(test.mesh) && (name == "key" || name == "value") &&
        spec.size() > heads_dim) {
      const auto axes = KvHeadAxes(test.mesh, spec[heads_dim], n.key_heads);
      if (axes) spec[heads_dim] = *axes;
    }
    const auto corrected = [&](const Shape& shape) {
      return Corrected(test.mesh, spec, shape, illegal);
    };
    if (name == "query") {
      out.query = corrected(in_layout(n.query_length, n.heads, n.head_dim));
    } else if (name == "key") {
      out.key = corrected(in_layout(n.key_length, n.key_heads, n.head_dim));
    } else if (name == "value") {
      out.value = corrected(in_layout(n.key_length, n.key_heads, n.ValueDim()));
    } else if (name == "output") {
      out.output = corrected(in_layout(n.query_length, n.heads, n.ValueDim()));
    } else if (name == "bias") {
      out.bias = corrected({rows[0], n.heads, rows[1], rows[2]});
    } else if (name == "mask") {
      out.mask = corrected({rows[0], 1, rows[1], rows[2]});
    } else if (name == "q_segment_ids") {
      out.query_segments = packed
                               ? Spec{{}, spec.empty() ? AxisGroup{} : spec[0]}
                               : corrected({n.batch, n.query_length});
    } else if (name == "kv_segment_ids") {
      out.key_segments = packed ? Spec{{}, spec.empty() ? AxisGroup{} : spec[0]}
                                : corrected({n.batch, n.key_length});
    } else if (name == "softmax_aux") {
      out.softmax_aux = spec;
    }
  }
  if (test.operation != nullptr && test.operation->latent) {
    // A latent has no heads, so the head axes of key and value are removed.
    for (Spec* spec : {&out.key, &out.value}) {
      if (spec->size() > heads_dim) (*spec)[heads_dim].clear();
    }
  }
  return out;
}

namespace {

class Builder {
 public:
  Builder(const Request& request, const Resolver& resolver, const Mesh& mesh,
          const SmallMesh* small)
      : request_(request), resolver_(resolver), mesh_(mesh) {
    out_.given = request.sizes;
    if (request.full) small = nullptr;
    if (!small || !Reduce(small->resolver, small->mesh)) {
      Reduce(resolver, mesh);
    }
    out_.used = request.full ? request.sizes : out_.least;
    out_.reduced = !(out_.used == out_.given) || used_mesh_ != &mesh;
    out_.given_mesh = mesh;
    out_.used_mesh = *used_mesh_;
  }

  void Add() {
    for (const exec::Operation* operation : request_.operations) {
      for (Mode mode : request_.modes) {
        if (!request_.Covers(*operation, mode)) continue;
        for (Layout layout : request_.layouts) {
          if (!Applies(*operation, mode, layout)) continue;
          for (Dtype dtype : request_.dtypes) {
            out_.cases.push_back(
                CaseOf({operation, mode, layout, dtype, std::nullopt}));
            out_.traces.emplace_back();
          }
        }
      }
    }
  }

  void Vary(Feature feature) {
    for (size_t i = 0; i < out_.cases.size(); ++i) {
      const Case& test = out_.cases[i];
      if (!request_.named &&
          !Takes(*test.operation, test.mode, test.layout, feature)) {
        continue;
      }
      Case varied =
          CaseOf({test.operation, test.mode, test.layout, test.dtype, feature});
      // If the model itself has the feature, every case already has it. A
      // variant would then repeat the case, and is left out.
      if (FeatureNames(varied) == FeatureNames(test)) continue;
      out_.variants.push_back({std::move(varied), i});
    }
  }

  Matrix Take() {
    AddTraces(request_, resolver_, *used_resolver_, out_);
    for (Case& test : out_.cases) NoteGivenMesh(test);
    for (Matrix::Variant& variant : out_.variants) NoteGivenMesh(variant.test);
    return std::move(out_);
  }

 private:
  // Chooses sizes for `mesh` such that an axis divides a size if and only if
  // the same axis of the given mesh divides the given size. If there are no
  // such sizes, uses the given sizes and returns false.
  bool Reduce(const Resolver& resolver, const Mesh& mesh) {
    MeshSplits splits = SplitsOf(request_, resolver_, mesh_, mesh);
    const auto least = ReducedSizes(request_.sizes, splits.given, splits.used);
    out_.least = least.value_or(request_.sizes);
    out_.splits = std::move(splits.used);
    out_.given_splits = std::move(splits.given);
    used_resolver_ = &resolver;
    used_mesh_ = &mesh;
    return least.has_value();
  }

  void NoteGivenMesh(Case& test) const {
    if (test.mesh.devices < mesh_.devices) test.given_mesh = mesh_;
  }

  struct Kind {
    const exec::Operation* operation;
    Mode mode;
    Layout layout;
    Dtype dtype;
    std::optional<Feature> feature;
  };

  // Returns true if the reference can compute a case. A case of latent
  // attention must have one query, or few enough elements in the keys and
  // values that are expanded from the latent.
  bool Expands(const Kind& kind) const {
    constexpr int64_t kMostElements = int64_t{1} << 28;
    if (!kind.operation->latent) return true;
    const Sizes n = SizesOfMode(out_.used, kind.mode);
    return n.query_length == 1 ||
           n.batch * n.key_length * n.heads * (n.head_dim + n.ValueDim()) <=
               kMostElements;
  }

  Case CaseOf(const Kind& kind) {
    const uint64_t seed = exec::Random(request_.seed).Split(number_++).key();
    const bool small = !Expands(kind);
    const Sizes& used = small ? out_.least : out_.used;
    Case test = CaseAt(kind, used, !small && !out_.reduced, seed);
    if (small) {
      test.remarks.emplace_back(
          "the full sizes' keys and values of every head are too many to "
          "expand: at reduced sizes");
      std::rotate(test.remarks.begin(), test.remarks.end() - 1,
                  test.remarks.end());
    }
    if (small || out_.reduced) {
      test.given =
          std::make_shared<const Case>(CaseAt(kind, out_.given, true, seed));
    }
    return test;
  }

  // Returns the case of one operation, mode, layout and dtype (`kind`). It runs
  // on the user's mesh if `given` is true, otherwise on the smaller mesh.
  Case CaseAt(const Kind& kind, const Sizes& sizes, bool given,
              uint64_t seed) const {
    const exec::Operation& operation = *kind.operation;
    Case test;
    test.operation = &operation;
    test.mode = kind.mode;
    test.layout = kind.layout;
    test.dtype = kind.dtype;
    test.kv_dtype = request_.kv_dtype;
    // Only pages of keys and values can be int8 in these cases. Caches with
    // int8 keys are verified in traces.
    if (test.kv_dtype == Dtype::kI8 && !HasInt8Pages(test)) {
      test.kv_dtype.reset();
    }
    test.mesh = given ? mesh_ : *used_mesh_;
    test.sizes = SizesOfMode(sizes, kind.mode);
    if (operation.latent) SizeLatent(test.sizes);
    test.settings = request_.settings;
    test.features = request_.features;
    const SettingsRecord& record = request_.RecordOf(operation);
    ApplySettings(record, test);
    test.features.causal =
        request_.causal || IsGeneration(kind.mode) || operation.IsPaged();
    test.features.ragged =
        IsGeneration(kind.mode) || kind.layout == Layout::kThd;
    if (request_.window && *request_.window < request_.sizes.key_length) {
      if (given) test.features.window = *request_.window;
      SwitchOn(Feature::kWindow, test);
      if (!request_.causal) {
        test.features.window_right = *test.features.window - 1;
      }
    }
    if (kind.feature) SwitchOn(*kind.feature, test);
    if (!given) {
      FitBlocks(record, SizesOfMode(request_.sizes, kind.mode), test);
    }
    test.seed = seed;
    test.specs = ResolveSpecs(given ? resolver_ : *used_resolver_, test,
                              request_.illegal);
    return test;
  }

  const Request& request_;
  const Resolver& resolver_;
  const Mesh& mesh_;
  const Resolver* used_resolver_ = nullptr;
  const Mesh* used_mesh_ = nullptr;
  Matrix out_;
  uint64_t number_ = 0;
};

}  // namespace

Matrix BuildMatrix(const Request& request, const Resolver& resolver,
                   const Mesh& mesh, const SmallMesh* small) {
  Builder builder(request, resolver, mesh, small);
  builder.Add();
  for (const Feature feature : request.more) builder.Vary(feature);
  return builder.Take();
}

std::optional<Matrix> BuildReducedMatrix(const Request& request,
                                         const RuleSet& rules,
                                         const Resolver& resolver,
                                         const Mesh& mesh, int64_t processes,
                                         Findings& findings) {
  if (request.full) return BuildMatrix(request, resolver, mesh);
  const int64_t least = std::max(kMostAttentionDevices, processes);
  for (const Mesh& fewer : ReducedMeshes(mesh, least)) {
    if (fewer.devices < processes) continue;
    const MeshSplits splits = SplitsOf(request, resolver, mesh, fewer);
    if (!ReducedSizes(request.sizes, splits.given, splits.used)) continue;
    const auto its = Resolver::Make(rules, JoinedMesh(fewer), findings);
    if (!its) return std::nullopt;
    const SmallMesh small{fewer, *its};
    return BuildMatrix(request, resolver, mesh, &small);
  }
  return BuildMatrix(request, resolver, mesh);
}

}  // namespace shardc::verify
