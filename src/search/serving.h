// Finds how a number of devices serves a model: the layout of an instance of an
// engine, the number of instances, and the requests that each serves at once.
#ifndef SHARDC_SEARCH_SERVING_H_
#define SHARDC_SEARCH_SERVING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/expected.h"
#include "cost/serving.h"
#include "model/mesh.h"
#include "model/not_known.h"
#include "search/request.h"

namespace shardc::search {

struct ServeTargets {
  // The engine and the lengths of requests. Slots are searched.
  cost::ServingRequest requests;
  // The most seconds to the first token (TTFT), and of each further token
  // (TPOT). Compared are the expected TPOT, and the lower bound of TTFT, which
  // is known less well.
  double first = 0, token = 0;
  // The requests that arrive each second. nullopt: as many as all devices can
  // serve.
  std::optional<double> arriving;
  // Whether instances that prefill and decode are tried, and pairs of instances
  // that do one of the two.
  bool aggregated = true, disaggregated = true;
  // Returns the text of a rules file.
  std::function<std::string(const RulesFile&)> rules_text;
};

// What the devices of an instance do.
enum class Serves : uint8_t { kBoth, kPrefill, kDecode };
inline constexpr std::string_view kServesNames[] = {"both", "prefill",
                                                    "decode"};

// The sharding of a model on the devices of one instance. Attention is sharded
// over `tensor` devices in each of `ranks` groups, which have different
// requests; experts are on `experts` groups of devices.
struct ServingLayout {
  int64_t tensor = 1, ranks = 1, experts = 1;
  Mesh mesh;
  RulesFile file;
  std::string rules;  // the text of `file`
};

struct ServingSide {
  Serves serves = Serves::kBoth;
  ServingLayout layout;
  int64_t instances = 0;
  cost::ServingReport report;  // of one instance
};

// Instances that meet both targets.
struct Serving {
  std::vector<ServingSide> sides;  // prefill first, or the one for both
  int64_t used = 0;                // devices of all instances
  cost::Between first, token;
  cost::Between requests;  // each second, that all instances can serve
  double transfer = 0;     // seconds that a cache needs to decoding devices
  // Generated tokens each second and device. The devices are those that are
  // given, or with `arriving` those that are used.
  double rate = 0;
  // TPOT with one request in each attention rank. The fraction by which the
  // target is above it is `margin`.
  double floor = 0, margin = 0;
  // The seconds of a device for each generated token. The sum is 1 / rate.
  std::vector<cost::TimePart> device_time;
};

// Why a layout is not among the layouts within kTie of the best.
enum class Shortfall : uint8_t {
  kRate,      // seconds of a device for a token, beyond those of the best
  kToken,     // TPOT with one request in each attention rank
  kFirst,     // TTFT with one request in each attention rank
  kMemory,    // bytes of the weights, the runtime and one request
  kRequests,  // requests each second that all devices can serve
};
inline constexpr std::string_view kShortfallNames[] = {"rate", "tpot", "ttft",
                                                       "memory", "requests"};

struct NotServing {
  Shortfall shortfall = Shortfall::kRate;
  // The layout that falls short. A second side is set only for kRate and
  // kRequests.
  std::vector<ServingSide> sides;
  double value = 0, limit = 0;
  double least = 0;  // the lower bound of `value` for kFirst; else 0
  // The sum is `value`; empty for kRequests. Seconds, or bytes for kMemory.
  std::vector<cost::TimePart> parts;
};

// Layouts that are not compared, and why.
struct RefusedServing {
  std::vector<std::string> layouts;
  std::vector<std::string> reasons;
};

struct FoundServing {
  // The layouts whose rate is within kTie of the best, the best first.
  std::vector<Serving> layouts;
  std::vector<NotServing> others;
  std::vector<RefusedServing> refused;
  // The facts that times need and that are not known. If there are any, nothing
  // is compared.
  std::vector<NotKnown> not_known;
  int64_t evaluated = 0;  // the number of computed steps
  std::vector<std::string> assumptions;
};

// Of 148 targets between the floors of published layouts, the list had a member
// within 10 % of the best measured layout in 90 %, and its first member was
// within 10 % in 81 % (tests/cli/serving_points_test.py).
inline constexpr double kTie = 0.15;
// A target that is closer to a layout's floor than this fraction may be missed.
inline constexpr double kNearFloor = 0.2;

// The settings of the request must have a profile. Its modes must include
// prefill and decode, and the engine of the targets must not be null.
FoundServing SearchServing(const Request& request, const ServeTargets& targets);

// Returns a layout as text: "tp 4, attention dp 2, ep 8".
std::string LayoutText(const ServingLayout& layout);

}  // namespace shardc::search

#endif  // SHARDC_SEARCH_SERVING_H_
