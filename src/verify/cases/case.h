// Directory: verify/cases. Cases, which are operations on a mesh with sizes and
// features: how they are selected, and their inputs.
// Its files include headers of these directories: source, model, floats,
// resolve, legalize, dense, exec/machine, exec/attention, exec/pages,
// exec/operations.
//
// One case of verification: an operation on a mesh, with sizes and features
// (such as a causal mask or dropout). This file also declares the result of a
// case.
#ifndef SHARDC_VERIFY_CASES_CASE_H_
#define SHARDC_VERIFY_CASES_CASE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/attention/rotary.h"
#include "exec/attention/traffic.h"
#include "exec/machine/machine.h"
#include "exec/operations/operation.h"
#include "exec/pages/page_pool.h"
#include "model/axis_rules.h"
#include "model/mesh.h"
#include "model/operation_settings.h"

namespace shardc::verify {

struct Sizes {
  int64_t batch = 1;
  int64_t query_length = 1;
  int64_t key_length = 1;
  int64_t heads = 1;
  int64_t key_heads = 1;
  int64_t head_dim = 16;
  // The number of elements of a head in the value and in the output. If 0,
  // ValueDim() returns head_dim.
  int64_t value_dim = 0;
  // For latent attention: the rank of the latent, and in each head the size of
  // the rotated part and of the value. If 0, the sizes are 2 * head_dim,
  // head_dim / 4 and `value_dim`. A rotated part that is not smaller than the
  // head also becomes head_dim / 4.
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

// The settings of the rotary embedding of queries and keys in a trace, which is
// a sequence of decoding steps over a cache.
struct Rotation {
  double base = 10000;
  exec::RopeScaling scaling;
};

// Features of the attention besides query, key and value.
struct Features {
  bool causal = false;
  // A query sees its own key and the `window` - 1 keys before it.
  std::optional<int64_t> window;
  std::optional<int64_t> window_right;
  double soft_cap = 0;
  bool bias = false;
  bool bias_by_head = false;
  bool mask = false;
  bool additive_mask = false;
  bool segments = false;
  // The number of dimensions of the attention sinks: 1 for [query heads], 2 for
  // [sinks, KV heads], 0 for no sinks.
  int sinks_rank = 0;
  bool ragged = false;  // true: sequences have different lengths
  bool left_padding = false;
  bool masked_row = false;  // true: some queries attend to no key
  double dropout = 0;
  bool large_logits = false;  // true: logits of about +-100
  bool custom_blocks = false;
  std::optional<double> scale;
};

// The shape of a trace: several decoding steps over a real cache, in place of a
// single call of the operation.
struct TraceShape {
  int64_t prefill = 0, steps = 0, slots = 0;
  // If above 0, only the last `window` keys are visible and slots are reused.
  int64_t window = 0;
  bool pages = false;  // true: requests share a paged cache
};

struct Case {
  const exec::Operation* operation = nullptr;
  Mode mode = Mode::kTrain;
  Layout layout = Layout::kBthd;
  Dtype dtype = Dtype::kF32;
  std::optional<Dtype> kv_dtype;  // dtype of the cache; if absent, `dtype`
  Mesh mesh;
  // The user's mesh, if the case runs on a smaller one.
  std::optional<Mesh> given_mesh;
  Sizes sizes;
  Features features;
  exec::AttentionSpecs specs;
  exec::OperationSettings settings;
  uint64_t seed = 0;
  std::optional<TraceShape> trace;
  bool longer = false;  // true: the case has more keys than the user requested
  // If the case has reduced sizes: the case at the sizes that the user
  // requested. Otherwise null.
  std::shared_ptr<const Case> given = {};
  std::vector<std::string> remarks;  // notes on how the case was derived
};

enum class Status : uint8_t { kPass, kFail, kUnsupported };
std::string_view StatusName(Status status);

// The checks of a case. A test reports the check that detected an injected
// fault.
enum class Check : uint8_t {
  // Every device holds exactly the elements of its shard.
  kLayout,
  // Devices that hold the same shard have equal bits.
  kReplicas,
  // The output is finite wherever the reference is finite.
  kFinite,
  // The error is within the tolerance. The error is the largest over all
  // elements.
  kError,
  // If no sum crosses devices, the output has the same bits as on one device.
  kBits,
  // Each device sends as many bytes as the formula of the operation predicts.
  kLedger,
  // Each cached key equals the expected key, or a neighbouring number of the
  // dtype, because the rotation of a key may round differently.
  kCacheBits,
  // A case that cannot run is refused. If this check is off, such a case
  // passes.
  kUnsupported,
  // Not a check of its own: if it is off, kError uses the mean error in place
  // of the largest error.
  kMaximum,
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

// The error of an output against the reference: as a maximum, a mean and an L2
// norm, and with the index of the element that has the largest error.
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
  std::optional<Check> failed;  // the first check that failed, or nullopt
  std::string reason;           // why the case failed or is unsupported
  std::string help;
  std::string axis;   // name of the axis that causes the failure; may be empty
  ErrorOf error;      // error of the sharded run against the reference
  ErrorOf unsharded;  // error of the same operation on one device
  double tolerance = 0;
  // Upper bound of the tolerance, independent of the error on one device.
  double cap = 0;
  // Whether the output must have the same bits as the output on one device,
  // because no sum crosses devices.
  bool exact = false;
  exec::Ledger ledger;
  // If the case ran at reduced sizes: the bytes that devices would send at the
  // sizes that the user requested, by the formula of the operation.
  std::optional<exec::SentBytes> given_sent;
  // Indexed by device: the maximum absolute error of the device's shard.
  std::vector<double> device_error;
  std::vector<std::string> remarks;
};

// Returns settings with blocks so small that a short cache has several blocks.
inline exec::OperationSettings SmallBlocks() {
  exec::OperationSettings out;
  out.blocksize_k = 32;
  return out;
}

struct CacheTrace {
  Mesh mesh;
  int64_t batch = 2;
  int64_t heads = 4;
  int64_t key_heads = 2;
  int64_t head_dim = 16;
  // The number of tokens of the longest row before decoding. They are written
  // in chunks of `chunk` tokens.
  int64_t prefill = 96;
  int64_t chunk = 96;
  int64_t steps = 64;
  int64_t slots = 160;  // slots of the cache for each row
  // If above 0, only the last `window` keys are visible and slots are reused.
  int64_t window = 0;
  Dtype dtype = Dtype::kF32;
  // The dtype of the cache. An I8 cache also has scales.
  Dtype kv_dtype = Dtype::kF32;
  exec::RotaryStyle style = exec::RotaryStyle::kHalves;
  Rotation rotation;
  // Whether rows have different lengths. If true, batch row b is 5 * b tokens
  // shorter than row 0.
  bool ragged = true;
  // Whether another sequence replaces the last row before decoding.
  bool insert = true;
  bool left_padding = false;
  Spec prefill_spec, decode_spec;  // specs of the cache [B, S, K, D]
  // The spec of new tokens [B, n, K, D] in prefill. D must be unsharded,
  // because the tokens are rotated.
  Spec token_spec;
  // The axes that shard the dimensions H and D of the query [B, 1, H, D] in
  // decode steps.
  AxisGroup query_heads, query_dim;
  exec::OperationSettings settings = SmallBlocks();  // used in decode steps
  std::optional<double> scale;
  double soft_cap = 0;
  double dropout = 0;
  uint64_t seed = 1;
};

struct PagedTrace {
  Mesh mesh;
  exec::PageFormat format = exec::PageFormat::kSeparate;
  int64_t requests = 4;
  int64_t key_heads = 2;
  int64_t head_dim = 8;
  int64_t page_size = 4;
  int64_t pages_per_request = 6;  // the most pages that a request may have
  // The number of steps. In each step, a request appends tokens, begins to
  // share the pages of another request, or is released.
  int64_t steps = 40;
  Dtype dtype = Dtype::kF32;
  AxisGroup page_axes, head_axes;
  uint64_t seed = 1;
};

Shape ShapeIn(Layout layout, int64_t batch, int64_t length, int64_t heads,
              int64_t dim);

// Returns the dtype in which key and value are stored: kv_dtype if it is a
// float type, else the query's dtype. Keys of an int8 kv_dtype are also in the
// query's dtype here; the operation quantises them.
Dtype KeyDtype(const Case& test);
bool HasInt8Pages(const Case& test);
// Returns the dtype of computation and output: runtime_dtype if it is set, else
// the common dtype of query, key and value by JAX's promotion.
Dtype OutputDtype(const Case& test);

// Return the shape and sharding of a tensor in the order [batch, length, heads,
// dim]. Packed tokens are one row of batch x length tokens.
exec::TensorSharding QueryOf(const Case& test);
exec::TensorSharding KeyOf(const Case& test);
exec::TensorSharding ValueOf(const Case& test);
exec::TensorSharding OutputOf(const Case& test);

// The features that an attention may have besides query, key and value, with
// their names, and which operations support them.

enum class Feature : uint8_t {
  kBias,
  kBiasByHead,
  kMask,
  kAdditiveMask,
  kSegments,
  kWindow,
  kSinks,           // one attention sink for each query head
  kSinksByKeyHead,  // one or more attention sinks for each KV head
  kSoftCap,
  kLeftPadding,
  kMaskedRow,
  kDropout,
  kLargeLogits,
  kCustomBlocks,
  kScale,
};

std::span<const Feature> AllFeatures();
std::string_view FeatureName(Feature feature);
std::optional<Feature> ParseFeature(std::string_view name);

// Returns true if the operation supports the feature in this mode and layout.
bool Takes(const exec::Operation& operation, Mode mode, Layout layout,
           Feature feature);

// Adds the feature to a case, with a value that reveals mistakes. If the case
// already has a window, soft cap or scale, this value is kept.
void SwitchOn(Feature feature, Case& test);

// Returns the window of a case; nullopt if it has none.
std::optional<exec::Window> WindowOf(const Features& features);

// Returns the names of the features that a case has besides the causal mask and
// rows of different lengths, such as `soft_cap, window`; empty if it has none.
// The name `long` means that the case has more keys than requested.
std::vector<std::string_view> FeatureNames(const Case& test);

// Applies the settings and features that `record` contains to the case.
void ApplySettings(const SettingsRecord& record, Case& test);

// Fits block sizes to the case's lengths, which may be smaller than the `given`
// lengths. If no block size was requested, a default that is too large is
// reduced to about three eighths of the length: most lengths then have two
// blocks and a shorter last block. A requested block size is kept if it is
// below the case's length. It is also kept if it is at least the given length:
// at both lengths, all tokens are then in one block. Otherwise it is reduced,
// and the case gets a remark.
void FitBlocks(const SettingsRecord& record, const Sizes& given, Case& test);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_CASE_H_
