// The operations: each a record of what it is, and the program that its real
// counterpart runs. Whatever depends on the operation asks the record, never
// the name.
//
// A new one is a source in this folder that defines its record, and a line in
// table.h.
//
// Two kinds. Of the global view (vanilla) the compiler inserts collectives,
// so that any legal layout is right and only bytes are judged. The others see
// the local view: the kernel trusts its slices, so that a layout it does not
// expect shows as wrong numbers.
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

// What an operation does with a dimension's axes: "local" needs nothing,
// "-" is unsupported, the rest names the collective.
struct Supports {
  std::string_view batch, query_length, key_length, heads, dim;
};

// A kernel on local slices, whose wrapper keeps the axes of batch and heads and
// gathers the rest: LocalBytes (traffic.h) is its formula.
inline constexpr Supports kLocalSupports = {.batch = "local",
                                            .query_length = "all_gather q",
                                            .key_length = "all_gather k, v",
                                            .heads = "local",
                                            .dim = "all_gather"};

// What may stand beside query, key and value; not every operation takes it.
enum class Input : uint8_t {
  kBias,
  kMask,  // of either kind
  kDropout,
  kSegments,     // of rows; packed tokens always have them
  kLeftPadding,  // key starts
  kSinksByKeyHead,
  kBlockTable,
};
using InputSet = EnumSet<Input>;
inline constexpr InputSet kDenseInputs = {
    Input::kBias,     Input::kMask,        Input::kDropout,
    Input::kSegments, Input::kLeftPadding, Input::kSinksByKeyHead};

// What of its state between calls verification follows, step by step.
enum class StateTrace : uint8_t {
  kNone,
  kCache,  // prefill, insertion and decoding over a cache
  kPages,  // requests that grow, share and release pages
};

struct Operation {
  std::string_view name;
  std::string_view summary;
  Supports supports;

  // The compiler's view of whole tensors, not a kernel's of its slices.
  bool global_view = false;
  bool decode_only = false;  // T = 1
  // Key and value are split over the query's head axes (the MHA spec).
  bool heads_on_keys = false;
  // T and S are split over the same axes, so that one query row cannot be
  // served where keys are split.
  bool lengths_alike = false;
  // Lengths are exchanged for heads, which the lengths' axes divide.
  bool exchanges_heads = false;
  // Partial logits of a split head dimension are added.
  bool adds_logits = false;
  // The keys' length may share axes with the heads.
  bool context_parallel = false;

  // Whole rows of logits are at hand: the softmax may be in 16 bits.
  bool narrow_softmax = false;
  // A quantised matmul of weights and values counts within key blocks.
  bool quantises_blocks = false;
  MaskedRows masked_rows = MaskedRows::kZero;

  // Keys lie in pages: causal attention of whole requests, without masks.
  // Those of keys and values ...
  std::optional<PagedKernel> pages = std::nullopt;
  // ... or of one latent row a token.
  bool latent = false;
  StateTrace trace = StateTrace::kNone;

  // That have a meaning for it, beside those that have one for all.
  SettingSet settings = {};
  InputSet inputs = kDenseInputs;

  // Without these two there is no operation: a reference must be given.
  // What leaves all devices over a run, as a formula of layouts.
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
    return {lengths_alike, narrow_softmax, Takes(Setting::kDotBits),
            heads_on_keys, IsPaged()};
  }
};

std::span<const Operation* const> Operations();
const Operation* FindOperation(std::string_view name);
// As readers of settings know them.
std::vector<KnownOperation> KnownOperations();

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_OPERATIONS_OPERATION_H_
