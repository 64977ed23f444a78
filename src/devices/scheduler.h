// How an engine's scheduler prefills prompts while other requests decode,
// and the settings that decide it. An engine's file states the value that the
// engine has without a flag, other values that are in use, and the sources:
//
//   settings:
//     max_batched_tokens: {value: 8192, others: [2048, 32768], source: "..."}
#ifndef SHARDC_DEVICES_SCHEDULER_H_
#define SHARDC_DEVICES_SCHEDULER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yaml/read.h"

namespace shardc {

enum class PrefillOrder : uint8_t {
  kMixed,  // a step has chunks of prompts and the tokens of decoding requests
  kWhole,  // the same, but a step has whole prompts
  kFirst,  // a step with prompts has no decoding request
};
inline constexpr std::array<std::string_view, 3> kPrefillOrders = {
    "mixed", "whole", "first"};

// The values of all settings. A scheduler ignores those that it does not have.
struct SchedulerSettings {
  // The most tokens of a step on an attention rank.
  double max_batched_tokens = 8192;
  // The most requests that an attention rank has at once; others wait. nullopt:
  // as many as are sent.
  std::optional<int64_t> max_requests;
  // New requests are taken in after so many steps of decoding.
  int64_t recv_interval = 1;
  // Prompts wait for others, for at most so many steps, until a step has this
  // fraction of `max_batched_tokens`. 0 steps: they do not wait.
  int64_t batch_wait_steps = 0;
  double batch_wait_share = 0;
  // Whether PrefillOrder::kFirst puts chunks of prompts into steps of decoding
  // requests, as kMixed does.
  bool mixed_chunk = false;
  // Lengths are uniform from this fraction of the longest to the longest; 1 if
  // all requests have equal lengths.
  double least_length = 0.8;
  // The prompts that a benchmark sends for each slot, whose first ones arrive
  // all at once. nullopt: the start does not count.
  std::optional<int64_t> prompts_per_slot = 10;
  // The fraction of a prompt whose cache is kept from earlier prompts.
  double prefix_hit = 0;
};

enum class SchedulerSetting : uint8_t {
  kMaxBatchedTokens,
  kMaxRequests,
  kRecvInterval,
  kBatchWait,
  kMixedChunk,
  kLengths,
  kPromptsPerSlot,
  kPrefixHit
};
inline constexpr std::array<std::string_view, 8> kSchedulerSettings = {
    "max_batched_tokens", "max_requests", "recv_interval",    "batch_wait",
    "mixed_chunk",        "lengths",      "prompts_per_slot", "prefix_hit"};

// Sets the value of a setting. Returns false if the text is no value of it;
// ValueForm() then states what is.
bool SetSetting(SchedulerSetting setting, std::string_view text,
                SchedulerSettings& out);
// Returns for example "a number of tokens, from 1 to 1048576".
std::string_view ValueForm(SchedulerSetting setting);

// A setting that an engine has.
struct EngineSetting {
  SchedulerSetting setting = SchedulerSetting::kMaxBatchedTokens;
  std::string value;                // without a flag
  std::vector<std::string> others;  // that are in use
  std::string source;               // of `value`
};

// Reads the mapping `settings` of an engine's file.
std::vector<EngineSetting> ReadSettings(const YamlContext& context,
                                        const YamlNode& node);

}  // namespace shardc

namespace shardc::keys {

extern const KeyTable kEngineSettings;
extern const KeyTable kEngineSetting;

}  // namespace shardc::keys

#endif  // SHARDC_DEVICES_SCHEDULER_H_
