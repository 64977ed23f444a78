// Builds the matrix, which is the list of all cases of a request. Every
// operation is run in every requested dtype, and in the requested modes and
// layouts to which it applies. For each requested feature, such as attention
// sinks, all cases are added once more with this feature. For example:
//
//   vanilla: 4 modes, 3 layouts, 3 dtypes  ->  36 cases, 72 with `sinks`
//
// Each case has its own test data. Sizes are reduced to the smallest that keep
// the effect of the shardings (reduced_sizes.h). The mesh is reduced too
// (reduced_mesh.h).
#include "verify/cases/matrix.h"

#include <algorithm>
#include <utility>

#include "exec/machine/random.h"
#include "legalize/legalize.h"
#include "model/sub_axis.h"
#include "resolve/attention.h"
#include "verify/cases/latent_data.h"
#include "verify/cases/reduced_mesh.h"
#include "verify/cases/reduced_sizes.h"
#include "verify/cases/settings.h"
#include "verify/cases/shapes.h"
#include "verify/cases/splits.h"
#include "verify/cases/trace_cases.h"

namespace shardc::verify {
namespace {

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
  return own == nullptr ||
         std::find(own->begin(), own->end(), mode) != own->end();
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
