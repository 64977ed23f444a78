// Computes what an engine such as vLLM reaches with a plan: the requests that
// fit, the time of a token (TPOT), and tokens per second.
#ifndef SHARDC_COST_SERVING_H_
#define SHARDC_COST_SERVING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/expected.h"
#include "cost/inputs.h"
#include "cost/settings.h"
#include "devices/serving.h"
#include "model/not_known.h"

namespace shardc::cost {

enum class Fill : uint8_t { kNone, kSlots, kContext };
inline constexpr std::string_view kFillNames[] = {"none", "slots", "context"};

struct ServingRequest {
  std::shared_ptr<const EngineProfile> engine;  // null: no times
  // The requests that are served at once by all devices; in prefill, the
  // prompts that are prefilled together, at least one on each attention rank.
  // With Fill::kSlots it is nullopt, and becomes the largest number that fits.
  std::optional<int64_t> slots;
  // The tokens of a prompt, and those that are generated for it. With
  // Fill::kContext, `input` becomes the largest number that fits.
  int64_t input = 0, output = 0;
  // The formats of the weights of layers and of their experts. nullopt: the
  // format is that of the stored tensors.
  std::optional<ServedFormat> linear, experts;
  // Returns the format of the weight of a module, by the configuration of a
  // quantised model; nullopt if no engine's format is like it. Empty if the
  // configuration states no formats.
  std::function<std::optional<ServedFormat>(std::string_view module)> stored;
  Fill fill = Fill::kNone;
  // True if some devices only prefill, and others only decode.
  bool disaggregated = false;
  // The settings of the scheduler, and which of them are stated. The others are
  // those that the engine has without a flag.
  SchedulerSettings scheduler;
  std::vector<SchedulerSetting> stated;
  // Whether to compute the time to the first token with each value of the
  // setting that it depends on most.
  bool weighs_settings = false;
};

struct Between {
  double least = 0, expected = 0, most = 0;
};

// Times are in seconds, bytes are those of a device.
struct ServingTimes {
  // The parts of a decode step, or of a prefill.
  std::vector<TimePart> parts;
  double step = 0;  // the sum of the parts
  // The requests that run at once; others wait for room in the cache.
  double running = 0;
  // The prefill of a prompt, or of the prompts that are prefilled together.
  double prefill = 0;
  double between = 0;  // added to each decode step by the prefill of others
  Between token;       // TPOT
  // TTFT; nullopt if it is not known, or if other devices prefill. The parts
  // sum to the expected time.
  std::optional<Between> first;
  std::vector<TimePart> first_parts;
  // Of the queue: the mean TTFT without the requests of the start, and two
  // percentiles. No published table has them.
  double first_steady = 0, first_median = 0, first_99 = 0;
  // The setting that is not stated and moves TTFT most, and the expected TTFT
  // if its value in the engine's file is stated, or each other value in use.
  std::optional<SchedulerSetting> weighty;
  std::vector<std::pair<std::string, double>> weighed;
  // Why TTFT is not known; empty if it is known.
  std::string first_unknown;
  Between rate;  // tokens per second and device
};

struct ServingReport {
  std::string target;
  Mode mode = Mode::kDecode;
  Mesh mesh;
  const DeviceProfile* profile = nullptr;
  ServingRequest request;       // with the filled numbers
  int64_t attention_ranks = 1;  // the groups that have different requests
  std::optional<int64_t> capacity, weights;
  // True if kernels of the engine pad weights by sizes that are not known, so
  // that `weights` is a lower bound.
  bool weights_at_least = false;
  int64_t reserve = 0;
  // The bytes of one token, and of one request of `input` + `output` tokens.
  std::optional<int64_t> cache_token, cache_request;
  // The requests that fit at full length, and at the length that they have on
  // average with a margin: input + 0.6 output.
  std::optional<int64_t> full_slots, mean_slots;
  // The tokens of a request that fit if all slots are taken.
  std::optional<int64_t> context;
  // What a decode step reads: bytes of weights and of the cache, and experts of
  // a layer on a device.
  double weights_read = 0, cache_read = 0;
  double experts_read = 0, experts = 0;
  std::optional<ServingTimes> times;
  // Why no published step supports the times; empty if one does.
  std::vector<std::string> unmeasured;
  std::vector<NotKnown> unknown;
  std::vector<std::string> assumptions;
};

// TTFT is not known if the requests take more than this fraction of those for
// which the cache has room: an error of 20 % in room then makes it wrong by 10
// times.
inline constexpr double kFullCache = 0.8;

// Returns whether all settings that an engine has are stated.
bool StatesAllSettings(const ServingRequest& request);

// Returns why the engine of a request refuses the layout; empty if nothing is
// known that it refuses.
std::vector<std::string> RefusalsOf(const CostInputs& work,
                                    const ServingRequest& request);

// `work` has the specs of decode, or of prefill in that mode. The settings must
// have the dtype of the cache, and may have a profile and a memory.
ServingReport ServingOf(const CostInputs& work, const Settings& settings,
                        const ServingRequest& request);

// Returns the number of groups of devices that have different experts.
int64_t ExpertGroups(const CostInputs& work);

// Returns the seconds in which a device sends this many bytes to other hosts.
double TransferSeconds(const DeviceProfile& profile, const Mesh& mesh,
                       int64_t bytes);

}  // namespace shardc::cost

#endif  // SHARDC_COST_SERVING_H_
