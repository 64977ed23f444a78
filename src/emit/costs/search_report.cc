// Writes the result of a search: the winner, its time, and whether `shardc
// verify step` proved it. The Pareto front and the shardings that tie with the
// winner follow. Then each alternative is listed with the reason why it loses.
// For example:
//
//   winner      fsdp:64, remat dots_saveable, 1 micro-batch, ZeRO 0
//   why not
//     tp 1 -> 2: +8.1 %; tensor collectives +120 ms
#include "emit/costs/search_report.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "emit/costs/cost_report.h"
#include "emit/emit.h"
#include "search/search.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using search::Sharding;
using search::Verdict;
using search::WhyNot;

constexpr std::array<std::string_view, 5> kVerdicts = {
    "slower", "tie", "faster", "exceeds_memory", "illegal"};
constexpr std::array<std::string_view, 4> kProofs = {"not_run", "pass", "fail",
                                                     "unsupported"};
// Describes the shardings that the search does not evaluate.
constexpr std::string_view kNotSearched =
    "pipelines with schedules other than 1f1b and interleaved, and with "
    "`--unmeasured` zb-h1, zb-h2, interleaved-zb, zbv, dualpipe and dualpipev";
constexpr double kFar = 1.5;

std::string MemoryText(const Sharding& one) {
  std::string out = BytesText(one.Bytes());
  if (one.report.memory.capacity) {
    out += " of " + BytesText(*one.report.memory.capacity);
  }
  return out;
}

// Describes why a winner that fits by the expected bytes may not fit.
std::string OpenText(const cost::Memory& memory) {
  if (memory.taken) {
    return ", may not fit: a step may take " + BytesText(memory.taken->most);
  }
  return ", may not fit: more than that, by the bytes of layers that predict "
         "further tokens, which are not known";
}

std::string ShardingText(const Sharding& one) {
  return SearchMeshText(one) + ", " + SearchSettingsText(one.report.settings);
}

std::string PartsText(const cost::ExpectedTime& time) {
  std::string out;
  for (const cost::TimePart& part : time.parts) {
    if (part.seconds <= 0) continue;
    std::string name(part.name);
    for (char& c : name) c = c == '_' ? ' ' : c;
    AppendItem(out, ", ", name + " " + SecondsText(part.seconds));
  }
  return out;
}

std::string WinnerText(const SearchReport& report) {
  const search::Found& found = report.found;
  const Sharding& winner = *found.winner;
  const cost::ExpectedTime& time = *winner.report.expected;
  Columns table;
  table.Row({"winner", ShardingText(winner)});
  if (winner.IsPipeline()) {
    table.Row({"stages", SearchStagesText(found.pipelines)});
  }
  table.Row({"rules", winner.rules});
  table.Row(
      {"expected",
       SecondsText(time.seconds) + " a step, from " + SecondsText(time.least) +
           " to " + SecondsText(time.most) + "; " +
           CountText(
               static_cast<int64_t>(std::llround(time.tokens_per_second))) +
           " tokens/s a device; " +
           ShareText(static_cast<int64_t>(time.model_flops_share * 1e6),
                     1'000'000) +
           " of the peak rate"});
  table.Row({"accuracy", SearchAccuracyText(winner)});
  table.Row(
      {"memory", MemoryText(winner) +
                     (found.may_fit ? OpenText(winner.report.memory) : "")});
  if (!winner.unmeasured.empty()) {
    table.Row({"evidence", winner.unmeasured});
  }
  if (!report.proof.text.empty()) table.Row({"proof", report.proof.text});
  table.Row({"time", PartsText(time)});
  if (found.without_stages) {
    table.Row({"no stages",
               ShardingText(*found.without_stages) + ": " +
                   ChangeText(found.without_stages->Seconds() / time.seconds) +
                   ", " + MemoryText(*found.without_stages)});
    return table.Text();
  }
  if (found.fastest) {
    table.Row(
        {"fastest", ShardingText(*found.fastest) + ": " +
                        ChangeText(found.fastest->Seconds() / time.seconds) +
                        ", " + SearchTieText(winner, *found.fastest)});
  }
  if (found.runner_up) {
    table.Row({"runner-up",
               ShardingText(*found.runner_up) + ": " +
                   ChangeText(found.runner_up->Seconds() / time.seconds) +
                   ", " + MemoryText(*found.runner_up)});
  }
  return table.Text();
}

std::string FrontText(const search::Found& found) {
  if (found.shown.empty()) return "";
  Columns table;
  table.Row({"front of time and memory"});
  const int64_t capacity = found.winner->report.memory.capacity.value_or(0);
  for (const size_t i : found.shown) {
    const Sharding& one = found.front[i];
    table.Row(
        {"  " + SecondsText(one.Seconds()), BytesText(one.Bytes()),
         capacity > 0 ? ShareText(one.Bytes(), capacity) : "",
         ShardingText(one),
         i == found.knee ? "knee: less memory costs most from here" : ""});
  }
  return table.Text();
}

std::string TiesText(const search::Found& found) {
  if (found.ties.size() < 2) return "";
  Columns table;
  table.Row({"ties: less than 2 % apart, 5 % where the axes differ"});
  for (const search::Tie& tie : found.ties) {
    table.Row({"  " + tie.kind, SecondsText(tie.best.Seconds()),
               BytesText(tie.best.Bytes()), ShardingText(tie.best)});
  }
  return table.Text();
}

std::string VerdictText(const WhyNot& one, double seconds) {
  switch (one.verdict) {
    case Verdict::kExceeds:
      return "too large";
    case Verdict::kIllegal:
      return "illegal";
    case Verdict::kSlower:
    case Verdict::kTie:
    case Verdict::kFaster:
      break;
  }
  const double ratio = one.best->Seconds() / seconds;
  return ChangeText(ratio) + (one.verdict == Verdict::kTie ? ", a tie"
                              : ratio > kFar               ? ", far"
                                                           : "");
}

std::string WhyNotText(const search::Found& found) {
  if (found.why_not.empty()) return "";
  std::string out = found.without_stages
                        ? "why not, compared with the winner without stages\n"
                        : "why not\n";
  for (const WhyNot& one : found.why_not) {
    std::string change = Join(one.changes, "; or ");
    out += "  " + Printable(change) + ": " +
           VerdictText(one, found.Compared().Seconds());
    if (!one.because.empty()) out += "; " + Printable(one.because);
    out += "\n";
    if (one.best) {
      out += "      " + ShardingText(*one.best) + ", " +
             BytesText(one.best->Bytes()) + "\n";
    }
  }
  return out;
}

std::string CountsText(const search::Counts& counts) {
  return "searched    " + CountText(counts.shardings) +
         " meshes and rules, each with up to " + CountText(counts.settings) +
         " settings: " + CountText(counts.evaluated) + " evaluated, " +
         CountText(counts.out_of_reach) + " excluded by bounds, " +
         CountText(counts.too_large) + " too large, " +
         CountText(counts.illegal) + " illegal" +
         (counts.left > 0 ? ", " + CountText(counts.left) +
                                " left because `--seconds` are over" +
                                SearchLeftText(counts.left_bound)
                          : "") +
         "\n";
}

std::string KnownText(const search::Found& found) {
  if (!found.winner) return "";
  Columns table;
  table.Row({"how far published runs support each choice"});
  for (const search::Known& one : found.known) {
    table.Row({"  " + one.choice, one.text});
  }
  return table.Text();
}

std::string UnfinishedText(const search::Found& found) {
  std::string out = Join(found.unfinished, ", ");
  return out.empty()
             ? ""
             : "unfinished  because `--seconds` are over: " + out + "\n";
}

std::string NothingText(const SearchReport& report) {
  const search::Found& found = report.found;
  if (!found.not_known.empty()) {
    return "nothing was compared: the time and the memory of a step need facts "
           "about the model that are not known\n" +
           NotKnownLines(found.not_known);
  }
  std::string out =
      (found.counts.left > 0 ? "nothing that fits was found in time on "
                             : "nothing fits ") +
      Counted(report.devices, "device") + "\n";
  if (found.least) {
    out += "least       " + ShardingText(*found.least) + ": " +
           MemoryText(*found.least) + "\n";
  }
  if (!found.reasons.empty()) {
    out += "for example " + found.reasons.front() + ": ";
    for (size_t i = 1; i < found.reasons.size(); ++i) {
      out += (i > 1 ? "; " : "") + found.reasons[i];
    }
    out += "\n";
  }
  return out;
}

void WriteSharding(JsonWriter& json, const Sharding& one,
                   const SearchProof& proof, bool parts) {
  json.BeginObject(parts ? JsonLayout::kLines : JsonLayout::kInline);
  json.Key("mesh");
  json.BeginObject();
  for (const MeshAxis& axis : one.mesh.axes) json.Member(axis.name, axis.size);
  json.EndObject();
  json.Members("stages", one.stages, "schedule",
               one.IsPipeline() ? std::optional(one.schedule) : std::nullopt,
               "rules", one.rules, "remat", one.report.settings.remat.text,
               "microbatches", one.report.settings.microbatches, "zero",
               int64_t{one.report.settings.zero}, "expected_s", one.Seconds(),
               "bytes_per_device", one.Bytes(), "fits",
               one.report.memory.Fits());
  WriteProved(json, proof);
  json.Member("unmeasured", TextOrNull(one.unmeasured));
  if (parts) {
    const cost::ExpectedTime& time = *one.report.expected;
    json.Members("least_s", time.least, "most_s", time.most, "mfu",
                 time.model_flops_share, "tokens_per_second_per_device",
                 time.tokens_per_second, "calibrated", time.calibrated);
    WriteTimeParts(json, time.parts);
  }
  json.EndObject();
}

void WriteOptional(JsonWriter& json, std::string_view key,
                   const std::optional<Sharding>& one, const SearchProof& proof,
                   bool parts) {
  json.Member(
      key, !one || !one->report.expected
               ? std::nullopt
               : std::optional(WrittenBy(WriteSharding, *one, proof, parts)));
}

void WriteWhyNot(JsonWriter& json, const WhyNot& one) {
  std::string change = Join(one.changes, "; ");
  json.BeginObject(JsonLayout::kLines);
  json.Members("change", change, "verdict",
               kVerdicts[static_cast<size_t>(one.verdict)], "expected_s",
               one.best ? std::optional(one.best->Seconds()) : std::nullopt,
               "because", one.because);
  WriteTimeParts(json, one.parts);
  WriteOptional(json, "best", one.best, {}, false);
  json.EndObject();
}

void WriteCounts(JsonWriter& json, const search::Counts& counts) {
  json.Key("counts");
  json.BeginObject();
  json.Members("shardings", counts.shardings, "settings", counts.settings,
               "rules", counts.rules, "evaluated", counts.evaluated,
               "excluded_by_bounds", counts.out_of_reach, "too_large",
               counts.too_large, "illegal", counts.illegal, "left",
               counts.left);
  if (counts.left > 0) json.Member("left_bound_s", counts.left_bound);
  json.EndObject();
}

}  // namespace

std::string SearchMeshText(const Mesh& mesh) {
  return Join(mesh.axes, ",", [&](const MeshAxis& axis) {
    return axis.name + ":" + std::to_string(axis.size);
  });
}

std::string SearchMeshText(const Sharding& one) {
  return SearchMeshText(one.mesh) +
         (one.IsPipeline() ? ", " + one.schedule : "");
}

std::string SearchAccuracyText(const Sharding& winner) {
  const cost::ExpectedTime& time = *winner.report.expected;
  const DeviceProfile* const profile = winner.report.settings.profile;
  std::string measured = cost::MeasuredText(profile, winner.IsPipeline());
  if (!measured.empty()) return measured;
  const bool fitted = time.calibrated || !cost::MeasuredText(profile).empty();
  if (winner.IsPipeline() && fitted) {
    return "pipelines were not fitted: " + std::string(search::kPipelineErrors);
  }
  if (time.calibrated) {
    return "calibrated on published runs: 90 of 100 are within 12 %";
  }
  return time.has_experts && time.measured
             ? "models with experts are not fitted: of published runs that "
               "were "
               "kept apart, half are within 12 % and 90 of 100 within 32 %"
             : "not calibrated: no published run has this device";
}

std::string SearchTieText(const Sharding& winner, const Sharding& fastest) {
  const std::string tie = "a tie with the winner, which ";
  if (winner.mesh.axes.size() < fastest.mesh.axes.size() ||
      winner.Bytes() < fastest.Bytes()) {
    return tie + "has fewer axes or needs less memory";
  }
  if (winner.unmeasured.empty() && !fastest.unmeasured.empty()) {
    return tie + "measured runs support";
  }
  const bool lower = winner.report.settings.zero < fastest.report.settings.zero;
  return tie + (lower ? "has the lower ZeRO stage" : "divides no sequence");
}

std::vector<std::string> NotSearched() { return {std::string(kNotSearched)}; }

std::string SearchSettingsText(const cost::Settings& settings) {
  return "remat " + settings.remat.text + ", " +
         Counted(settings.microbatches, "micro-batch", "micro-batches") +
         ", ZeRO " + std::to_string(settings.zero);
}

std::string SearchReportText(const SearchReport& report, bool details) {
  const search::Found& found = report.found;
  std::string out;
  if (found.winner) {
    out = WinnerText(report);
    if (details) {
      out += FrontText(found) + TiesText(found) + WhyNotText(found) +
             SearchPipelinesText(report) + KnownText(found);
    }
  } else {
    out = NothingText(report);
    if (!found.not_known.empty()) return out;
    if (details) out += SearchPipelinesText(report);
  }
  out += CountsText(found.counts) + UnfinishedText(found);
  if (details) out += "not searched: " + std::string(kNotSearched) + "\n";
  if (!report.assumed.empty()) {
    out += "assumed:";
    for (const std::string& flag : report.assumed) out += " " + flag;
    out += "\n";
  }
  if (!details && found.winner) {
    out += "`--details` lists the front of time and memory, " +
           Counted(static_cast<int64_t>(found.ties.size()), "tie") + ", " +
           Counted(static_cast<int64_t>(found.why_not.size()), "alternative") +
           " with the reason why each is worse, and pipelines\n";
  }
  return out;
}

void WriteSearchJson(const SearchReport& report, Sink& out) {
  const search::Found& found = report.found;
  WriteDocument(out, "shardc.search/v1", [&](JsonWriter& json) {
    json.Members("target", report.target, "devices", report.devices);
    WriteOptional(json, "winner", found.winner, report.proof, true);
    WriteOptional(json, "without_stages", found.without_stages, {}, true);
    json.Members(
        "may_fit", found.may_fit, "proof",
        Record("status", kProofs[static_cast<size_t>(report.proof.status)],
               "text", report.proof.text));
    WriteOptional(json, "fastest",
                  found.fastest          ? found.fastest
                  : found.without_stages ? found.without_stages
                                         : found.winner,
                  {}, false);
    WriteOptional(json, "runner_up", found.runner_up, {}, true);
    json.Key("front");
    json.BeginArray(JsonLayout::kLines);
    for (size_t i = 0; i < found.front.size(); ++i) {
      WriteSharding(json, found.front[i],
                    i < report.proofs.size() ? report.proofs[i] : SearchProof{},
                    false);
    }
    json.EndArray();
    json.Array("shown", found.shown,
               [&](const size_t i) { return static_cast<int64_t>(i); });
    json.Member("knee", found.knee < found.front.size()
                            ? std::optional(static_cast<int64_t>(found.knee))
                            : std::nullopt);
    json.Rows("ties", found.ties, [&](const search::Tie& tie) {
      json.Members("kind", tie.kind, "best",
                   WrittenBy(WriteSharding, tie.best, SearchProof(), false));
    });
    json.Lines("why_not", found.why_not,
               [&](const WhyNot& one) { WriteWhyNot(json, one); });
    WriteOptional(json, "least", found.least, {}, false);
    json.Member("reasons", found.reasons);
    WriteNotKnown(json, found.not_known);
    WriteCounts(json, found.counts);
    WriteSearchPipelines(json, report);
    json.Rows("known", found.known, [&](const search::Known& one) {
      json.Members("choice", one.choice, "text", one.text);
    });
    json.Members("unfinished", found.unfinished, "not_searched", NotSearched(),
                 "assumed", report.assumed);
  });
}

// Writes the fastest pipeline that a search found, which may be the winner. The
// figure after it is the difference of its time from that of the winner. For
// example, this pipeline is 1.8 % slower than the winner:
//
//   pipelines   pp:2,dp:32, interleaved with 8 stages a rank, ...: +1.8 %

namespace {}  // namespace

std::string SearchPipelineText(const search::Pipeline& one) {
  return SearchMeshText(one.mesh) + ", " + one.schedule +
         (one.virtual_stages > 1
              ? " with " + std::to_string(one.virtual_stages) + " stages a rank"
              : "") +
         ", " + SearchSettingsText(one.settings);
}

std::string SearchStagesText(const search::Pipelines& pipelines) {
  const search::Pipeline& one = *pipelines.fastest;
  std::string out =
      CountText(std::ssize(one.layers)) + ", whose layers are divided " +
      std::string(search::kDivisionNames[static_cast<size_t>(one.division)]);
  if (pipelines.by_times) {
    out +=
        "; " + ChangeText(pipelines.by_times->seconds / one.seconds) +
        " by the times of the stages, which no measured run has: `--assign " +
        Join(pipelines.by_times->layers, ",") + "`";
  }
  return out;
}

std::string SearchLeftText(std::optional<double> bound) {
  if (!bound) return "; no bound of those is known";
  return "; none of those takes less than " + SecondsText(*bound) + " a step";
}

std::string SearchPipelinesText(const SearchReport& report) {
  const search::Found& found = report.found;
  const search::Pipelines& pipelines = found.pipelines;
  if (!pipelines.why_not.empty()) {
    return "pipelines   not searched: " + Printable(pipelines.why_not) + "\n";
  }
  std::string out = "pipelines   ";
  if (!pipelines.fastest) {
    out += "none that fits";
  } else {
    const search::Pipeline& one = *pipelines.fastest;
    out += SearchPipelineText(one) + ": " +
           (found.winner && !found.winner->IsPipeline()
                ? ChangeText(one.seconds / found.winner->Seconds()) + ", "
                : "") +
           SecondsText(one.seconds) + " a step, from " +
           SecondsText(one.least) + " to " + SecondsText(one.most) + "; " +
           ShareText(std::llround(one.bubble * 1e6), 1'000'000) + " bubble, " +
           BytesText(one.bytes) +
           " of tensors on the fullest rank\n            " +
           SearchStagesText(pipelines);
  }
  return out + "\n            " + CountText(pipelines.evaluated) + " of " +
         CountText(pipelines.bounded) + " evaluated, in the order of bounds" +
         (pipelines.finished ? ""
                             : ", until `--seconds` were over" +
                                   SearchLeftText(pipelines.left_bound)) +
         "\n";
}

void WriteProved(JsonWriter& json, const SearchProof& proof) {
  json.Member("proved",
              proof.status == SearchProof::Status::kNotRun
                  ? std::nullopt
                  : std::optional(proof.status == SearchProof::Status::kPass));
}

void WriteSearchPipelines(JsonWriter& json, const SearchReport& report) {
  const search::Pipelines& pipelines = report.found.pipelines;
  json.Key("pipeline");
  if (!pipelines.fastest) {
    json.Null();
  } else {
    const search::Pipeline& one = *pipelines.fastest;
    json.BeginObject(JsonLayout::kLines);
    json.Key("mesh");
    json.BeginObject();
    for (const MeshAxis& axis : one.mesh.axes) {
      json.Member(axis.name, axis.size);
    }
    json.EndObject();
    json.Members("axis", one.axis, "schedule", one.schedule, "virtual",
                 int64_t{one.virtual_stages}, "layers", one.layers, "rules",
                 one.rules, "remat", one.settings.remat.text, "microbatches",
                 one.settings.microbatches, "zero", int64_t{one.settings.zero},
                 "division",
                 search::kDivisionNames[static_cast<size_t>(one.division)],
                 "expected_s", one.seconds, "least_s", one.least, "most_s",
                 one.most, "bubble", one.bubble, "tensor_bytes", one.bytes);
    const bool wins = report.found.winner && report.found.winner->IsPipeline();
    json.Member("wins", wins);
    WriteProved(json, wins ? report.proof : SearchProof{});
    json.Key("by_times");
    if (pipelines.by_times) {
      json.Object("expected_s", pipelines.by_times->seconds, "layers",
                  pipelines.by_times->layers);
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.Key("pipelines");
  json.BeginObject();
  json.Members("bounded", pipelines.bounded, "evaluated", pipelines.evaluated,
               "why_not", TextOrNull(pipelines.why_not));
  if (!pipelines.finished) {
    json.Member("left_bound_s", pipelines.left_bound);
  }
  json.EndObject();
}

}  // namespace shardc
