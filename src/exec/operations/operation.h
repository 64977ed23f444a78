// Room: exec/operations. The attention operations, one file each, and their
// table.
// Includes: source, model, floats, comm, exec/machine, exec/attention,
// exec/pages.
//
// The operations: each is a record of its properties and the program that the
// real kernel runs. Code that depends on the operation reads the record, never
// the name. A new operation is a source in this folder that defines its record,
// and a line in table.h.
//
// There are two kinds. For the global view (vanilla) a compiler inserts the
// collectives, so any legal layout gives right numbers and only bytes are
// checked. The others have the local view: the kernel trusts its slices, so a
// layout that it does not expect gives wrong numbers.
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

// What an operation does with a dimension's axes: "local" needs nothing, "-" is
// unsupported, any other text names the collective.
struct Supports {
  std::string_view batch, query_length, key_length, heads, dim;
};

// A kernel on local slices whose wrapper keeps the axes of batch and heads and
// gathers the rest; LocalBytes (traffic.h) is its formula.
inline constexpr Supports kLocalSupports = {.batch = "local",
                                            .query_length = "all_gather q",
                                            .key_length = "all_gather k, v",
                                            .heads = "local",
                                            .dim = "all_gather"};

// Inputs besides query, key and value; not every operation takes each.
enum class Input : uint8_t {
  kBias,
  kMask,  // boolean or additive
  kDropout,
  kSegments,     // of rows; packed tokens always have segments
  kLeftPadding,  // key starts
  kSinksByKeyHead,
  kBlockTable,
};
using InputSet = EnumSet<Input>;
inline constexpr InputSet kDenseInputs = {
    Input::kBias,     Input::kMask,        Input::kDropout,
    Input::kSegments, Input::kLeftPadding, Input::kSinksByKeyHead};

// The state between calls that verification follows step by step.
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
  bool decode_only = false;  // T = 1
  // Key and value are sharded over the query's head axes (the MHA spec).
  bool heads_on_keys = false;
  // Query and key lengths have the same axes, so a query of length 1 is not
  // supported where keys are sharded by length.
  bool equal_length_axes = false;
  // Lengths are exchanged for heads, whose number the lengths' axes must
  // divide.
  bool exchanges_heads = false;
  // Partial logits of a sharded head dimension are added.
  bool adds_logits = false;
  // The keys' length may share axes with the heads.
  bool context_parallel = false;

  // Rows of logits are computed in full, so the softmax may be in 16 bits.
  bool narrow_softmax = false;
  // A quantised matmul of weights and values has a step for each key block.
  bool quantises_blocks = false;
  MaskedRows masked_rows = MaskedRows::kZero;

  // The layout of pages of keys and values, if the operation reads keys from
  // such pages: causal attention of complete requests, without masks.
  std::optional<PagedKernel> pages = std::nullopt;
  // Whether the operation reads pages of latent rows, one row for each token.
  bool latent = false;
  StateTrace trace = StateTrace::kNone;

  // Settings that affect the operation, in addition to kCommonSettings.
  SettingSet settings = {};
  InputSet inputs = kDenseInputs;

  // `bytes` and `run` have no default: every operation defines them. `bytes`
  // adds the bytes that all devices send in a run, computed from the layouts.
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
