// What a serving step costs beyond peak rates: the rates that a device's
// operators reach, and the time that an engine such as vLLM adds. Both are data
// files: the section `serving:` of a profile, and the files of engines/.
#ifndef SHARDC_DEVICES_SERVING_H_
#define SHARDC_DEVICES_SERVING_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/engine_layout.h"
#include "devices/scheduler.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/source.h"
#include "yaml/read.h"

namespace shardc {

// The formats in which engines store the weights of layers, with their scales.
enum class ServedFormat : uint8_t {
  kBf16,
  kFp8,
  kFp8Block,
  kNvfp4,
  kMxfp4,
  kInt4
};
inline constexpr std::array<std::string_view, 6> kServedFormats = {
    "bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4"};
// Returns the bytes of this many weights, rounded up; nullopt on overflow. A
// block of 128 by 128 8-bit numbers has a float32 scale, 16 numbers of nvfp4
// and 32 of mxfp4 have a scale of 8 bits, and 32 of int4 have one of 16 bits.
std::optional<int64_t> ServedBytes(int64_t weights, ServedFormat format);

// The rates that the operators of a serving step reach on a device. Members of
// bytes are fractions of the memory's or a link's bandwidth. Rates of matmuls
// are operations per second. A format without a rate is not known to run.
struct ServingRates {
  double weights = 0, expert_weights = 0;  // weights that matmuls read
  // Keys and values of 16 and of 8 bits, and latent rows, that attention reads.
  double cache = 0, narrow_cache = 0, latent_cache = 0;
  double latent = 0;  // operations of attention to latent rows
  // Operations of attention in prefill; narrow heads have at most 64 columns.
  double prefill = 0, narrow_prefill = 0;
  double all_reduce = 0, all_to_all = 0;
  // Seconds that an operator takes before it moves bytes.
  double matmul_start = 0, attention_start = 0, experts_start = 0;
  double all_reduce_start = 0, all_to_all_start = 0;
  using ByFormat = std::array<std::optional<double>, kServedFormats.size()>;
  ByFormat matmuls = {}, experts = {};
  // Where the figures are from. `assumed` is true if no operators were measured
  // on the device.
  std::vector<std::string> evidence = {};
  bool assumed = false;
};
// Reads the section `serving` of a profile. Adds findings for wrong figures,
// and for missing ones if `complete` is true.
void ReadServing(const YamlContext& context, const YamlNode& node,
                 bool complete, ServingRates& out);

// What an engine adds to the operators of a step. Times are in seconds.
struct EngineProfile {
  std::string name, alias;
  std::string month;     // of the measured engines: "2026-04"
  std::string versions;  // that were measured
  // For each layer and for each layer with experts: the time between kernels.
  double layer = 0, expert_layer = 0;
  double step = 0, request = 0;  // the scheduler, a step and a request
  double prefill_call = 0;       // before the scheduler has a request
  double latent_call = 0;        // further, with attention to latent rows
  // A prefill takes at least this time for each layer, because the host starts
  // its kernels one by one: CUDA graphs are recorded for decode steps only.
  double prefill_layer = 0;
  // The fraction of a prefill's time that it adds to a step that also decodes.
  double prefill_share = 0;
  // A prefill takes so many times as long as its operators on the devices of
  // these profiles; on others, as long.
  std::vector<std::pair<std::string, double>> prefill_work;
  // The decode steps between a token and its arrival at the client.
  double shown_after = 0;
  PrefillOrder order = PrefillOrder::kMixed;
  // Empty if the file does not state them: the time to the first token is then
  // not known.
  std::vector<EngineSetting> settings;
  // nullopt if the file does not state it: shards are then those of the rules.
  std::optional<EngineLayout> layout;
  int64_t points = 0;  // published points that the engine was compared with
  std::vector<std::string> evidence;

  const EngineSetting* Find(SchedulerSetting setting) const;
  // Returns the settings that the engine has without a flag.
  SchedulerSettings Defaults() const;
  double PrefillWork(std::string_view profile) const;
};
// Returns the built-in engines, sorted by name. Their files are parsed at the
// first call.
std::span<const EngineProfile> Engines();
// Returns the engine with this name or alias, or null if there is none.
const EngineProfile* FindEngine(std::string_view name);
std::shared_ptr<const EngineProfile> ParseEngine(SourceRef source,
                                                 Findings& findings);
// Returns all files of engines/, sorted by name. The build generates the table.
std::span<const EmbeddedFile> EmbeddedEngines();

}  // namespace shardc

namespace shardc::keys {

extern const KeyTable kServing;
extern const KeyTable kServedRates;
extern const KeyTable kEngine;

}  // namespace shardc::keys

#endif  // SHARDC_DEVICES_SERVING_H_
