// Compares the memory, traffic and time of steps, of bundled and small models
// under many settings, with testdata/tables/costs.txt: bytes by component, each
// collective, and each part of the time. The tests of formulas state which
// figures are right; this table shows which figures a change affects.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cost/models.h"
#include "cost/pipeline.h"
#include "cost/program.h"
#include "cost/rates.h"
#include "cost/report.h"
#include "devices/profiles.h"
#include "emit/inputs.h"
#include "exec/operations/operation.h"
#include "plan/planned_stages.h"
#include "tables.h"

namespace shardc::cost {
namespace {

std::string RealText(double x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", x);
  return text;
}

using Set = std::function<void(Settings&, const std::string&)>;

// The settings that each word of a line sets, such as `zero=1`.
const std::map<std::string, Set>& Words() {
  static const std::map<std::string, Set> kAll = {
      {"batch", [](Settings& s, const auto& v) { s.batch = std::stoll(v); }},
      {"seq", [](Settings& s, const auto& v) { s.length = std::stoll(v); }},
      {"cache",
       [](Settings& s, const auto& v) { s.kv_length = std::stoll(v); }},
      {"micro",
       [](Settings& s, const auto& v) { s.microbatches = std::stoll(v); }},
      {"zero", [](Settings& s, const auto& v) { s.zero = std::stoi(v); }},
      {"memory", [](Settings& s, const auto& v) { s.memory = std::stoll(v); }},
      {"chunk",
       [](Settings& s, const auto& v) { s.loss_chunk = std::stoll(v); }},
      {"remat",
       [](Settings& s, const auto& v) {
         std::string why;
         s.remat = step::ParseRemat(v, why).value();
       }},
      {"stack", [](Settings& s, const auto& v) { s.stack = FindStack(v); }},
      {"on",
       [](Settings& s, const auto& v) { s.profile = FindDeviceProfile(v); }},
      {"loss",
       [](Settings& s, const auto& v) { s.loss = LossNamed(v).value(); }},
      {"operation",
       [](Settings& s, const auto& v) {
         s.operation = exec::FindOperation(v);
       }},
      {"master",
       [](Settings& s, const auto& v) {
         s.master = ParseDtype(v);
         s.master_given = true;
       }},
      {"gradients",
       [](Settings& s, const auto& v) { s.gradients = ParseDtype(v); }},
      {"matmuls",
       [](Settings& s, const auto& v) { s.matmuls = ParseDtype(v); }},
      {"kv", [](Settings& s, const auto& v) { s.cache = *ParseDtype(v); }},
      {"overlap",
       [](Settings& s, const auto& v) { s.overlap_tensor = v == "yes"; }},
      {"reduce",
       [](Settings& s, const auto& v) {
         s.reduction = v == "each"   ? step::Reduction::kEach
                       : v == "once" ? step::Reduction::kOnce
                                     : step::Reduction::kSharded;
       }},
      {"optimizer",
       [](Settings& s, const auto& v) {
         for (size_t i = 0; i < std::size(kOptimizerNames); ++i) {
           if (kOptimizerNames[i] == v) s.optimizer = static_cast<Optimizer>(i);
         }
       }},
  };
  return kAll;
}

// Returns the settings that the words of a line give. `mode` is not one of the
// settings, so it is set separately.
Settings SettingsOf(const std::string& line, Mode& mode) {
  Settings out;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    const std::string value = word.substr(equals + 1);
    if (word.starts_with("mode=")) {
      mode = ParseMode(value).value();
      continue;
    }
    const auto at = Words().find(word.substr(0, equals));
    REQUIRE_MESSAGE(at != Words().end(), word);
    at->second(out, value);
  }
  return out;
}

std::string HeldText(const Held& held) {
  std::string out;
  for (size_t i = 0; i < kComponentCount; ++i) {
    if (held.by[i].value_or(1) == 0) continue;
    out += std::string(kComponentNames[i]) + " " +
           (held.by[i] ? std::to_string(*held.by[i]) : "?") + ", ";
  }
  return out + (held.total ? std::to_string(*held.total) : "?");
}

std::string MemoryText(const Memory& memory) {
  std::string out = "  holds " + HeldText(memory.most) + "\n";
  const std::string least = HeldText(memory.least);
  if ("  holds " + least + "\n" != out) out += "  at least " + least + "\n";
  if (memory.taken) {
    out += "  takes " + std::to_string(memory.taken->least) + " " +
           std::to_string(memory.taken->expected) + " " +
           std::to_string(memory.taken->most) + " in " +
           std::string(kMomentKeys[static_cast<size_t>(memory.taken->moment)]) +
           " of " + std::string(memory.taken->stack->name) + "\n";
  }
  const auto verdict = memory.Verdict();
  if (verdict) {
    out += "  " + std::string(printing::EnumeratorName(*verdict)) + "\n";
  }
  for (const NotKnown& fact : memory.unknown) {
    out += "  ? " + NotKnownText(fact) + "\n";
  }
  return out;
}

std::string SentText(const Communication& communication) {
  std::string out;
  for (const Transfer& one : communication.transfers) {
    out += "  " + std::string(one.part) + (one.backward ? ", backward " : " ") +
           std::string(CollectiveName(one.kind));
    for (const std::string& axis : one.axes) out += " " + axis;
    out += " x " + std::to_string(one.count) + " " + std::to_string(one.sent);
    if (one.seconds > 0) out += " " + RealText(one.seconds) + " s";
    out += "\n";
  }
  for (const NotKnown& fact : communication.unknown) {
    const std::string text = NotKnownText(fact);
    out += "  ? " + text + "\n";
  }
  return out;
}

std::string TimeText(const Report& report) {
  std::string out;
  if (report.flops) out += "  flops " + RealText(*report.flops);
  if (report.tokens) out += "  tokens " + std::to_string(*report.tokens);
  if (!out.empty()) out += "\n";
  if (report.time) {
    out += "  compute " + RealText(report.time->compute) + ", memory " +
           RealText(report.time->memory) + ", communication " +
           RealText(report.time->communication) + ", bound by " +
           std::string(kBoundNames[static_cast<size_t>(report.time->bound)]) +
           "\n";
  }
  if (report.expected) {
    const ExpectedTime& time = *report.expected;
    out += "  expected " + RealText(time.seconds) + " from " +
           RealText(time.least) + " to " + RealText(time.most) + ", " +
           RealText(time.model_flops_share) + " of the peak, " +
           RealText(time.tokens_per_second) + " tokens/s" +
           (time.calibrated ? "" : ", not calibrated") + ":";
    for (const TimePart& part : time.parts) {
      if (part.seconds == 0) continue;
      out += " " + std::string(part.name) + " " + RealText(part.seconds) + ",";
    }
    out += "\n";
  }
  for (const std::string& text : report.assumptions)
    out += "  = " + text + "\n";
  return out;
}

std::string ReportOfLine(const std::string& line,
                         const std::function<CostInputs(Mode)>& work) {
  Mode mode = Mode::kTrain;
  const Settings settings = SettingsOf(line, mode);
  const Report report = ReportOf(work(mode), settings);
  return "### " + line + "\n" + MemoryText(report.memory) +
         SentText(report.communication) + TimeText(report);
}

// Returns the text of the collectives of a step's program.
std::string ProgramText(const Inputs& inputs, const std::string& line) {
  Mode mode = Mode::kTrain;
  const Settings settings = SettingsOf(line, mode);
  const CostInputs work = MakeCostInputs(*inputs.compiled, inputs.config, mode);
  StepTraffic traffic(*inputs.compiled, inputs.config, settings);
  std::string why = AgainstProgram(work, settings);
  std::optional<Communication> sent;
  if (why.empty()) sent = traffic.On(*inputs.compiled, work, why);
  return "### the program with " + line + "\n" +
         (sent ? SentText(*sent) : "  none: " + why + "\n");
}

std::string PipelineText(const Inputs& inputs, const std::string& line) {
  Mode mode = Mode::kTrain;
  const Settings settings = SettingsOf(line, mode);
  const CostInputs work = MakeCostInputs(*inputs.compiled, inputs.config, mode);
  Findings findings;
  std::string out = "### stages with " + line + "\n";
  const auto cost = PipelineCostOf(*inputs.compiled, work, settings,
                                   *inputs.compiled->stages, false, findings);
  if (!cost) {
    for (const Finding& finding : findings.all()) out += finding.message + "\n";
    return out;
  }
  for (const StageCost& stage : cost->stages) {
    out += "  units " + std::to_string(stage.begin) + "-" +
           std::to_string(stage.end) + ": parameters " +
           std::to_string(stage.parameters.value_or(-1)) + ", gradients " +
           std::to_string(stage.gradients.value_or(-1)) + ", optimizer " +
           std::to_string(stage.optimizer.value_or(-1)) + ", kept " +
           std::to_string(stage.peak.kept) + ", working " +
           std::to_string(stage.peak.working) + ", logits " +
           std::to_string(stage.peak.logits) + ", gathered " +
           std::to_string(stage.peak.gathered) + ", times " +
           RealText(stage.times.forward) + " " + RealText(stage.times.input) +
           " " + RealText(stage.times.weight) + ", after " +
           RealText(stage.after) + "\n";
  }
  for (const RankCost& rank : cost->ranks) {
    out += "  the rank of stages";
    for (const int32_t stage : rank.stages) out += " " + std::to_string(stage);
    out += " holds " + HeldText(rank.held) + ", sends " +
           std::to_string(rank.sent_forward) + " and " +
           std::to_string(rank.sent_back) + "\n";
  }
  out += "  message " + std::to_string(cost->boundary) + " " +
         RealText(cost->hop) + ", step " + RealText(cost->Step()) + ", after " +
         RealText(cost->after) + ", uneven " + RealText(cost->Unevenness());
  if (cost->better.empty()) return out + "\n";
  out += ", better";
  for (const int64_t layers : cost->better) out += " " + std::to_string(layers);
  return out + " " + RealText(cost->better_step) + "\n";
}

TEST_CASE("what steps hold, send and take") {
  CheckTable("costs.txt", [](const TableCase& given) {
    std::istringstream lines(given.Text("settings"));
    std::string out;
    if (given.Find("bundled") != nullptr) {
      for (std::string line; std::getline(lines, line);) {
        out += ReportOfLine(line, [&](Mode mode) {
          return BundledWork(given.Text("bundled"), given.Text("config"),
                             given.Text("mesh"), mode, given.Text("axes"));
        });
      }
      return out;
    }
    const Inputs inputs(given, "");
    REQUIRE_MESSAGE(inputs.compiled, inputs.Errors());
    for (std::string line; std::getline(lines, line);) {
      if (inputs.compiled->stages != nullptr) {
        out += PipelineText(inputs, line);
        continue;
      }
      out += ReportOfLine(line, [&](Mode mode) {
        return MakeCostInputs(*inputs.compiled, inputs.config, mode);
      });
      out += ProgramText(inputs, line);
    }
    return out;
  });
}

}  // namespace
}  // namespace shardc::cost
