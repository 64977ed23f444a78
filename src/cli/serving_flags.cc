// Reads the options of `cost --engine`:
//
//   --engine vllm --slots 64 --isl 1024 --osl 1024 --served-dtype fp8
#include "cli/serving_flags.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "devices/serving.h"
#include "families/families.h"
#include "model/option_value.h"
#include "source/file.h"
#include "source/json.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

constexpr int64_t kMostTokensOrSlots = int64_t{1} << 30;

std::vector<std::string_view> EngineNames() {
  std::vector<std::string_view> out;
  for (const EngineProfile& one : Engines()) out.push_back(one.name);
  return out;
}

// Returns an engine of the program, or reads one from a file.
std::shared_ptr<const EngineProfile> ReadEngine(const std::string& name,
                                                Findings& findings) {
  if (name.empty()) return nullptr;
  if (const EngineProfile* known = FindEngine(name)) {
    return {std::shared_ptr<const void>(), known};
  }
  if (name.find_first_of("./") == std::string::npos) {
    RefuseWord(FlagPlace("--engine", name), "--engine", name, EngineNames(),
               findings);
    return nullptr;
  }
  SourceRef source = ReadSource(name, findings);
  return source == nullptr ? nullptr : ParseEngine(std::move(source), findings);
}

std::optional<int64_t> ReadCount(std::string_view flag, const std::string& text,
                                 Findings& findings) {
  if (text.empty()) return std::nullopt;
  const auto count = ParseInteger(flag, text, 1, findings);
  if (count && *count > kMostTokensOrSlots) {
    findings.Add(code::kNumber, FlagPlace(flag, text),
                 "`" + std::string(flag) + "` is more than 2^30");
    return std::nullopt;
  }
  return count;
}

std::optional<ServedFormat> ReadFormat(const std::string& text,
                                       const std::string& name,
                                       Findings& findings) {
  const auto found =
      std::find(kServedFormats.begin(), kServedFormats.end(), name);
  if (found != kServedFormats.end()) {
    return static_cast<ServedFormat>(found - kServedFormats.begin());
  }
  RefuseWord(FlagPlace("--served-dtype", text), "--served-dtype", name,
             kServedFormats, findings);
  return std::nullopt;
}

// Sets what `--set NAME=VALUE` states. Adds a finding for a setting that the
// engine does not have, and for a wrong value.
void ReadSettings(const Strings& given, cost::ServingRequest& out,
                  Findings& findings) {
  if (out.engine == nullptr) {
    if (given.empty() || findings.HasErrors()) return;
    findings.Add(code::kUsage, FlagPlace("--set", given.front()),
                 "`--set` states a setting of an engine's scheduler",
                 "give the engine with `--engine`");
    return;
  }
  out.scheduler = out.engine->Defaults();
  std::vector<std::string_view> names;
  for (const EngineSetting& one : out.engine->settings) {
    names.push_back(kSchedulerSettings[static_cast<size_t>(one.setting)]);
  }
  for (const std::string& text : given) {
    const size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals);
    const Place place = FlagPlace("--set", text);
    const auto known = std::find(names.begin(), names.end(), name);
    if (known == names.end()) {
      const std::string other = HelpForOtherWord("set", name);
      findings.Add(code::kUsage, place,
                   names.empty() ? "the engine's file states no `settings`"
                                 : "the engine " + Quote(out.engine->name) +
                                       " has no setting " + ShortQuote(name) +
                                       "; it has " + Listed(names),
                   !other.empty()  ? other
                   : names.empty() ? ""
                                   : DidYouMean(name, names));
      continue;
    }
    const SchedulerSetting setting =
        out.engine->settings[static_cast<size_t>(known - names.begin())]
            .setting;
    if (equals == text.size() ||
        !SetSetting(setting, std::string_view(text).substr(equals + 1),
                    out.scheduler)) {
      findings.Add(code::kUsage, place,
                   ShortQuote(text) + " states no value of " + Quote(name),
                   "the value is " + std::string(ValueForm(setting)));
      continue;
    }
    AddOnce(out.stated, setting);
  }
}

// Returns the format of an engine that has the bytes of a stored scheme.
std::optional<ServedFormat> FormatOf(const families::StoredScheme& scheme) {
  const std::string_view layout = scheme.layout;
  if (layout.empty()) return ServedFormat::kBf16;
  constexpr int64_t kBlock = 128, kInt4Group = 32;
  const bool eight = scheme.bits == 8 && layout != "int-quantized";
  if (eight && (layout == "float-quantized" || layout.starts_with("fp8"))) {
    if (scheme.group == 0) return ServedFormat::kFp8;
    const bool blocks = scheme.group == kBlock && scheme.rows == kBlock;
    return blocks ? std::optional(ServedFormat::kFp8Block) : std::nullopt;
  }
  if (layout.starts_with("nvfp4")) return ServedFormat::kNvfp4;
  if (layout.starts_with("mxfp4")) return ServedFormat::kMxfp4;
  if (scheme.bits == 4 && scheme.group == kInt4Group) {
    return ServedFormat::kInt4;
  }
  return std::nullopt;
}

}  // namespace

std::function<std::optional<ServedFormat>(std::string_view module)>
StoredFormatsOf(const std::optional<ModelConfig>& model) {
  if (!model || model->source == nullptr) return {};
  Findings unreported;  // the configuration was read before
  const auto document = JsonDocument::Parse(model->source, unreported);
  if (document == nullptr) return {};
  const auto schemes = families::SchemesOf(document->root());
  if (!schemes) return {};
  return
      [schemes](std::string_view module) { return FormatOf(schemes(module)); };
}

Options OptionsOf(ServingFlags& flags) {
  return {
      {.name = "--engine",
       .need = HelpNeed::kOften,
       .to = &flags.engine,
       .value = "NAME|FILE",
       .help = "engine that serves the model, such as vllm; with "
               "`--mode decode` or `prefill`: vllm, sglang, "
               "tensorrt-llm, tpu, or a file that describes one",
       .words = Words(EngineNames)},
      {.name = "--slots",
       .need = HelpNeed::kOften,
       .to = &flags.slots,
       .value = "N",
       .help = "requests served at once, over all devices; with "
               "`--mode prefill`, prompts that are prefilled "
               "together (default: 1 on each attention rank)"},
      {.name = "--isl",
       .need = HelpNeed::kOften,
       .to = &flags.input,
       .value = "N",
       .help = "tokens of a prompt"},
      {.name = "--osl",
       .need = HelpNeed::kOften,
       .to = &flags.output,
       .value = "N",
       .help = "tokens that are generated for a prompt"},
      {.name = "--served-dtype",
       .to = &flags.format,
       .value = "FORMAT[,FORMAT]",
       .help = "format of the weights of layers, and of experts: bf16, "
               "fp8, fp8_block, nvfp4, mxfp4 or int4 (default: as stored)"},
      {.name = "--set",
       .to = &flags.settings,
       .value = "NAME=VALUE",
       .help = "setting of the engine's scheduler, which decides the time "
               "to the first token: max_batched_tokens=N, max_requests=N or "
               "inf, recv_interval=N, batch_wait=N,SHARE, mixed_chunk=on, "
               "lengths=0.8:1 or "
               "equal, prompts_per_slot=N or inf, prefix_hit=SHARE "
               "(default: as the engine's file states)",
       .several = Several::kAgain},
      {.name = "--disaggregated",
       .to = &flags.disaggregated,
       .help = "other devices prefill, or with `--mode prefill` decode"},
      {.name = "--fill",
       .to = &flags.fill,
       .value = "slots|context",
       .help = "find the most slots that fit at full length, or the "
               "longest prompts that fit in --slots",
       .checked = true}};
}

bool CheckServingFlags(const ServingFlags& flags, Findings& findings) {
  if (flags.Given()) return true;
  const std::string disaggregated = flags.disaggregated ? "true" : "", none;
  for (const auto& [name, value] :
       {std::pair<std::string_view, const std::string&>{"--slots", flags.slots},
        {"--isl", flags.input},
        {"--osl", flags.output},
        {"--served-dtype", flags.format},
        {"--set", flags.settings.empty() ? none : flags.settings.front()},
        {"--disaggregated", disaggregated}}) {
    if (value.empty()) continue;
    findings.Add(code::kUsage, FlagPlace(name, value),
                 "`" + std::string(name) + "` describes what an engine serves",
                 "give the engine with `--engine`, or leave out `" +
                     std::string(name) + "`");
    return false;
  }
  return true;
}

std::optional<cost::ServingRequest> ServingRequestOf(const ServingFlags& flags,
                                                     const CostFlags& step,
                                                     Mode mode,
                                                     Findings& findings) {
  const size_t before = findings.errors();
  const std::string_view asked = flags.engine.empty() ? "--fill" : "--engine";
  const Place place =
      FlagPlace(asked, flags.engine.empty() ? flags.fill : flags.engine);
  if (mode != Mode::kDecode && mode != Mode::kPrefill) {
    findings.Add(code::kUsage, place,
                 "`" + std::string(asked) + "` is for serving",
                 "give `--mode decode` or `--mode prefill`");
  }
  for (const std::string_view name : {"--batch", "--seq", "--kv-len"}) {
    const std::string& value = step.settings[name];
    if (value.empty()) continue;
    findings.Add(code::kUsage, FlagPlace(name, value),
                 "`" + std::string(name) + "` is the size of one step, and `" +
                     std::string(asked) + "` takes the sizes of requests",
                 "give `--slots`, `--isl` and `--osl`");
  }
  cost::ServingRequest out;
  out.disaggregated = flags.disaggregated;
  out.engine = ReadEngine(flags.engine, findings);
  ReadSettings(flags.settings, out, findings);
  out.slots = ReadCount("--slots", flags.slots, findings);
  const auto input = ReadCount("--isl", flags.input, findings);
  const auto output = ReadCount("--osl", flags.output, findings);
  if (!flags.fill.empty()) {
    out.fill =
        flags.fill == "slots" ? cost::Fill::kSlots : cost::Fill::kContext;
  }
  if (!flags.format.empty()) {
    const size_t comma = std::min(flags.format.find(','), flags.format.size());
    out.linear =
        ReadFormat(flags.format, flags.format.substr(0, comma), findings);
    out.experts =
        comma < flags.format.size()
            ? ReadFormat(flags.format, flags.format.substr(comma + 1), findings)
            : out.linear;
  }
  if (findings.errors() > before) return std::nullopt;
  const bool prefill = mode == Mode::kPrefill;
  if (prefill && !out.slots) out.slots = 1;
  std::vector<std::string_view> missing;
  if (!out.slots && out.fill != cost::Fill::kSlots)
    missing.push_back("--slots");
  if (!input && out.fill != cost::Fill::kContext) missing.push_back("--isl");
  if (!output && !prefill) missing.push_back("--osl");
  if (!missing.empty()) {
    findings.Add(code::kUsage, place,
                 "`" + std::string(asked) + "` also needs " + Listed(missing));
    return std::nullopt;
  }
  out.input = input.value_or(0);
  out.output = output.value_or(1);
  return out;
}

}  // namespace shardc::cli
