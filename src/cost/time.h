// Computes the time of a step: collectives over the accelerator's links by an
// alpha-beta model, matmuls and memory by the roofline model.
#ifndef SHARDC_COST_TIME_H_
#define SHARDC_COST_TIME_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "cost/communication.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "devices/profiles.h"

namespace shardc::cost {

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
struct Place {
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
Place PlaceOf(const Mesh& mesh, const Network& network, const AxisGroup& axes);

bool IsTorus(Fabric fabric);
// Returns the peak rate, in bytes per second, from a device to the members of
// its group in the same domain.
double NearRate(const Network& network, const Place& place);

// Returns the seconds of one collective whose busiest member sends this many
// bytes.
double CollectiveSeconds(const Network& network, const Place& place,
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
// Returns the time of a step, and sets `seconds` of each transfer. Returns
// nullopt without a profile, if the communication needs a fact that the user
// did not give, and in the same cases as FlopsOf.
std::optional<Time> TimeOf(const CostInputs& work, const Settings& settings,
                           const Memory& memory, Communication& communication);

}  // namespace shardc::cost

#endif  // SHARDC_COST_TIME_H_
