// `shardc kv`: prints the map of a KV cache from the devices of one plan to
// those of another. Exit status 1 if no map can be made, or if it is not known
// whether one can.
#include "cli/kv_report.h"

#include <optional>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/planned.h"
#include "emit/kv/kv_map.h"
#include "kv/map.h"
#include "kv/side.h"
#include "model/option_value.h"
#include "parse/project.h"
#include "plan/kv_layout.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// Sets a setting of both sides from `A:B`, or from `A` for both.
class PairParser {
 public:
  PairParser(kv::SideSettings& from, kv::SideSettings& to, Findings& findings)
      : from_(from), to_(to), findings_(findings) {}

  // `read(text, settings)` returns whether the text is valid.
  template <class Read>
  void Each(std::string_view flag, const std::string& text,
            std::string_view form, const Read& read) {
    if (text.empty()) return;
    const size_t colon = text.find(':');
    const std::string first = text.substr(0, colon);
    const std::string second =
        colon == text.npos ? first : text.substr(colon + 1);
    if (read(first, from_) && read(second, to_)) return;
    findings_.Add(code::kUsage, FlagPlace(flag, text),
                  ShortQuote(text) + " is not " + std::string(form) +
                      " for both sides, or one for each with `:` between them",
                  "write for example `" + std::string(flag) + " " +
                      std::string(Example(flag)) + "`");
  }

  void Number(std::string_view flag, const std::string& text, int64_t least,
              int64_t most, std::optional<int64_t> kv::SideSettings::*to) {
    Each(flag, text,
         "an integer from " + std::to_string(least) + " to " +
             std::to_string(most),
         [&](const std::string& part, kv::SideSettings& side) {
           const auto number = Parse(part, least, most);
           if (number) side.*to = number;
           return number.has_value();
         });
  }

  void Type(std::string_view flag, const std::string& text,
            Dtype kv::SideSettings::*to) {
    Each(flag, text, "a dtype of at least one byte",
         [&](const std::string& part, kv::SideSettings& side) {
           const auto dtype = ParseDtype(part);
           if (!dtype || DtypeBits(*dtype) < 8) return false;
           side.*to = *dtype;
           return true;
         });
  }

  static std::optional<int64_t> Parse(const std::string& text, int64_t least,
                                      int64_t most) {
    Findings unreported;
    const auto number = ParseInteger("", text, least, unreported);
    return number && *number <= most ? number : std::nullopt;
  }

 private:
  static std::string_view Example(std::string_view flag) {
    if (flag == "--mode") return "prefill:decode";
    if (flag == "--order") return "HND:NHD";
    if (flag == "--kv-tensors") return "split:joint";
    if (flag.ends_with("dtype")) return "bfloat16:float8_e4m3fn";
    return "1:0";
  }

  kv::SideSettings& from_;
  kv::SideSettings& to_;
  Findings& findings_;
};

constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr int64_t kMostPage = int64_t{1} << 20;
constexpr int64_t kMostDraft = 64;

// Reads the flags into `report`. Returns false after a finding.
bool ReadFlags(const KvFlags& flags, KvMapReport& report, Findings& findings) {
  using kv::SideSettings;
  PairParser pairs(report.from.settings, report.to.settings, findings);
  pairs.Each("--mode", flags.mode, "a mode",
             [](const std::string& text, SideSettings& side) {
               const auto mode = ParseMode(text);
               if (mode) side.mode = *mode;
               return mode.has_value();
             });
  pairs.Number("--page", flags.page, 1, kMostPage, &SideSettings::page);
  pairs.Each("--order", flags.order, "HND or NHD",
             [](const std::string& text, SideSettings& side) {
               side.order = text == "HND" ? kv::Order::kHnd : kv::Order::kNhd;
               return text == "HND" || text == "NHD";
             });
  pairs.Each("--kv-tensors", flags.tensors, "split or joint",
             [](const std::string& text, SideSettings& side) {
               side.joint = text == "joint";
               return text == "split" || text == "joint";
             });
  pairs.Type("--kv-dtype", flags.kv_dtype, &SideSettings::dtype);
  pairs.Type("--state-dtype", flags.state_dtype, &SideSettings::state_dtype);
  pairs.Type("--conv-dtype", flags.conv_dtype, &SideSettings::conv_dtype);
  const auto number = [](int64_t most, int64_t SideSettings::*to) {
    return [=](const std::string& text, SideSettings& side) {
      const auto read = PairParser::Parse(text, 0, most);
      if (read) side.*to = *read;
      return read.has_value();
    };
  };
  pairs.Each("--dp-rank", flags.dp_rank, "a data parallel rank",
             number(INT64_MAX, &SideSettings::dp_rank));
  pairs.Each("--draft", flags.draft, "a number of layers up to 64",
             number(kMostDraft, &SideSettings::draft));
  pairs.Each("--interleave", flags.interleave, "a number of tokens or `block`",
             [](const std::string& text, SideSettings& side) {
               side.interleave = text == "block"
                                     ? std::optional<int64_t>(0)
                                     : PairParser::Parse(text, 1, kMostTokens);
               return side.interleave.has_value();
             });
  if (!flags.tokens.empty()) {
    report.settings.tokens =
        ParseInteger("--tokens", flags.tokens, 1, findings);
    if (report.settings.tokens.value_or(1) > kMostTokens) {
      findings.Add(
          code::kLimit, FlagPlace("--tokens", flags.tokens),
          "a request has at most " + CountText(kMostTokens) + " tokens");
    }
  }
  report.settings.convert = flags.convert;
  if (flags.share_replicas) {
    report.settings.replicas = kv::Replicas::kShareTokens;
    if (flags.tokens.empty() || flags.page.empty()) {
      findings.Add(code::kUsage, {},
                   "`--share-replicas` divides the pages of a request, whose "
                   "number is not given",
                   "give `--tokens` and `--page` too");
    }
  }
  return !findings.HasErrors();
}

int RunKv(const KvFlags& flags, const Common& common, Findings& findings) {
  const auto inputs = ReadKvInputs(flags, findings);
  if (!inputs) return kFailed;
  const KvMapReport& report = inputs->report;
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteKvMapJson(report, out);
    } else {
      out.Append(KvMapText(report));
    }
  };
  if (!PutResult(write, flags.output, findings)) return kFailed;
  return report.map.refused.empty() && report.map.complete ? kDone : kFound;
}

}  // namespace

Options KvOptions(KvFlags& flags) {
  return {
      {.name = "--from",
       .need = HelpNeed::kOften,
       .to = &flags.from,
       .value = "FILE",
       .help = "plan of the devices that have the cache",
       .required = true},
      {.name = "--to",
       .need = HelpNeed::kOften,
       .to = &flags.to,
       .value = "FILE",
       .help = "plan of the devices that get it; may be the same file",
       .required = true},
      {.name = "--mode",
       .need = HelpNeed::kOften,
       .to = &flags.mode,
       .value = "A:B",
       .help = "modes of the two plans (default: prefill:decode)"},
      {.name = "--model",
       .need = HelpNeed::kOften,
       .to = &flags.model,
       .value = "FILE",
       .help = "the model's config.json, for plans without `kv`"},
      {.name = "--tokens",
       .need = HelpNeed::kOften,
       .to = &flags.tokens,
       .value = "N",
       .help = "tokens of a request"},
      {.name = "--page",
       .need = HelpNeed::kOften,
       .to = &flags.page,
       .value = "N:N",
       .help = "tokens of a page of each side; one number for both"},
      {.name = "--order",
       .to = &flags.order,
       .value = "A:B",
       .help = "order of a page's dimensions, HND or NHD"},
      {.name = "--kv-tensors",
       .to = &flags.tensors,
       .value = "A:B",
       .help = "joint if a page holds keys and values next to each other, else "
               "split (default: split)"},
      {.name = "--kv-dtype",
       .to = &flags.kv_dtype,
       .value = "A:B",
       .help = "dtype of the KV cache; int8 has a float32 scale per token and "
               "head (default: bfloat16)"},
      {.name = "--state-dtype",
       .to = &flags.state_dtype,
       .value = "A:B",
       .help = "dtype of the states of linear attention (default: float32)"},
      {.name = "--conv-dtype",
       .to = &flags.conv_dtype,
       .value = "A:B",
       .help = "dtype of the inputs of the convolution before such a state "
               "(default: bfloat16)"},
      {.name = "--convert",
       .need = HelpNeed::kOften,
       .to = &flags.convert,
       .help = "the destination converts dtypes; without it, they must agree"},
      {.name = "--dp-rank",
       .need = HelpNeed::kOften,
       .to = &flags.dp_rank,
       .value = "N:N",
       .help = "data parallel ranks that have the request (default: 0:0)"},
      {.name = "--interleave",
       .to = &flags.interleave,
       .value = "A:B",
       .help = "consecutive tokens on a device if tokens are sharded; block: "
               "one block for each part"},
      {.name = "--draft",
       .to = &flags.draft,
       .value = "N:N",
       .help = "layers of a draft model with the sizes of the last layer "
               "(default: 0:0)"},
      {.name = "--share-replicas",
       .to = &flags.share_replicas,
       .help = "devices that have the same part each send some of its pages"},
      AllowEditedOption(&flags.allow_edited),
      OutputOption(&flags.output)};
}

std::optional<KvInputs> ReadKvInputs(const KvFlags& flags, Findings& findings) {
  KvInputs out;
  KvMapReport& report = out.report;
  report.from.plan = flags.from;
  report.to.plan = flags.to;
  report.to.settings.mode = Mode::kDecode;
  if (!ReadFlags(flags, report, findings)) return std::nullopt;
  if (flags.from == "-" && flags.to == "-") {
    findings.Add(code::kUsage, {},
                 "both sides are `-`, and standard input has the text of one "
                 "file",
                 "give the path of a file for one of them");
    return std::nullopt;
  }
  std::vector<KvKind> fallback;
  if (!flags.model.empty()) {
    const auto model = ReadModelConfig(flags.model, findings);
    if (!model) return std::nullopt;
    fallback = KvKindsOf(*model);
  }
  const EditedPlan edited = EditedPlanOf(flags.allow_edited);
  auto from = ReadTable(flags.from, edited, findings);
  auto to = ReadTable(flags.to, edited, findings);
  if (!from || !to) return std::nullopt;
  report.from.mesh = MeshText(from->classes.mesh);
  report.to.mesh = MeshText(to->classes.mesh);
  if (!MakeKvReport(from->classes, to->classes, fallback, report, findings)) {
    return std::nullopt;
  }
  out.from = std::move(*from);
  out.to = std::move(*to);
  return out;
}

bool MakeKvReport(const ReadPlan& from, const ReadPlan& to,
                  const std::vector<KvKind>& fallback, KvMapReport& report,
                  Findings& findings) {
  kv::Map& map = report.map;
  const auto kinds = kv::KindsOf(from, fallback, report.from.settings.draft);
  const auto others = kv::KindsOf(to, fallback, report.to.settings.draft);
  if (kinds.empty() || others.empty()) {
    map.complete = false;
    map.not_known.push_back(
        {.what =
             "what the layers keep for each request: " +
             std::string(kinds.empty() ? "the source's" : "the destination's") +
             " plan has no `kv`, and no config.json states it of each layer",
         .settled_by = "--model, here or when the plan is written"});
    return true;
  }
  map.refused = kv::KindsRefused(kinds, others);
  const auto ordered = kv::InOrderOf(kinds, others);
  if (!map.refused.empty() || !ordered) return true;
  std::vector<std::string> refused;
  report.from.side = kv::SideOf(from, kinds, report.from.settings, "source",
                                refused, findings);
  report.to.side = kv::SideOf(to, *ordered, report.to.settings, "destination",
                              refused, findings);
  if (!report.from.side || !report.to.side) return false;
  report.from.kinds = kinds;
  report.to.kinds = *ordered;
  if (!refused.empty()) {
    map.refused = std::move(refused);
    return true;
  }
  auto made = kv::MakeMap(kinds, *report.from.side, *report.to.side,
                          report.settings, findings);
  if (!made) return false;
  map = std::move(*made);
  return true;
}

Declared DeclareKv() { return Declare(KvOptions, RunKv); }

}  // namespace shardc::cli
