// Directory: emit/exports. Writes plans in other systems' formats.
// Its files include headers of these directories: source, model, roles,
// schedule, plan.
//
// Exports a plan to the formats of other systems. Each format has a file and a
// line in table.h; the formats of pipelines share one file. If a format cannot
// express a part of the plan, the exporter reports it as an error or a warning
// (`inexpressible`). After an error, the caller discards the output.
#ifndef SHARDC_EMIT_EXPORTS_EXPORTER_H_
#define SHARDC_EMIT_EXPORTS_EXPORTER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/logical_axes.h"
#include "model/manifest.h"
#include "model/rules.h"
#include "plan/read.h"
#include "schedule/table.h"
#include "source/finding.h"
#include "source/sink.h"

namespace shardc::exports {

// Options of the command line. An empty string means that the option was not
// given.
struct Options {
  // True to write JSON, false to write text.
  bool json = false;
  // The mode that is exported, for formats that can express only one mode.
  Mode mode = Mode::kTrain;
  // The values of `--form`, `--axis` and `--transformers`.
  std::string form{};
  std::string axis{};
  std::string version{};
  std::vector<std::string> priorities{};
  bool open = false;
  bool replicated = false;
  bool no_strided = false;
};

// The stages of a pipeline (`--stages`), for formats that describe pipelines,
// such as `torch-pipeline`.
struct PipelineChoice {
  std::string axis;
  schedule::Table table;
  // The number of layers of each stage; empty to divide the layers evenly.
  std::vector<int64_t> layers;
};

struct Request {
  const ReadPlan& plan;
  Options options;
  const RuleSet* rules = nullptr;  // null if the plan was read from a file
  // The logical axes of each parameter (`--names`); null if not given.
  const std::vector<LogicalNames>* names = nullptr;
  // The arrays of a train state (`--state`); null if not given.
  const Manifest* state = nullptr;
  // The stages of a pipeline (`--stages`); null if not given.
  const PipelineChoice* pipeline = nullptr;
  // The model type of the configuration, such as `llama`; empty if not known.
  std::string model_type{};
};

// How a format states replicated KV heads.
enum class KvForm : uint8_t {
  kNone,     // it cannot
  kSubAxes,  // by factors of axes, or it writes no specs
  kDevices,  // it lists devices: it gets the plan on the refined mesh
};

// How a format states dimensions with several equal parts, each of which the
// axes divide (`parts` of a rule).
enum class PartsForm : uint8_t {
  kNone,   // it cannot
  kWrites  // it writes the parts, or no specs
};

struct Exporter {
  std::string_view name;
  std::string_view what;  // description in lower case, for lists of formats
  // The values of --format: "text", "json" or "text|json".
  std::string_view formats;
  // The options that this format accepts and some other formats do not, such as
  // "--mode --form".
  std::string_view flags;
  void (*write)(const Request& request, Sink& out, Findings& findings);
  // True if the format has one file per pipeline stage. The exporter then gets
  // the plan on the mesh of one stage (WithinStage).
  bool of_stage = false;
  // True if the format lists the ranks that hold a parameter.
  bool lists_ranks = false;
  // True if the format shows a plan to people, as a table or a drawing. Such a
  // format shows illegal specs too. Other formats are for programs, which would
  // shard tensors by an illegal spec in another way than the plan states. A
  // plan with an illegal spec is therefore not exported to them.
  bool for_people = false;
  // How the format states KV heads that are replicated over a part of their
  // axes (`kv_replicate`). If it cannot, `no_kv_replicas` gives the reason.
  KvForm kv_form = KvForm::kNone;
  std::string_view no_kv_replicas =
      "it shards a dimension over complete axes of the mesh";
  PartsForm parts_form = PartsForm::kNone;
};

#define SHARDC_EXPORT(name) extern const Exporter name;
#include "emit/exports/table.h"
#undef SHARDC_EXPORT

// Returns every format, in the order of the table.
std::span<const Exporter* const> Exporters();
const Exporter* FindExporter(std::string_view name);

// Returns false and adds a finding (inexpressible) if the plan has KV heads
// that are replicated over a part of their axes, and the format cannot state
// them. Writes the plan on the refined mesh if the format needs it.
bool StateKvReplicas(const Exporter& exporter, ReadPlan& plan,
                     Findings& findings);
// Returns false and adds a finding (inexpressible) if a parameter has
// dimensions of several parts in this mode, and the format cannot state them. A
// format without `--mode` writes all modes.
bool StateParts(const Exporter& exporter, const ReadPlan& plan, Mode mode,
                Findings& findings);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_EXPORTER_H_
