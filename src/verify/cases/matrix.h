// Builds the cases that apply to a mesh, its axis rules and an attention's
// sizes.
#ifndef SHARDC_VERIFY_CASES_MATRIX_H_
#define SHARDC_VERIFY_CASES_MATRIX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/layout.h"
#include "model/operation_settings.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "verify/cases/case.h"
#include "verify/cases/features.h"
#include "verify/cases/reduced_sizes.h"
#include "verify/cases/trace.h"

namespace shardc::verify {

struct Request {
  Sizes sizes;                    // the sizes that the user gave
  std::optional<int64_t> window;  // the model's sliding window
  std::vector<const exec::Operation*> operations;
  // Operations that run only in the listed modes. Others run in every mode of
  // `modes`.
  std::vector<std::pair<const exec::Operation*, std::vector<Mode>>> only;
  std::vector<Mode> modes;
  std::vector<Layout> layouts;
  std::vector<Dtype> dtypes;
  std::optional<Dtype> kv_dtype;
  exec::OperationSettings settings;
  // Settings requested for single operations; they override `settings` and
  // `features`.
  std::vector<std::pair<std::string, SettingsRecord>> records;
  Features features;  // added to every case
  Rotation rotation;  // rotation in traces over a cache
  // Each of these features adds a variant of every case whose operation
  // supports it. If `named`, operations that do not support the feature get a
  // variant too, so that the refusal is reported.
  std::vector<Feature> more;
  bool named = false;
  bool large_logits = true;  // add one such case for each operation
  IllegalPolicy illegal = IllegalPolicy::kError;
  uint64_t seed = 0;
  bool full = false;
  int64_t steps = 4;  // decoding steps after a prefill into a cache
  // How the request was derived, for the report.
  std::vector<std::string> remarks;

  // Returns the modes to which the request limits an operation; null if it does
  // not limit the operation.
  const std::vector<Mode>* OnlyModes(const exec::Operation& operation) const;
  bool Covers(const exec::Operation& operation, Mode mode) const;
  // Returns the settings requested for an operation; empty if there are none.
  const SettingsRecord& RecordOf(const exec::Operation& operation) const;
};

using Trace = std::variant<std::monostate, CacheTrace, PagedTrace>;

struct Matrix {
  Sizes given, used;
  Mesh given_mesh, used_mesh;
  bool reduced = false;  // whether used sizes or mesh are smaller
  Sizes least;           // the reduced sizes, even if not used
  Splits splits;         // splits of the request's layouts on `used_mesh`
  Splits given_splits;   // the same on `given_mesh`
  std::vector<Case> cases;
  // The trace of each case, by the case's index; std::monostate if it has none.
  std::vector<Trace> traces;
  // The traces at the sizes that the user gave, if the cases have reduced
  // sizes.
  std::vector<Trace> given_traces;
  // Cases with one more feature each. If the feature was not requested by name,
  // the variant runs only if the case that it varies ran.
  struct Variant {
    Case test;
    size_t of = 0;  // index in `cases` of the case that it varies
  };
  std::vector<Variant> variants;
};

// A mesh with the axes of the user's mesh and fewer devices.
struct SmallMesh {
  Mesh mesh;
  Resolver resolver;
};

// Builds the cases of operations x modes x layouts x dtypes, in that order,
// then traces and variants. Operations for decoding run only in generation
// modes, and not on packed tokens. If `small` is not null and the request is
// not full, cases run on the mesh of `small`, provided that some sizes are
// split on it as the given sizes are on `mesh`.
Matrix BuildMatrix(const Request& request, const Resolver& resolver,
                   const Mesh& mesh, const SmallMesh* small = nullptr);

// Builds the matrix on the first mesh for which ReducedSizes finds sizes: every
// dimension is then divided by the same axes as at the given sizes. The meshes
// tried are ReducedMeshes(mesh, max(processes, 8)) without those that have
// fewer devices than `processes`. If no smaller mesh has such sizes, or if the
// request is full, the given mesh is used. Returns nullopt after a finding.
std::optional<Matrix> BuildReducedMatrix(const Request& request,
                                         const RuleSet& rules,
                                         const Resolver& resolver,
                                         const Mesh& mesh, int64_t processes,
                                         Findings& findings);

// Returns the specs of a mode and layout by the axis rules. If axes do not
// divide a dimension, the policy `illegal` decides what happens. Key and value
// have the query's HEAD axes if the operation needs them there (heads_on_keys).
exec::AttentionSpecs ResolveSpecs(const Resolver& resolver, const Case& test,
                                  IllegalPolicy illegal);

// Returns the number of shards of a dimension; 1 if the spec has no such
// dimension or the mesh lacks an axis.
int64_t PartsOf(const Mesh& mesh, const Spec& spec, size_t dim);
// Returns the sizes of a mode: generation modes have one query.
Sizes SizesOfMode(const Sizes& sizes, Mode mode);

bool Applies(const exec::Operation& operation, Mode mode, Layout layout);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_MATRIX_H_
