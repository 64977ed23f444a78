// What the devices send in a step: each collective that a plan makes a model's
// step need, with its bytes by the formulas of comm, and of attention's
// operations by their own.
#ifndef SHARDC_COST_COMMUNICATION_H_
#define SHARDC_COST_COMMUNICATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "cost/settings.h"
#include "cost/work.h"

namespace shardc::cost {

// Alike collectives of a step.
struct Transfer {
  std::string_view part;  // "parameters", "attention", "experts" ...
  bool backward = false;
  Collective kind = Collective::kAllGather;
  AxisGroup axes;
  int64_t count = 0;  // in a step
  int64_t sent = 0;   // bytes that leave the busiest device, of all `count`
  double seconds = 0;
};

struct Communication {
  std::vector<Transfer> transfers;
  std::vector<std::string> unknown;  // what is left out, and why
  bool from_program = false;         // a step's; else by formulas of a layer
  std::string why_not;               // it is not; empty: nobody asked
  int64_t Sent() const;
  int64_t Sent(bool backward) const;
};

Communication CommunicationOf(const Work& work, const Settings& settings);

// Sizes of one attention, of all devices together.
struct AttentionSizes {
  int64_t batch = 1, query_length = 1, key_length = 1;
  int64_t heads = 1, key_heads = 1, head_dim = 1;
  int64_t value_dim = 0;  // 0: head_dim
  // Latent attention's row: the part that all heads share, and the rotated one.
  int64_t latent_rank = 0, latent_rope_dim = 0;
  Dtype dtype = Dtype::kBF16, key_dtype = Dtype::kBF16;
};
struct AttentionBytes {
  std::vector<Transfer> transfers;  // `seconds` left out
  std::string unknown;              // why they are not known; empty: they are
};
// Of one layer's forward pass, by the operation's own formula; layouts are in
// bthd.
AttentionBytes BytesOfAttention(const exec::Operation& operation,
                                const Mesh& mesh,
                                const exec::AttentionSpecs& specs,
                                const AttentionSizes& sizes,
                                const exec::OperationSettings& settings);
// The one that a mode usually runs.
const exec::Operation* UsualOperation(const Work& work,
                                      const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_COMMUNICATION_H_
