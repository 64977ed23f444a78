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

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "model/operation_settings.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "source/finding.h"
#include "verify/cases/case.h"
#include "verify/cases/reduced_sizes.h"

namespace shardc::verify {

struct Request {
  Sizes sizes;  // the sizes that the user gave
  // The number of keys in the model's sliding window, up to and including the
  // query's own key. If attention is not causal, the window also has the same
  // number of keys after the query's own as before it.
  std::optional<int64_t> window;
  // Whether attention of several queries is causal, as in a decoder.
  bool causal = true;
  std::vector<const exec::Operation*> operations;
  // Operations that run only in the listed modes. All other operations run in
  // every mode of `modes`.
  std::vector<std::pair<const exec::Operation*, std::vector<Mode>>> only;
  std::vector<Mode> modes;
  std::vector<Layout> layouts;
  std::vector<Dtype> dtypes;
  std::optional<Dtype> kv_dtype;
  exec::OperationSettings settings;
  // Settings requested for single operations, keyed by the operation's name.
  // They override `settings` and `features` for these operations.
  std::vector<std::pair<std::string, SettingsRecord>> records;
  Features features;  // all cases have these features
  Rotation rotation;  // the rotary embedding of traces on a cache
  // Each of these features adds a variant of every case whose operation
  // supports the feature. If `named` is true, operations that do not support it
  // get a variant too, so that the refusal is reported.
  std::vector<Feature> more;
  bool named = false;
  // Whether one case of large logits is added for each operation.
  bool large_logits = true;
  IllegalPolicy illegal = IllegalPolicy::kError;
  uint64_t seed = 0;
  bool full = false;
  int64_t steps = 4;  // decoding steps after a prefill into a cache
  // Notes on the whole request that the report prints, such as "int8 is for
  // caches and pages".
  std::vector<std::string> remarks;

  // Returns the modes to which the request limits an operation, or null if it
  // does not limit the operation.
  const std::vector<Mode>* OnlyModes(const exec::Operation& operation) const;
  bool Covers(const exec::Operation& operation, Mode mode) const;
  // Returns the settings requested for an operation. The record is empty if
  // there are no such settings.
  const SettingsRecord& RecordOf(const exec::Operation& operation) const;
};

using Trace = std::variant<std::monostate, CacheTrace, PagedTrace>;

struct Matrix {
  Sizes given, used;
  Mesh given_mesh, used_mesh;
  // Whether the cases run with smaller sizes or a smaller mesh than given.
  bool reduced = false;
  // The reduced sizes. They are set even if the cases run with the sizes that
  // the user gave.
  Sizes least;
  // The numbers of shards into which layouts split each dimension: on
  // `used_mesh` and on `given_mesh`.
  Splits splits;
  Splits given_splits;
  std::vector<Case> cases;
  // The trace of each case, indexed as `cases`; std::monostate for cases
  // without one. A trace is a sequence of steps on a KV cache or on pages.
  std::vector<Trace> traces;
  // If the cases have reduced sizes: the traces at the sizes that the user
  // gave.
  std::vector<Trace> given_traces;
  // A case of `cases` with one more feature. It runs only if the case without
  // the feature ran, unless the feature was requested by name.
  struct Variant {
    Case test;
    size_t of = 0;  // index in `cases` of the case without the feature
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
// not full, cases run on the mesh of `small`. An axis of that mesh must then
// divide a reduced size if and only if the same axis of `mesh` divides the
// given size. If there are no such sizes, cases run on `mesh`.
Matrix BuildMatrix(const Request& request, const Resolver& resolver,
                   const Mesh& mesh, const SmallMesh* small = nullptr);

// Builds the matrix on the first smaller mesh for which ReducedSizes finds
// sizes. An axis of this mesh divides a reduced size if and only if the same
// axis of `mesh` divides the given size. The candidates are ReducedMeshes(mesh,
// max(processes, 8)), without those with fewer devices than `processes`. The
// given mesh is used if the request is full, or if no candidate has such sizes.
// Returns nullopt after an error was added to `findings`.
std::optional<Matrix> BuildReducedMatrix(const Request& request,
                                         const RuleSet& rules,
                                         const Resolver& resolver,
                                         const Mesh& mesh, int64_t processes,
                                         Findings& findings);

// Returns the specs of a mode and layout by the axis rules. If axes do not
// divide a dimension, the policy `illegal` decides what happens. If the
// operation has `heads_on_keys`, key and value are sharded over the query's
// HEAD axes.
exec::AttentionSpecs ResolveSpecs(const Resolver& resolver, const Case& test,
                                  IllegalPolicy illegal);

// Returns the number of shards of dimension `dim`. Returns 1 if the spec has no
// such dimension or the mesh lacks an axis.
int64_t PartsOf(const Mesh& mesh, const Spec& spec, size_t dim);
// Returns the sizes of a mode. Generation modes have one query in each batch
// row.
Sizes SizesOfMode(const Sizes& sizes, Mode mode);

bool Applies(const exec::Operation& operation, Mode mode, Layout layout);

// Adds traces for each generation mode and dtype. If flash_decoding was
// requested, adds a trace that decodes over a cache. If the model also has a
// sliding window shorter than the keys, adds a second trace, over a cache that
// reuses slots. For each requested paged operation, adds a trace with requests
// that share pages, unless the rules shard the pages by length or head dim.
void AddTraces(const Request& request, const Resolver& resolver,
               const Resolver& used_resolver, Matrix& matrix);

// Returns up to two cases for each operation of which a case ran. Each is a
// copy of the operation's first case that ran, with the sizes `least` and a few
// changes. The first case has at least 512 keys in bfloat16, since short sums
// hide an accumulator of few bits. It has no window and no rows of different
// lengths, and a causal mask only if the operation reads pages. It is omitted
// if a case with at least 256 keys in bfloat16 and without a window ran. The
// second case has logits of about +-100. It is omitted if the request excludes
// it or has that feature.
std::vector<Case> StressCases(const Request& request, const Sizes& least,
                              const std::vector<Case>& cases,
                              const std::vector<CaseResult>& results);

// Returns true if batch, lengths, head counts and head size are positive, key
// heads divide query heads, and the query length is at most the key length.
// Otherwise adds a usage finding (a reported error) and returns false.
bool CheckSizes(const Sizes& sizes, Findings& findings);
// Returns true if the request can be simulated. Returns false, and adds a usage
// finding, if the mesh has too many devices. With --full, cases run at the
// user's sizes. Then also returns false if there are too many logits, too many
// elements of query, key and value, or too many elements in pages.
bool CheckWork(const Request& request, const Mesh& mesh, Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_MATRIX_H_
