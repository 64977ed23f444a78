// Reads the settings of schedulers, from the files of engines and from the
// flag `--set`. A setting is a row of kRows.
#include "devices/scheduler.h"

#include <charconv>
#include <iterator>
#include <utility>

#include "source/wording.h"

namespace shardc {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 20;
constexpr int64_t kMostSteps = 1000, kMostCount = 1'000'000;

std::optional<double> RealOf(std::string_view text, double least, double most) {
  double out = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  const bool whole = error == std::errc() && stop == text.data() + text.size();
  if (!whole || !(out >= least && out <= most)) return std::nullopt;
  return out;
}

std::optional<int64_t> CountOf(std::string_view text, int64_t least,
                               int64_t most) {
  IntegerFault unused;
  return ParseInteger(text, {least, most}, &unused);
}

// Sets `to` if there is a value, and returns whether there is one.
template <class Value, class To>
bool Put(const std::optional<Value>& value, To& to) {
  if (value) to = static_cast<To>(*value);
  return value.has_value();
}

bool SetBatchWait(std::string_view text, SchedulerSettings& out) {
  const size_t comma = text.find(',');
  const auto steps = CountOf(text.substr(0, comma), 0, kMostSteps);
  if (!steps) return false;
  if (comma == std::string_view::npos) {
    if (*steps != 0) return false;
    out.batch_wait_steps = 0;
    return true;
  }
  const auto share = RealOf(text.substr(comma + 1), 0, 1);
  if (!share) return false;
  out.batch_wait_steps = *steps;
  out.batch_wait_share = *share;
  return true;
}

bool SetLengths(std::string_view text, SchedulerSettings& out) {
  if (text == "equal") {
    out.least_length = 1;
    return true;
  }
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.substr(colon + 1) != "1") {
    return false;
  }
  return Put(RealOf(text.substr(0, colon), 0.01, 1), out.least_length);
}

// Sets a count, or none for `inf`.
bool SetLimit(std::string_view text, std::optional<int64_t>& out) {
  if (text == "inf") {
    out.reset();
    return true;
  }
  const auto count = CountOf(text, 1, kMostCount);
  if (count) out = *count;
  return count.has_value();
}

struct Row {
  bool (*set)(std::string_view text, SchedulerSettings& out);
  std::string_view form;
};
// In the order of SchedulerSetting.
constexpr Row kRows[] = {
    {[](std::string_view text, SchedulerSettings& out) {
       return Put(CountOf(text, 1, kMostTokens), out.max_batched_tokens);
     },
     "a number of tokens from 1 to 1048576"},
    {[](std::string_view text, SchedulerSettings& out) {
       return SetLimit(text, out.max_requests);
     },
     "a number of requests up to 1000000, or `inf`"},
    {[](std::string_view text, SchedulerSettings& out) {
       return Put(CountOf(text, 1, kMostSteps), out.recv_interval);
     },
     "a number of steps from 1 to 1000"},
    {SetBatchWait, "`0`, or steps up to 1000 and a fraction, as `20,0.9`"},
    {[](std::string_view text, SchedulerSettings& out) {
       out.mixed_chunk = text == "on";
       return text == "on" || text == "off";
     },
     "`on` or `off`"},
    {SetLengths,
     "`equal`, or the range of lengths as a fraction of the longest, as "
     "`0.8:1`"},
    {[](std::string_view text, SchedulerSettings& out) {
       return SetLimit(text, out.prompts_per_slot);
     },
     "a number of prompts up to 1000000, or `inf`"},
    {[](std::string_view text, SchedulerSettings& out) {
       return Put(RealOf(text, 0, 0.99), out.prefix_hit);
     },
     "a fraction from 0 to 0.99"},
};
static_assert(std::size(kRows) == kSchedulerSettings.size());

constexpr std::array<std::string_view, 3> kSettingKeys = {"value", "others",
                                                          "source"};

// Reads a value and adds a finding if the setting has no such value.
std::optional<std::string> ReadValue(const YamlContext& context,
                                     const YamlNode& node,
                                     SchedulerSetting setting) {
  const std::string_view name =
      kSchedulerSettings[static_cast<size_t>(setting)];
  auto text = ReadText(context, node, Quote(name));
  SchedulerSettings unused;
  if (text && !SetSetting(setting, *text, unused)) {
    context.Add(code::kNumber, node,
                Quote(name) + " is " + ShortQuote(*text) + ", not " +
                    std::string(ValueForm(setting)));
    return std::nullopt;
  }
  return text;
}

}  // namespace

namespace keys {
const KeyTable kEngineSettings{"engine.settings", "`settings`",
                               kSchedulerSettings};
const KeyTable kEngineSetting{"engine.setting", "a setting", kSettingKeys};
}  // namespace keys

bool SetSetting(SchedulerSetting setting, std::string_view text,
                SchedulerSettings& out) {
  return kRows[static_cast<size_t>(setting)].set(text, out);
}

std::string_view ValueForm(SchedulerSetting setting) {
  return kRows[static_cast<size_t>(setting)].form;
}

std::vector<EngineSetting> ReadSettings(const YamlContext& context,
                                        const YamlNode& node) {
  std::vector<EngineSetting> out;
  const auto settings = Fields::Read(context, node, keys::kEngineSettings);
  if (!settings) return out;
  for (size_t i = 0; i < kSchedulerSettings.size(); ++i) {
    const YamlNode* const at = settings->Find(kSchedulerSettings[i]);
    if (at == nullptr) continue;
    const auto fields = Fields::Read(context, *at, keys::kEngineSetting);
    if (!fields) continue;
    EngineSetting one;
    one.setting = static_cast<SchedulerSetting>(i);
    if (const YamlNode* value = fields->Require(context, *at, "value")) {
      one.value = ReadValue(context, *value, one.setting).value_or("");
    }
    if (const YamlNode* source = fields->Require(context, *at, "source")) {
      one.source = ReadText(context, *source, "`source`").value_or("");
    }
    if (const YamlNode* others = fields->Find("others")) {
      if (!others->IsSequence()) {
        context.Add(code::kSchema, *others,
                    "`others` is " + Describe(*others) + ", not a list");
        continue;
      }
      for (const YamlNode& other : others->items) {
        if (auto value = ReadValue(context, other, one.setting)) {
          one.others.push_back(std::move(*value));
        }
      }
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace shardc
