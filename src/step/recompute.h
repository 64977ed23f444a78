// Rematerialisation: forward values that a gradient checkpoint policy does not
// keep are computed again in the backward phase.
#ifndef SHARDC_STEP_RECOMPUTE_H_
#define SHARDC_STEP_RECOMPUTE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/step_graph.h"

namespace shardc::step {

// Gradient checkpoint policies: which of a layer's tensors stay in memory
// between the forward and the backward pass, and which are rematerialised.
//
//   dots_saveable
//   save_only_these_names(q_proj,context)
//   save_from_both_policies(dots_with_no_batch_dims_saveable,
//                           save_only_these_names(context))

enum class Keep : uint8_t {
  kEverything,
  kNothing,
  kDots,
  kDotsWithoutBatch,
  kAnythingExcept,  // save_anything_except_these_names
  kAnyNamesBut,     // save_any_names_but_these
  kOnlyNames,       // save_only_these_names
  kFromBoth,        // save_from_both_policies
};

struct Remat {
  Keep keep = Keep::kEverything;
  std::vector<std::string> names;
  std::vector<Remat> both;
  std::string text = "everything_saveable";  // the policy as written
  // Returns whether the policy rematerialises any values.
  bool Recomputes() const { return keep != Keep::kEverything; }
  bool operator==(const Remat&) const = default;
};

// Returns the names of ten policies of JAX. Two of them are aliases:
// checkpoint_dots, for example, is the same policy as dots_saveable.
std::span<const std::string_view> RematNames();
// Explains why a string is not a policy (`why`), and what can be written
// instead (`help`), such as "the policies are: everything_saveable, ...".
struct RematRefusal {
  std::string why, help;
};
// Parses a policy. If the string is not a policy, returns nullopt and stores
// the reason in `refusal` or `why`. JAX's two policies that move tensors to the
// host are not supported.
std::optional<Remat> ParseRemat(std::string_view text, RematRefusal& refusal);
std::optional<Remat> ParseRemat(std::string_view text, std::string& why);

// How a tensor of a layer is computed.
enum class Made : uint8_t {
  kCarried,   // the layer's input, which every policy keeps
  kDot,       // A matmul without batch dimensions.
  kBatchDot,  // A matmul with batch dimensions.
  kOther,
};

struct Candidate {
  std::string_view name;
  std::string_view also;  // The tensor's name in MaxText; may be empty.
  Made made = Made::kOther;
  bool named = false;  // Whether a policy can list the tensor by name.
  // `read` is whether the backward pass reads the tensor if nothing is
  // rematerialised. `spares` is whether keeping the tensor saves work in the
  // rematerialised forward pass.
  bool read = true, spares = true;
};
bool Keeps(const Remat& policy, const Candidate& tensor);
// Returns whether the policy keeps all tensors that the backward pass reads,
// except those that it lists. Tensors that only the forward pass reads are then
// not rematerialised, although they are not kept.
bool KeepsUnlisted(const Remat& policy);

// Changes a graph so that its backward phase rematerialises values. The graph
// must have its backward phase (op_def.h) and no optimizer. The rematerialising
// ops of a layer are placed together, before the first op of the layer's
// backward pass. Values from outside the layer, and values that other layers
// read, are kept. Values of the layer are kept if the policy keeps them and the
// backward phase reads them.
void Recompute(Graph& graph, const Remat& policy);

}  // namespace shardc::step

#endif  // SHARDC_STEP_RECOMPUTE_H_
