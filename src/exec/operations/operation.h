// Directory: exec/operations. The attention operations, one file each, and
// their table.
// Its files include headers of these directories: source, model, floats, comm,
// exec/machine, exec/attention, exec/pages.
//
// Declares Operation, the record that describes an attention operation. A
// record has the operation's properties, and a function that computes on the
// simulated mesh what the real kernel computes on devices. Code that depends on
// the operation reads the record, never the name. To add an operation, add a
// source to this folder that defines its record, and a line to table.h.
//
// Operations have either the global view or the local view. For an operation
// with the global view (vanilla), a compiler inserts the collectives. Every
// legal layout then computes right results, and only the bytes sent need a
// check. All other operations have the local view: a kernel sees only its
// device's slices and assumes that they have a certain layout. With any other
// layout, its outputs are wrong.
#ifndef SHARDC_EXEC_OPERATIONS_OPERATION_H_
#define SHARDC_EXEC_OPERATIONS_OPERATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "exec/attention/attention_problem.h"
#include "exec/attention/staging.h"
#include "exec/attention/traffic.h"
#include "exec/machine/machine.h"
#include "exec/pages/paged_program.h"
#include "model/operation_settings.h"
#include "source/size.h"

namespace shardc::exec {

// The collective that an operation needs if a dimension is sharded, as text for
// tables. "local" means that no collective is needed, "-" that the operation
// does not support this sharding.
struct Supports {
  std::string_view batch, query_length, key_length, heads, dim;
};

// The collectives of a kernel on local slices: its wrapper keeps the axes of
// batch and heads and gathers all other dimensions. LocalBytes (traffic.h)
// computes the bytes of these collectives.
inline constexpr Supports kLocalSupports = {.batch = "local",
                                            .query_length = "all_gather q",
                                            .key_length = "all_gather k, v",
                                            .heads = "local",
                                            .dim = "all_gather"};

// Inputs besides query, key and value, and other features, that only some
// operations support.
enum class Input : uint8_t {
  kBias,
  kMask,  // a boolean or an additive mask
  kDropout,
  kSegments,     // segment ids; packed tokens always have them
  kLeftPadding,  // AttentionProblem::key_starts; earlier keys are padding
  kSinksByKeyHead,
  kBlockTable,
};
using InputSet = EnumSet<Input>;
inline constexpr InputSet kDenseInputs = {
    Input::kBias,     Input::kMask,        Input::kDropout,
    Input::kSegments, Input::kLeftPadding, Input::kSinksByKeyHead};

// The state that an operation has between calls. `shardc verify` checks such an
// operation on traces, which are sequences of calls.
enum class StateTrace : uint8_t {
  kNone,
  // A KV cache: a trace prefills rows, inserts them into the cache and decodes.
  kCache,
  // A table of pages: in a trace, requests grow, share and release pages.
  kPages,
};

struct Operation {
  std::string_view name;
  std::string_view summary;
  Supports supports;

  // True if a compiler partitions the operation over global tensors. False if
  // it is a kernel that sees only the slices of its device.
  bool global_view = false;
  bool decode_only = false;  // true: T must be 1
  // True if the heads of key and value are sharded over the axes that shard the
  // query's heads.
  bool heads_on_keys = false;
  // True if query and key lengths must have the same axes. A query of length 1
  // is then not supported if the key length is sharded.
  bool equal_length_axes = false;
  // True if an all_to_all changes a sharding of the lengths to a sharding of
  // the heads. The number of devices in the all_to_all must then divide the
  // number of query heads on a device.
  bool exchanges_heads = false;
  // True if partial logits are all-reduced when the head dimension is sharded.
  bool adds_logits = false;
  // True if the key length may be sharded over axes that also shard the heads.
  bool context_parallel = false;

  // True if the operation computes full rows of logits. Only then can its
  // softmax be in 16 bits.
  bool narrow_softmax = false;
  // True if each block of keys has its own quantisation step in the quantised
  // matmul of weights and values.
  bool quantises_blocks = false;
  MaskedRows masked_rows = MaskedRows::kZero;

  // How the operation reads pages of keys and values, or nullopt if it reads
  // none. An operation on pages supports no bias, masks or dropout, and no
  // request whose length is sharded. If pages->causal_only is true, attention
  // of several queries must be causal.
  std::optional<PagedKernel> pages = std::nullopt;
  // True if the operation reads pages of MLA's latent rows, one for each token.
  bool latent = false;
  StateTrace trace = StateTrace::kNone;

  // The settings that affect the operation, apart from kCommonSettings.
  SettingSet settings = {};
  InputSet inputs = kDenseInputs;

  // Every operation must define `bytes` and `run`. `bytes` adds to `traffic`
  // the bytes that all devices send in a run. The function computes these bytes
  // from the layouts, without a run.
  void (&bytes)(Traffic& traffic);
  OperationOutcome (&run)(Machine& machine, const AttentionProblem& problem,
                          const AttentionSpecs& specs,
                          const OperationSettings& settings);

  bool IsPaged() const { return pages || latent; }
  bool Takes(Setting setting) const {
    return (kCommonSettings | settings).Has(setting);
  }
  bool Takes(Input input) const { return inputs.Has(input); }
  StageOptions Staging() const {
    return {equal_length_axes, narrow_softmax, Takes(Setting::kDotBits),
            heads_on_keys, IsPaged()};
  }
};

std::span<const Operation* const> Operations();
const Operation* FindOperation(std::string_view name);
// Returns the name of each operation and the settings that apply to it, which
// the parser of settings needs.
std::vector<KnownOperation> KnownOperations();

// Declares every operation that table.h lists. The source of an operation does
// not include this file but declares only its own operation. Adding an
// operation therefore does not recompile the others.

#define SHARDC_OPERATION(name) extern const Operation name;
#include "exec/operations/table.h"
#undef SHARDC_OPERATION

// Declares the program of the operation flash_decoding, for inputs that are
// already prepared (staging.h).

// Runs decoding on staged inputs. Keys and values are not copied, because they
// may be the buffers of a large cache.
OperationOutcome RunStagedDecoding(Machine& machine, Staged& staged,
                                   const OperationSettings& settings);

// Runs ring attention, and orders the tokens of a sequence for it.

// Returns the permutation of a sequence of L tokens: slot i holds token
// RingOrder(...)[i], and rank r has slots [r L/n, (r+1) L/n). L must be
// divisible by 2n for kZigZag and by n for kStriped.
std::vector<int64_t> RingOrder(SequenceOrder order, int64_t length, int64_t n);

// Returns the tensor whose slice i of `dim` is slice `order[i]` of `from`.
Buffer PermuteDim(const Buffer& from, size_t dim,
                  const std::vector<int64_t>& order);

// Permutes every input along its query and key lengths: tokens, positions,
// segment ids, bias and masks.
AttentionProblem PermuteProblem(const AttentionProblem& problem,
                                const std::vector<int64_t>& query_order,
                                const std::vector<int64_t>& key_order);

struct Staged;
struct RingSeam {
  // Returns the number of ring steps in which each rank processes its block.
  // The correct number is the number of ranks.
  std::function<int64_t(int64_t ranks)> steps = [](int64_t n) { return n; };
};
// Runs ring attention on slices. The lengths of query and key must be sharded
// over the same axes. Positions are inputs, so tokens may be in any order.
ShardedTensor PassKeysRound(Machine& machine, const Staged& staged,
                            const OperationSettings& settings);

// Runs a ring on tokens in the order `settings.order`: permutes the problem,
// runs the ring, and permutes the output back.
OperationOutcome RunPermutedRing(Machine& machine,
                                 const AttentionProblem& problem,
                                 const AttentionSpecs& specs,
                                 const OperationSettings& settings);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_OPERATION_H_
