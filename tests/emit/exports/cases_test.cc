// Compares the exports of small plans in all formats with the expected texts in
// testdata/tables/emit_exports.txt. Formats of pipelines get stages as well.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "emit/exports/exporter.h"
#include "schedule/schedules.h"
#include "tables.h"

namespace shardc::exports {
namespace {

// Returns the parameter of the line "name BF16 8 4 : dp+tp -".
ReadParam ParamOf(const std::string& line) {
  ReadParam out;
  std::istringstream in(line);
  std::string word;
  in >> out.name >> word;
  out.type.dtype = ParseDtype(word);
  Shape shape;
  while (in >> word && word != ":") shape.push_back(std::stoll(word));
  while (in >> word) {
    out.spec.emplace_back();
    std::istringstream names(word);
    for (std::string name; std::getline(names, name, '+');) {
      if (name != "-") out.spec.back().push_back(name);
    }
  }
  out.type.shape = std::move(shape);
  return out;
}

ReadPlan PlanOf(const TableCase& given) {
  ReadPlan out;
  out.fingerprint = "sha256:0";
  out.modes = {Mode::kTrain};
  std::istringstream axes(given.Text("mesh"));
  std::string name;
  for (int64_t size = 0; axes >> name >> size;) {
    out.mesh.axes.push_back({name, size});
    out.mesh.devices *= size;
  }
  if (const std::string slices = given.Text("slices of dp"); !slices.empty()) {
    out.mesh.slices = std::stoll(slices);
    out.mesh.dcn.assign(out.mesh.axes.size(), 1);
    out.mesh.dcn.front() = out.mesh.slices;
  }
  std::istringstream params(given.Text("params"));
  for (std::string line; std::getline(params, line);) {
    out.params.push_back(ParamOf(line));
  }
  return out;
}

// Parses "interleaved 2 2 4 : 3 1 2 2": the schedule, the number of ranks, the
// stages of a rank, the micro-batches, and the layers of each stage.
std::optional<PipelineChoice> PipelineOf(const TableCase& given) {
  std::istringstream in(given.Text("stages"));
  std::string name, colon;
  schedule::Extent extent;
  if (!(in >> name >> extent.ranks >> extent.virtual_stages >>
        extent.microbatches)) {
    return std::nullopt;
  }
  const schedule::Schedule* schedule = schedule::FindSchedule(name);
  REQUIRE(schedule != nullptr);
  PipelineChoice out{"pp", schedule::MakeTable(*schedule, extent), {}};
  in >> colon;
  for (int64_t layers = 0; in >> layers;) out.layers.push_back(layers);
  return out;
}

TEST_CASE("what each format writes of small plans") {
  CheckTable("emit_exports.txt", [](const TableCase& given) {
    const ReadPlan plan = PlanOf(given);
    const auto pipeline = PipelineOf(given);
    std::istringstream formats(given.Text("formats"));
    std::string out;
    for (std::string format; formats >> format;) {
      // `vllm:json` is the format as JSON.
      const size_t colon = format.find(':');
      const Exporter* exporter = FindExporter(format.substr(0, colon));
      REQUIRE(exporter != nullptr);
      Options options;
      options.json = colon != std::string::npos;
      options.axis = given.Text("axis");
      options.version = given.Text("version");
      Findings findings;
      std::string text = TextOf([&](Sink& sink) {
        exporter->write({.plan = plan,
                         .options = options,
                         .pipeline = pipeline ? &*pipeline : nullptr},
                        sink, findings);
      });
      // Leave out the functions of a Python module; tests/runtimes runs them.
      text = text.substr(0, text.find("\n\n\nclass "));
      out += "### " + format + "\n" + text;
      if (!out.ends_with('\n')) out += "\n";
      for (const Finding& finding : findings.all()) {
        out += finding.code->Id() + " " + finding.message +
               "\n  help: " + finding.help + "\n";
      }
    }
    return out;
  });
}

}  // namespace
}  // namespace shardc::exports
