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
  Sizes sizes;                    // as given
  std::optional<int64_t> window;  // the model's sliding window
  std::vector<const exec::Operation*> operations;
  // Operations that run in some modes only; all others run in every mode.
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
  Rotation rotation;  // of traces over a cache
  // Features that get cases of their own, for operations that take them; if
  // `named`, also for operations that do not, so that the refusal is reported.
  std::vector<Feature> more;
  bool named = false;
  bool large_logits = true;  // one such case for each operation
  IllegalPolicy illegal = IllegalPolicy::kError;
  uint64_t seed = 0;
  bool full = false;
  int64_t steps = 4;  // of decoding, after a prefill into a cache
  std::vector<std::string>
      remarks;  // how the request was derived, for the report

  // Returns the modes that an operation is limited to; null for all.
  const std::vector<Mode>* OnlyModes(const exec::Operation& operation) const;
  bool Covers(const exec::Operation& operation, Mode mode) const;
  // Returns an empty record if nothing was requested.
  const SettingsRecord& RecordOf(const exec::Operation& operation) const;
};

using Trace = std::variant<std::monostate, CacheTrace, PagedTrace>;

struct Matrix {
  Sizes given, used;
  Mesh given_mesh, used_mesh;
  bool reduced = false;  // `used`, or its mesh, is smaller
  Sizes least;           // the reduced sizes, even if not used
  Splits splits;         // of the request's layouts on the mesh used
  Splits given_splits;   // and on the one given
  std::vector<Case> cases;
  // The trace of each case by index, or nullopt.
  std::vector<Trace> traces;
  // The traces at the sizes given, where reduced ones are used.
  std::vector<Trace> given_traces;
  // Cases with one more feature; a feature that was not requested by name runs
  // only if the case that it varies ran.
  struct Variant {
    Case test;
    size_t of = 0;  // among `cases`
  };
  std::vector<Variant> variants;
};

// A mesh with the same axes as the one given and fewer devices.
struct SmallMesh {
  Mesh mesh;
  Resolver resolver;
};

// Builds operations x modes x layouts x dtypes, in that order, without
// meaningless combinations: decoding operations run neither in training nor on
// packed tokens. With `small`, cases run on that mesh if it has sizes that are
// split as the given ones are on `mesh`.
Matrix BuildMatrix(const Request& request, const Resolver& resolver,
                   const Mesh& mesh, const SmallMesh* small = nullptr);

// Builds the same on the first of ReducedMeshes for which ReducedSizes finds
// sizes: every dimension is then divided by the same axes as at the given
// sizes. The mesh that is used has at least one device for each process. If no
// smaller mesh has such sizes, or if the request is full, it is the mesh given.
// Returns nullopt after a finding.
std::optional<Matrix> BuildReducedMatrix(const Request& request,
                                         const RuleSet& rules,
                                         const Resolver& resolver,
                                         const Mesh& mesh, int64_t processes,
                                         Findings& findings);

// Returns the specs of a mode and layout by the axis rules, legalised by the
// policy where a dimension does not divide. Operations that shard key and value
// as the query (heads_on_keys) have HEAD axes in them.
exec::AttentionSpecs ResolveSpecs(const Resolver& resolver, const Case& test,
                                  IllegalPolicy illegal);

// Returns the number of shards of a dimension.
int64_t PartsOf(const Mesh& mesh, const Spec& spec, size_t dim);
// Returns the sizes with one query in generation modes.
Sizes SizesOfMode(const Sizes& sizes, Mode mode);

// Returns whether the operation applies to a mode and layout.
bool Applies(const exec::Operation& operation, Mode mode, Layout layout);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_MATRIX_H_
