// Computes the bytes that devices send in a step. Each collective that a plan
// makes necessary has a formula in the room comm, and each attention operation
// has its own.
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

namespace shardc::cost {

// Collectives of a step that differ only in size.
struct Transfer {
  std::string_view part;  // "parameters", "attention", "experts" ...
  bool backward = false;
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t count = 0;  // per step
  int64_t sent = 0;   // bytes that the busiest device sends, of all `count`
  double seconds = 0;
};

struct Communication {
  std::vector<Transfer> transfers;
  std::vector<std::string> unknown;  // parts that are left out, and why
  // Whether the collectives were read from the lowered program of the step
  // (cost/program.h). If not, they come from formulas for a layer.
  bool from_program = false;
  std::string why_not;  // why there is no program; empty: none was requested
  int64_t Sent() const;
  int64_t Sent(bool backward) const;
};

Communication CommunicationOf(const CostInputs& work, const Settings& settings);
// The same without what attention sends between its operands, which takes much
// longer to compute on many devices than all of the rest.
Communication CommunicationWithoutAttention(const CostInputs& work,
                                            const Settings& settings);

// Returns whether the backward pass recomputes the output projection of
// attention, and with it the sum of its partial results.
bool RecomputesOutputProjection(const Settings& settings);

// Sizes of one attention operation over all devices.
struct AttentionSizes {
  int64_t batch = 1, query_length = 1, key_length = 1;
  int64_t heads = 1, key_heads = 1, head_dim = 1;
  int64_t value_dim = 0;  // 0: head_dim
  // Latent attention caches this row for each token: the dims that all heads
  // share, and the rotated dims.
  int64_t latent_rank = 0, latent_rope_dim = 0;
  Dtype dtype = Dtype::kBF16, key_dtype = Dtype::kBF16;
};
// Returns the sizes in a step, or in one of its micro-batches; nullopt if the
// model's heads are unknown. The settings must have a batch and a length.
std::optional<AttentionSizes> AttentionSizesOf(const CostInputs& work,
                                               const Settings& settings);
// Returns the specs of the operation's operands. They are those of `work`,
// except for operations that need the keys sharded as the queries are.
exec::AttentionSpecs SpecsFor(const exec::Operation& operation,
                              const CostInputs& work);
struct AttentionBytes {
  std::vector<Transfer> transfers;  // without `seconds`
  std::string unknown;  // why they are unknown; empty: they are known
};
// Returns the bytes of one layer's forward pass, by the operation's own
// formula. The specs are in layout bthd.
AttentionBytes BytesOfAttention(const exec::Operation& operation,
                                const Mesh& mesh,
                                const exec::AttentionSpecs& specs,
                                const AttentionSizes& sizes,
                                const exec::OperationSettings& settings);
// Returns the settings' operation, or else the one that the mode uses by
// default.
const exec::Operation* UsualOperation(const CostInputs& work,
                                      const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_COMMUNICATION_H_
