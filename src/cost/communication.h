// Computes the bytes that devices send in a step. The formulas for the bytes of
// collectives are in src/comm. Each attention operation has its own formula.
#ifndef SHARDC_COST_COMMUNICATION_H_
#define SHARDC_COST_COMMUNICATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "cost/inputs.h"
#include "cost/settings.h"
#include "model/not_known.h"

namespace shardc::cost {

// The collectives of a step that belong to the same part of the report, run in
// the same pass (forward or backward), and have the same kind and axes. Their
// sizes may differ.
struct Transfer {
  std::string_view part;  // "parameters", "attention", "experts" ...
  bool backward = false;
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t count = 0;  // number of collectives in a step
  int64_t sent = 0;   // bytes that the busiest device sends in all `count`
  double seconds = 0;
};

struct Communication {
  std::vector<Transfer> transfers;
  // The facts that the bytes need and that are not known. The parts of the step
  // that need them are not included.
  std::vector<NotKnown> unknown;
  // True if the collectives were read from the lowered program of the step
  // (cost/program.h), false if they come from formulas for a layer.
  bool from_program = false;
  // The reason why the lowered program could not be used; may be empty.
  std::string why_not;
  // False if nothing is included, because the roles of parameters are not
  // known.
  bool roles_known = true;
  // False if the heads of attention, and with them its operations, are not
  // known.
  bool heads_known = true;
  // True if the bytes of attention are not included and may not be 0.
  bool lacks_attention = false;
  int64_t Sent() const;
  int64_t Sent(bool backward) const;
  // Returns the bytes; nullopt if a part of the step is not included that may
  // send some.
  std::optional<int64_t> Known(int64_t bytes) const {
    return roles_known && !lacks_attention ? std::optional(bytes)
                                           : std::nullopt;
  }
};

Communication CommunicationOf(const CostInputs& work, const Settings& settings);
// Returns the communication except the bytes that the attention operation
// itself sends. On many devices, computing these bytes takes much longer than
// computing all others.
Communication CommunicationWithoutAttention(const CostInputs& work,
                                            const Settings& settings);

// Returns whether the backward pass recomputes the output projection of
// attention. If so, the backward pass also repeats the collective that sums the
// projection's partial results.
bool RecomputesOutputProjection(const Settings& settings);

// The unsharded sizes of the operands of one attention operation.
struct AttentionSizes {
  int64_t batch = 1, query_length = 1, key_length = 1;
  int64_t heads = 1, key_heads = 1, head_dim = 1;
  int64_t value_dim = 0;  // 0 if it equals head_dim
  // For each token, latent attention caches `latent_rank` numbers, from which
  // the keys and values of all heads are computed, and `latent_rope_dim`
  // rotated numbers.
  int64_t latent_rank = 0, latent_rope_dim = 0;
  Dtype dtype = Dtype::kBF16, key_dtype = Dtype::kBF16;
};
// Returns the sizes for one micro-batch. Returns nullopt if the model's heads
// or head dimension are unknown. The settings must have a batch. If they have
// no length, the length is 1.
std::optional<AttentionSizes> AttentionSizesOf(const CostInputs& work,
                                               const Settings& settings);
// Returns the shardings (specs) of the operation's query, key, value and
// result. They are copied from `work`. If Operation::heads_on_keys is true, the
// heads of the keys and values are sharded over the axes of the query's heads
// instead.
exec::AttentionSpecs SpecsFor(const exec::Operation& operation,
                              const CostInputs& work);
struct AttentionBytes {
  std::vector<Transfer> transfers;  // `seconds` is not set
  // The reason why the bytes are unknown; empty if they are known.
  std::string unknown;
};
// Returns the bytes that one layer's forward pass sends, computed by the
// operation's own formula. The specs are in dimension order bthd.
AttentionBytes BytesOfAttention(const exec::Operation& operation,
                                const Mesh& mesh,
                                const exec::AttentionSpecs& specs,
                                const AttentionSizes& sizes,
                                const exec::OperationSettings& settings);
// Returns the attention operation that the settings name. If they name none,
// returns the operation that the mode uses by default.
const exec::Operation* UsualOperation(const CostInputs& work,
                                      const Settings& settings);

// Appends the transfers of the attention operation in all layers and
// micro-batches to `out`. If their bytes are unknown, appends the reason to
// Communication::unknown.
void AddAttention(const CostInputs& work, const Settings& settings,
                  Communication& out);

}  // namespace shardc::cost

#endif  // SHARDC_COST_COMMUNICATION_H_
