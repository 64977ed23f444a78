// Computes the time of a step: collectives over the accelerator's links by an
// alpha-beta model, matmuls and memory by the roofline model. The matmuls of a
// step on a device are listed first.
#ifndef SHARDC_COST_TIME_H_
#define SHARDC_COST_TIME_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "cost/activations.h"
#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "devices/profiles.h"
#include "roles/role.h"

namespace shardc::cost {

// Lists the matmuls of a step on a device.

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

// The rates of a device's links in bytes per second, and their latencies in
// seconds.
struct Network {
  Fabric fabric = Fabric::kSwitch;
  // The bytes per second in one direction of all links of a device together,
  // and of one link.
  double device_rate = 0;
  double link_rate = 0;
  // The number of devices that the fast links join.
  int64_t inside = 1;
  // The bytes per second that `inside` devices together send to other devices.
  double leaving = 0;
  // Latencies: `start` of each collective, `step` of a hop over the fast links,
  // `far_step` of a hop over the slow links.
  double start = 0, step = 0, far_step = 0;
};
// Returns the network of a mesh. In a switched network, the fast links join the
// devices of a host. The number of these devices comes from the mesh's
// processes or, if the mesh has none, from the profile. In a torus, the fast
// links join as many chips as the profile states or, if it states no number,
// the devices of a slice.
Network NetworkOf(const DeviceProfile& profile, const Mesh& mesh);

// The distribution of the devices of one group along some axes over the
// network. A domain is the set of devices that the fast links join.
struct GroupSpan {
  int64_t members = 1;
  // The number of members in one domain, including the device itself.
  int64_t near = 1;
  // The number of domains over which the group extends: members / near.
  int64_t domains = 1;
  // The number of groups that share the outgoing links of a domain.
  int64_t sharing = 1;
  // The number of members in one domain along each axis.
  std::vector<int64_t> sides;
};
GroupSpan SpanOf(const Mesh& mesh, const Network& network,
                 const AxisGroup& axes);

bool IsTorus(Fabric fabric);
// Returns the peak rate, in bytes per second, from a device to the members of
// its group in the same domain.
double NearRate(const Network& network, const GroupSpan& place);

// Returns the seconds of one collective whose busiest member sends this many
// bytes.
double CollectiveSeconds(const Network& network, const GroupSpan& place,
                         Collective kind, double sent);

enum class Bound : uint8_t { kCompute, kMemory, kCommunication };
inline constexpr std::string_view kBoundNames[] = {"compute", "memory",
                                                   "communication"};

struct Time {
  double compute = 0, memory = 0, communication = 0;  // seconds
  Bound bound = Bound::kCompute;
  double Least() const;  // the time of a step if all three overlap
  double Most() const;   // the time of a step if none of them overlap
};

// Returns the floating-point operations of a device in a step. A multiply-add
// is two operations. Returns nullopt in the same cases as TokensOf, and if the
// role of a parameter is not known (CostInputs::not_known).
std::optional<double> FlopsOf(const CostInputs& work, const Settings& settings,
                              const Memory& memory);
// Returns the floating-point operations that all devices of the mesh need for a
// step in total: each operation is counted once, however many devices repeat
// it, and nothing is rematerialised. Returns nullopt in the same cases as
// FlopsOf.
std::optional<double> ModelFlopsOf(const CostInputs& work,
                                   const Settings& settings);
// Returns the time of a step, and sets `seconds` of each transfer. Returns
// nullopt without a profile, if the communication needs a fact that the user
// did not give, and in the same cases as FlopsOf.
std::optional<Time> TimeOf(const CostInputs& work, const Settings& settings,
                           const Memory& memory, Communication& communication);

}  // namespace shardc::cost

#endif  // SHARDC_COST_TIME_H_
