// How long a step takes: collectives over the accelerator's links by an
// alpha-beta model, products and memory by the roofline.
#ifndef SHARDC_COST_TIME_H_
#define SHARDC_COST_TIME_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/collective.h"
#include "cost/communication.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "cost/work.h"
#include "devices/profiles.h"

namespace shardc::cost {

// What a device reaches, and how fast; bytes and seconds.
struct Network {
  Fabric fabric = Fabric::kSwitch;
  double device_rate = 0;  // over all its links, one way
  double link_rate = 0;    // over one
  int64_t inside = 1;      // devices that the fast links join, with itself
  double leaving = 0;      // from all of those together
  double start = 0, step = 0, far_step = 0;  // alpha: once, near, far
};
// Devices that the fast links join: of a switch a host's, as the mesh's
// processes have them or else the profile; of a torus a slice.
Network NetworkOf(const DeviceProfile& profile, const Mesh& mesh);

// How a group along axes lies on it.
struct Place {
  int64_t members = 1;
  int64_t near = 1;            // of them inside, with each one
  int64_t domains = 1;         // members / near
  int64_t sharing = 1;         // groups that leave one domain together
  std::vector<int64_t> sides;  // by axis, inside
};
Place PlaceOf(const Mesh& mesh, const Network& network, const AxisGroup& axes);

// Of one collective whose busiest member sends so many bytes.
double CollectiveSeconds(const Network& network, const Place& place,
                         Collective kind, double sent);

enum class Bound : uint8_t { kCompute, kMemory, kCommunication };
inline constexpr std::string_view kBoundNames[] = {"compute", "memory",
                                                   "communication"};

struct Time {
  double compute = 0, memory = 0, communication = 0;  // seconds
  Bound bound = Bound::kCompute;
  double Least() const;  // all three overlap
  double Most() const;   // none does
};

// Operations of a device in a step, 2 a multiplication with its addition.
// Nothing without tokens.
std::optional<double> FlopsOf(const Work& work, const Settings& settings,
                              const Memory& memory);
// Nothing without a profile or tokens; fills the transfers' seconds.
std::optional<Time> TimeOf(const Work& work, const Settings& settings,
                           const Memory& memory, Communication& communication);

}  // namespace shardc::cost

#endif  // SHARDC_COST_TIME_H_
