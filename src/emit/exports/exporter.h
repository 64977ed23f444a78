// A plan in other systems' words: one file per format, one line each in
// table.h. What a format cannot say is a finding (inexpressible), and then
// nothing of what was written counts.
#ifndef SHARDC_EMIT_EXPORTS_EXPORTER_H_
#define SHARDC_EMIT_EXPORTS_EXPORTER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/axis_rules.h"
#include "model/logical_axes.h"
#include "plan/read.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc::exports {

// What the command line says; empty where it says nothing.
struct Options {
  bool json = false;         // of formats that have a text and a JSON form
  Mode mode = Mode::kTrain;  // of formats that hold one mode
  std::string form{};        // `--form`
  std::string axis{};        // `--axis`
  std::string version{};     // `--transformers`
  std::vector<std::string> priorities{};
  bool open = false;
  bool replicated = false;
  bool no_strided = false;
};

struct Request {
  const ReadPlan& plan;
  Options options;
  const AxisRules* axes = nullptr;  // null where only a plan's file is given
  const std::vector<LogicalNames>* names = nullptr;  // null if not given
};

struct Exporter {
  std::string_view name;
  std::string_view what;     // lower case, for lists of formats
  std::string_view formats;  // of --format: "text", "json" or "text|json"
  std::string_view flags;    // those of its own: "--mode --form"
  void (*write)(const Request& request, Sink& out, Findings& findings);
};

#define SHARDC_EXPORT(name) extern const Exporter name;
#include "emit/exports/table.h"
#undef SHARDC_EXPORT

// In the order of the table.
std::span<const Exporter* const> Exporters();
const Exporter* FindExporter(std::string_view name);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_EXPORTER_H_
