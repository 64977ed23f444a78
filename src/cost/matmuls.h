// Lists the matmuls of a step on a device.
#ifndef SHARDC_COST_MATMULS_H_
#define SHARDC_COST_MATMULS_H_

#include <optional>
#include <vector>

#include "cost/activations.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "roles/role.h"

namespace shardc::cost {

// A matmul of a micro-batch's rows with a weight, in the forward pass.
struct Matmul {
  Role role = Role::kOther;
  // Whether the weight is that of a routed expert, or of an expert that all
  // tokens of a layer with experts pass through.
  bool expert = false, shared_expert = false;
  // True if the weight has no gradient, so that the backward pass computes only
  // the gradient of the rows.
  bool frozen = false;
  // The sizes of the matmul on a device: [rows, in] times [in, out].
  double rows = 0, in = 0, out = 0;
  // The number of weights among which the rows are divided, such as experts.
  double matrices = 1;
  // The number of layers that have this matmul.
  double layers = 1;

  // Returns whether the matmul belongs to the MLP of a layer without experts.
  bool OfDenseMlp() const { return IsMlp(role) && !expert && !shared_expert; }
  double Flops() const { return 2 * rows * in * out * layers; }
};

// Returns the products with the weights of all layers, with the convolutions of
// an audio encoder, and with the head. If the head shares the embedding table,
// the matmul of the head is that with the table.
std::vector<Matmul> MatmulsOf(const CostInputs& work, const Tokens& tokens);

// Returns the number of parts into which a step divides the query heads. Axes
// shard the heads, from the first axis on, as long as the product of their
// sizes divides the number of heads. The heads are replicated over the
// remaining axes. If the number of heads is unknown, all axes shard the heads.
int64_t HeadParts(const CostInputs& work);

// Returns the floating-point operations of the attention scores (queries times
// keys) and of the weighted sums of the values, on a device: in the forward
// pass of one micro-batch, over all layers. Returns 0 if the heads, their
// dimension or the layers are unknown.
double AttentionFlops(const CostInputs& work, const Tokens& tokens);

// Returns the bytes of parameters, cache, gradients and optimizer states that a
// device reads and writes in a step. Bytes that `memory` does not have are left
// out.
double MemoryTrafficOf(const CostInputs& work, const Settings& settings,
                       const Memory& memory);

// Returns the parts over which the tokens are divided that are sent to the same
// experts: the devices along an axis that shards both experts and tokens send
// their tokens to each other's experts.
int64_t SendersTo(const CostInputs& work, const ParamClass& experts);

// Returns the fraction of a device's experts that the tokens of a serving step
// choose, on average over layers. Returns nullopt in training, without experts,
// and if the tokens are unknown.
std::optional<double> ChosenExperts(const CostInputs& work,
                                    const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_MATMULS_H_
