// Room: verify/cases. Cases, which are operations on a mesh with sizes and
// features: how they are selected, and their inputs.
// Includes: source, model, floats, resolve, legalize, dense, exec/machine,
// exec/attention, exec/pages, exec/operations.
//
// One case, which is an operation on a mesh with sizes and features, and its
// result.
#ifndef SHARDC_VERIFY_CASES_CASE_H_
#define SHARDC_VERIFY_CASES_CASE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/attention/rotary.h"
#include "exec/machine/ledger.h"
#include "exec/operations/operation.h"
#include "model/axis_rules.h"
#include "model/layout.h"
#include "model/mesh.h"

namespace shardc::verify {

struct Sizes {
  int64_t batch = 1;
  int64_t query_length = 1;
  int64_t key_length = 1;
  int64_t heads = 1;
  int64_t key_heads = 1;
  int64_t head_dim = 16;
  int64_t value_dim = 0;  // 0: head_dim
  // Latent attention: the sizes of the latent, of the rotated part of a head,
  // and of a head's value. 0 means 2 * head_dim, head_dim / 4 and `value_dim`.
  // If the rotated part is not smaller than the head, head_dim / 4 is used
  // instead.
  int64_t latent_rank = 0, latent_rope_dim = 0, latent_value_dim = 0;

  int64_t ValueDim() const { return value_dim > 0 ? value_dim : head_dim; }
  int64_t LatentRank() const {
    return latent_rank > 0 ? latent_rank : 2 * head_dim;
  }
  int64_t LatentRopeDim() const {
    const bool given = latent_rope_dim > 0 && latent_rope_dim < head_dim;
    return given ? latent_rope_dim : head_dim / 4;
  }
  bool operator==(const Sizes&) const = default;
};

// The rotary embedding of a cache's queries and keys.
struct Rotation {
  double base = 10000;
  exec::RopeScaling scaling;
};

// Features of the attention besides query, key and value.
struct Features {
  bool causal = false;
  std::optional<int64_t> window;  // keys a query attends to, its own included
  std::optional<int64_t> window_right;
  double soft_cap = 0;
  bool bias = false;
  bool bias_by_head = false;
  bool mask = false;
  bool additive_mask = false;
  bool segments = false;
  int sinks_rank = 0;   // rank of the sinks: 1 [H], 2 [sinks, K]; 0: none
  bool ragged = false;  // rows of different lengths
  bool left_padding = false;
  bool masked_row = false;  // some query rows attend to no key
  double dropout = 0;
  bool large_logits = false;  // logits of about +-100
  bool custom_blocks = false;
  std::optional<double> scale;
};

// Decoding step by step over a real cache, in place of a single call.
struct TraceShape {
  int64_t prefill = 0, steps = 0, slots = 0;
  int64_t window = 0;  // if above 0, slots are reused
  bool pages = false;  // a trace of requests on pages, without a cache
};

struct Case {
  const exec::Operation* operation = nullptr;
  Mode mode = Mode::kTrain;
  Layout layout = Layout::kBthd;
  Dtype dtype = Dtype::kF32;
  std::optional<Dtype> kv_dtype;  // dtype of the cache; absent: `dtype`
  Mesh mesh;
  std::optional<Mesh> given_mesh;  // the user's mesh, if `mesh` is smaller
  Sizes sizes;
  Features features;
  exec::AttentionSpecs specs;
  exec::OperationSettings settings;
  uint64_t seed = 0;
  std::optional<TraceShape> trace;
  bool longer = false;  // whether the case has more keys than requested
  // If the case has reduced sizes: the case at the requested sizes. Null
  // otherwise.
  std::shared_ptr<const Case> given = {};
  std::vector<std::string> remarks;  // how the case was derived
};

enum class Status : uint8_t { kPass, kFail, kUnsupported };
std::string_view StatusName(Status status);

// The checks of a case. A self-test reports the check that detected an injected
// fault.
enum class Check : uint8_t {
  kLayout,       // every element is in each set of replicas exactly once
  kReplicas,     // replicas are equal in bits when the output is gathered
  kFinite,       // outputs are finite where the reference is
  kError,        // the maximum error is within the tolerance
  kBits,         // bits equal the unsharded run's if nothing is reduced
  kLedger,       // the bytes sent equal the closed formulas
  kCacheBits,    // the cache holds the expected tokens, up to rounding
  kUnsupported,  // unsupported cases are refused, and all others run
  kMaximum,      // the maximum error is judged, not the mean
};
inline constexpr size_t kCheckCount = 9;
std::string_view CheckName(Check check);

struct Checks {
  std::array<bool, kCheckCount> on = {true, true, true, true, true,
                                      true, true, true, true};
  bool Has(Check check) const { return on[static_cast<size_t>(check)]; }
  Checks Without(Check check) const {
    Checks out = *this;
    out.on[static_cast<size_t>(check)] = false;
    return out;
  }
};

// The error of an output, and the element with the largest error.
struct ErrorOf {
  double max_abs = 0;
  double mean_abs = 0;
  double relative_l2 = 0;
  // The batch, token, head and dim of the element with the largest error.
  std::array<int64_t, 4> worst = {0, 0, 0, 0};
  bool non_finite = false;
};

struct CaseResult {
  Status status = Status::kPass;
  std::optional<Check> failed;  // the check that failed
  std::string reason;           // why the case failed or is unsupported
  std::string help;
  std::string axis;   // the axis at fault
  ErrorOf error;      // error of the sharded run against the reference
  ErrorOf unsharded;  // error of the same operation on one device
  double tolerance = 0;
  double cap = 0;  // the largest tolerance, whatever the error on one device
  bool exact = false;  // whether the bits must equal the unsharded run's
  exec::Ledger ledger;
  // The bytes that the formula gives at the sizes of the user, if the case ran
  // at reduced sizes.
  std::optional<exec::SentBytes> given_sent;
  // The maximum absolute error of each device's shard.
  std::vector<double> device_error;
  std::vector<std::string> remarks;
};

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_CASE_H_
