// From a mesh, its axis rules and an attention's sizes to the cases that
// apply.
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
  // Of these, the ones that are for some modes only; others are for all.
  std::vector<std::pair<const exec::Operation*, std::vector<Mode>>> only;
  std::vector<Mode> modes;
  std::vector<Layout> layouts;
  std::vector<Dtype> dtypes;
  std::optional<Dtype> kv_dtype;
  exec::OperationSettings settings;
  // What was asked of single operations, laid over `settings` and `features`.
  std::vector<std::pair<std::string, SettingsRecord>> records;
  Features features;  // added to every case
  Rotation rotation;  // of traces over a cache
  // Each in cases of its own besides, where the operation takes it; where
  // `named`, also where it does not, so that the refusal shows.
  std::vector<Feature> more;
  bool named = false;
  bool large_logits = true;  // a case of them for each operation
  IllegalPolicy illegal = IllegalPolicy::kError;
  uint64_t seed = 0;
  bool full = false;
  int64_t steps = 4;  // of decoding, after a prefill into a cache
  std::vector<std::string> remarks;  // on how it came to be, for the report

  // The modes that an operation is for; null for all.
  const std::vector<Mode>* OnlyModes(const exec::Operation& operation) const;
  bool Asks(const exec::Operation& operation, Mode mode) const;
  // Empty where nothing was asked.
  const SettingsRecord& RecordOf(const exec::Operation& operation) const;
};

using Trace = std::variant<std::monostate, CacheTrace, PagedTrace>;

struct Matrix {
  Sizes given, used;
  bool reduced = false;  // `used` are smaller
  Sizes least;           // the reduced ones, also where they are not used
  Splits splits;         // of the request's layouts
  std::vector<Case> cases;
  // The traces of those of `cases` that have one, by index; else nothing.
  std::vector<Trace> traces;
  // The same at the sizes given, where others are used.
  std::vector<Trace> given_traces;
  // With a further feature each; one that was not asked for by name is run
  // only where the case that it varies ran.
  struct Variant {
    Case test;
    size_t of = 0;  // among `cases`
  };
  std::vector<Variant> variants;
};

// operations x modes x layouts x dtypes, in that order, without what has no
// meaning: a decoding operation in training, packed tokens in it.
Matrix BuildMatrix(const Request& request, const Resolver& resolver,
                   const Mesh& mesh);

// The specs of a mode and layout as the axis rules say, corrected by the
// policy where a dimension does not divide. An operation that lays key and
// value out as the query (heads_on_keys) has HEAD axes in them.
exec::AttentionSpecs ResolveSpecs(const Resolver& resolver, const Case& test,
                                  IllegalPolicy illegal);

// Into how many parts a spec cuts a dimension.
int64_t PartsOf(const Mesh& mesh, const Spec& spec, size_t dim);
// With one query in generation.
Sizes SizesOfMode(const Sizes& sizes, Mode mode);

// Whether the operation is meant for a mode and layout at all.
bool Applies(const exec::Operation& operation, Mode mode, Layout layout);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_MATRIX_H_
