// Every operation in every mode, layout and dtype asked for, each with test
// data of its own; then, for each feature named, each of these with it. Sizes
// are the smallest that keep what the splits do (reduced_sizes.h).
//
//   vanilla: 4 modes, 3 layouts, 3 dtypes  ->  36 cases, 72 with `sinks`
#include "verify/cases/matrix.h"

#include <algorithm>
#include <utility>

#include "exec/machine/random.h"
#include "legalize/legalize.h"
#include "resolve/attention.h"
#include "verify/cases/latent_data.h"
#include "verify/cases/reduced_sizes.h"
#include "verify/cases/settings.h"
#include "verify/cases/shapes.h"
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

namespace {

template <class T>
void AddOnce(std::vector<T>& to, T value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) {
    to.push_back(std::move(value));
  }
}

Splits SplitsOf(const Request& request, const Resolver& resolver,
                const Mesh& mesh) {
  Splits out;
  for (Mode mode : request.modes) {
    Case test;
    test.mode = mode;
    test.mesh = mesh;
    test.sizes = request.sizes;
    const auto specs = ResolveSpecs(resolver, test, IllegalPolicy::kError);
    AddOnce(out.batch, PartsOf(mesh, specs.query, 0));
    AddOnce(out.batch, PartsOf(mesh, specs.key, 0));
    AddOnce(out.length, PartsOf(mesh, specs.query, 1));
    AddOnce(out.length, PartsOf(mesh, specs.key, 1));
    AddOnce(out.heads,
            {PartsOf(mesh, specs.query, 2), PartsOf(mesh, specs.key, 2)});
    // ulysses: a device's heads are cut by the length's axes once more, but
    // for those of a ring.
    for (const exec::Operation* operation : request.operations) {
      Spec left = specs.query;
      if (left.size() < 2) continue;
      const auto& ring = request.RecordOf(*operation).ring_axes;
      std::erase_if(left[1], [&](const std::string& axis) {
        return ring &&
               std::find(ring->begin(), ring->end(), axis) != ring->end();
      });
      const int64_t n = PartsOf(mesh, left, 1);
      if (n == 1) continue;
      AddOnce(out.heads, {PartsOf(mesh, specs.query, 2) * n,
                          PartsOf(mesh, specs.key, 2) * n});
    }
    // ring, blocksparse: key heads on the query's axes.
    if (std::any_of(request.operations.begin(), request.operations.end(),
                    [](const auto* o) { return o->heads_on_keys; })) {
      const int64_t parts = PartsOf(mesh, specs.query, 2);
      AddOnce(out.heads, {parts, parts});
    }
    AddOnce(out.dim, PartsOf(mesh, specs.query, 3));
    AddOnce(out.dim, PartsOf(mesh, specs.key, 3));
  }
  return out;
}

}  // namespace

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

bool Request::Asks(const exec::Operation& operation, Mode mode) const {
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
  exec::AttentionSpecs out;
  for (const AttentionTensor& tensor :
       AttentionSpecs(resolver, test.mode, options)) {
    const Spec& spec = tensor.resolved.spec;
    const auto corrected = [&](const Shape& shape) {
      return Corrected(test.mesh, spec, shape, illegal);
    };
    const std::string_view name = tensor.name;
    if (name == "query") {
      out.query = corrected(in_layout(n.query_length, n.heads, n.head_dim));
    } else if (name == "key") {
      out.key = corrected(in_layout(n.key_length, n.key_heads, n.head_dim));
    } else if (name == "value") {
      out.value = corrected(in_layout(n.key_length, n.key_heads, n.ValueDim()));
    } else if (name == "output") {
      out.output = corrected(in_layout(n.query_length, n.heads, n.ValueDim()));
    } else if (name == "bias") {
      out.bias = corrected({n.batch, n.heads, n.query_length, n.key_length});
    } else if (name == "mask") {
      out.mask = corrected({n.batch, 1, n.query_length, n.key_length});
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
    // A latent row has no heads to split.
    const size_t heads = test.layout == Layout::kBthd ? 2 : 1;
    for (Spec* spec : {&out.key, &out.value}) {
      if (spec->size() > heads) (*spec)[heads].clear();
    }
  }
  return out;
}

namespace {

class Builder {
 public:
  Builder(const Request& request, const Resolver& resolver, const Mesh& mesh)
      : request_(request), resolver_(resolver), mesh_(mesh) {
    out_.given = request.sizes;
    out_.least = ReducedSizes(request.sizes, SplitsOf(request, resolver, mesh));
    out_.used = request.full ? request.sizes : out_.least;
    out_.reduced = !(out_.used == out_.given);
  }

  void Add() {
    for (const exec::Operation* operation : request_.operations) {
      for (Mode mode : request_.modes) {
        if (!request_.Asks(*operation, mode)) continue;
        for (Layout layout : request_.layouts) {
          if (!Applies(*operation, mode, layout)) continue;
          for (Dtype dtype : request_.dtypes) {
            out_.cases.push_back(
                CaseOf(*operation, mode, layout, dtype, std::nullopt));
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
          CaseOf(*test.operation, test.mode, test.layout, test.dtype, feature);
      // What the model has is in every case already.
      if (FeatureNames(varied) == FeatureNames(test)) continue;
      out_.variants.push_back({std::move(varied), i});
    }
  }

  Matrix Take() {
    AddTraces(request_, resolver_, mesh_, out_);
    return std::move(out_);
  }

 private:
  // Whether a latent can be expanded to keys and values of all heads, which
  // judging it takes.
  bool Expands(const Case& test) const {
    constexpr int64_t kMostElements = int64_t{1} << 28;
    const Sizes& n = out_.used;
    return !test.operation->latent ||
           n.batch * n.key_length * n.heads * (n.head_dim + n.ValueDim()) <=
               kMostElements;
  }

  Case CaseOf(const exec::Operation& operation, Mode mode, Layout layout,
              Dtype dtype, std::optional<Feature> feature) {
    Case test;
    test.operation = &operation;
    test.mode = mode;
    test.layout = layout;
    test.dtype = dtype;
    test.kv_dtype = request_.kv_dtype;
    // Quantised are caches and pages, not keys that no cache holds.
    if (test.kv_dtype == Dtype::kI8 && !HasInt8Pages(test)) {
      test.kv_dtype.reset();
    }
    test.mesh = mesh_;
    const bool small = !Expands(test);
    test.sizes = SizesOfMode(small ? out_.least : out_.used, mode);
    if (small) {
      test.remarks.emplace_back(
          "the full sizes' keys and values of every head are too many to "
          "expand: at reduced sizes");
    }
    if (test.operation->latent) SizeLatent(test.sizes);
    test.settings = request_.settings;
    test.features = request_.features;
    const SettingsRecord& record = request_.RecordOf(operation);
    LaySettings(record, test);
    test.features.causal = true;
    test.features.ragged = IsGeneration(mode) || layout == Layout::kThd;
    if (request_.window && *request_.window < request_.sizes.key_length) {
      if (request_.full && !small) test.features.window = *request_.window;
      SwitchOn(Feature::kWindow, test);
    }
    if (feature) SwitchOn(*feature, test);
    if (out_.reduced || small) {
      FitBlocks(record, SizesOfMode(request_.sizes, mode), test);
    }
    test.seed = exec::Random(request_.seed).Split(number_++).key();
    test.specs = ResolveSpecs(resolver_, test, request_.illegal);
    return test;
  }

  const Request& request_;
  const Resolver& resolver_;
  const Mesh& mesh_;
  Matrix out_;
  uint64_t number_ = 0;
};

}  // namespace

Matrix BuildMatrix(const Request& request, const Resolver& resolver,
                   const Mesh& mesh) {
  Builder builder(request, resolver, mesh);
  builder.Add();
  for (const Feature feature : request.more) builder.Vary(feature);
  return builder.Take();
}

}  // namespace shardc::verify
