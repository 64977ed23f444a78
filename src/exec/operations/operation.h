// Room: exec/operations. The attention operations, one file each, and their
// table.
// Includes: source, model, floats, comm, exec/machine, exec/attention,
// exec/pages.
//
// An operation is a record of its properties and the program that the real
// kernel runs. Code that depends on the operation reads the record, never the
// name. To add an operation, add a source that defines its record to this
// folder, and a line to table.h.
//
// There are two kinds. An operation with the global view (vanilla) gets its
// collectives from a compiler, so every legal layout gives right results and
// only bytes need a check. All other operations have the local view: the kernel
// trusts its slices, so a layout that it does not expect gives wrong results.
#ifndef SHARDC_EXEC_OPERATIONS_OPERATION_H_
#define SHARDC_EXEC_OPERATIONS_OPERATION_H_

#include <cstdint>
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
#include "source/enum_set.h"

namespace shardc::exec {

// The collective that an operation needs if a dimension is sharded. "local"
// means that it needs no collective, "-" that it does not support such a
// sharding.
struct Supports {
  std::string_view batch, query_length, key_length, heads, dim;
};

// The collectives of a kernel on local slices whose wrapper keeps the axes of
// batch and heads and gathers all other dimensions. LocalBytes (traffic.h)
// computes its bytes.
inline constexpr Supports kLocalSupports = {.batch = "local",
                                            .query_length = "all_gather q",
                                            .key_length = "all_gather k, v",
                                            .heads = "local",
                                            .dim = "all_gather"};

// Inputs besides query, key and value, and other features, that only some
// operations support.
enum class Input : uint8_t {
  kBias,
  kMask,  // boolean or additive
  kDropout,
  kSegments,     // segment ids of rows; packed tokens always have them
  kLeftPadding,  // starts of the keys of rows
  kSinksByKeyHead,
  kBlockTable,
};
using InputSet = EnumSet<Input>;
inline constexpr InputSet kDenseInputs = {
    Input::kBias,     Input::kMask,        Input::kDropout,
    Input::kSegments, Input::kLeftPadding, Input::kSinksByKeyHead};

// The state that an operation has between calls. `shardc verify` checks an
// operation with such a state call by call.
enum class StateTrace : uint8_t {
  kNone,
  kCache,  // prefill, insertion and decoding over a cache
  kPages,  // requests that grow, share and release pages
};

struct Operation {
  std::string_view name;
  std::string_view summary;
  Supports supports;

  // Whether a compiler partitions the operation over global tensors. If false,
  // it is a kernel that sees only the slices of its device.
  bool global_view = false;
  bool decode_only = false;  // for one query of each row only: T = 1
  // Whether key and value are sharded over the query's head axes (the MHA
  // spec).
  bool heads_on_keys = false;
  // Whether query and key lengths must have the same axes. A query of length 1
  // is then not supported if the key length is sharded.
  bool equal_length_axes = false;
  // Whether an all_to_all exchanges lengths for heads. The axes of the lengths
  // must then divide the heads.
  bool exchanges_heads = false;
  // Whether partial logits are added if the head dimension is sharded.
  bool adds_logits = false;
  // Whether the key length may share axes with the heads.
  bool context_parallel = false;

  // Whether full rows of logits are computed, so that the softmax may be in 16
  // bits.
  bool narrow_softmax = false;
  // Whether a quantised matmul of weights and values has its own quantisation
  // step for each block of keys.
  bool quantises_blocks = false;
  MaskedRows masked_rows = MaskedRows::kZero;

  // How the operation reads pages of keys and values, or nullopt if it reads no
  // such pages. An operation on pages supports no bias, masks or dropout, and
  // no request whose length is sharded. If `causal_only` is set, attention of
  // several queries must be causal.
  std::optional<PagedKernel> pages = std::nullopt;
  // Whether the operation reads pages of latent rows, one row for each token.
  bool latent = false;
  StateTrace trace = StateTrace::kNone;

  // The settings that affect the operation besides kCommonSettings.
  SettingSet settings = {};
  InputSet inputs = kDenseInputs;

  // Every operation must define `bytes` and `run`. `bytes` adds the bytes that
  // all devices send in a run, computed from the layouts.
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
// Returns the operations in the form that readers of settings need.
std::vector<KnownOperation> KnownOperations();

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_OPERATION_H_
