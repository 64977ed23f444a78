// Directory: emit/exports. Writes plans in other systems' formats.
// Its files include headers of these directories: source, model, devices,
// program, roles, schedule, facts, systems, plan.
//
// Exports a plan to the formats of other systems. Each format has a file and a
// line in table.h; the formats of pipelines share one file. If a format cannot
// express a part of the plan, the exporter reports it as an error or a warning
// (`inexpressible`). After an error, the caller discards the output.
#ifndef SHARDC_EMIT_EXPORTS_EXPORTER_H_
#define SHARDC_EMIT_EXPORTS_EXPORTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "plan/read.h"
#include "program/facts.h"
#include "program/program.h"
#include "program/sharding.h"
#include "roles/role.h"
#include "schedule/table.h"
#include "source/file.h"
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

// What a traced program shows about the parameters of a plan.
struct ProgramNotes {
  // Parameters that other modules read. Those of `reads.replicated` must be
  // replicated, although the plan may shard them.
  program::ModuleReads reads;
  // By the name of a matrix, why the axis of tensor parallelism cannot shard
  // it. Matrices that the plan does shard may have an entry, which is not read.
  std::map<std::string, std::string, std::less<>> unsharded;
  // By the name of a parameter, the line that fixes the size of a value which
  // the axis shards with a dimension of the parameter: a text for each
  // dimension, empty if no line does.
  std::map<std::string, std::vector<std::string>, std::less<>> fixed;
  // The role of each weight of a feed-forward block, by its name: kUp,
  // kFusedGateUp or kDown.
  std::map<std::string, Role, std::less<>> roles;
  // The matrices whose rows lookups read, as those of an embedding.
  std::set<std::string, std::less<>> tables;
};

// A traced program on the mesh of a plan.
struct ShardedProgram {
  const program::Program& program;
  const Mesh& mesh;
  const program::Sharding& sharding;
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
  // Null if the plan does not follow from a traced program. With a program,
  // `parts` of the plan are all that a dimension has.
  const ProgramNotes* program = nullptr;
  // The program of `--program`, if the format describes a program. The plan
  // then has no parameters.
  const ShardedProgram* sharded = nullptr;
  // The program of the model's step, if the format describes the step. The plan
  // then has no parameters.
  const program::Program* step = nullptr;
};

// How a format states replicated KV heads.
enum class KvForm : uint8_t {
  kNone,     // it cannot
  kSubAxes,  // by factors of axes, or it writes no specs
  kDevices,  // it lists devices: it gets the plan on the refined mesh
};

// How a format states dimensions with several parts, each of which the axes
// divide (`parts` of a rule).
enum class PartsForm : uint8_t {
  kNone,         // it cannot
  kWritesEqual,  // it writes equal parts, and cannot state sizes of parts
  kWrites        // it writes no specs
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
  // True if what the format describes replicates KV heads by itself: plans are
  // then compiled with `kv_replicate`.
  bool repeats_keys = false;
  PartsForm parts_form = PartsForm::kNone;
  // True if the format describes a traced program under a plan.
  bool of_program = false;
  // True if the format describes the step of a `model:` section. It needs
  // neither a plan nor a mesh.
  bool of_step = false;
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

// What JAX and XLA do with a dimension that its axes do not divide. XLA's parts
// also differ from those of a plan if a dimension has several axes.
constexpr std::string_view kEqualParts =
    "a NamedSharding of JAX divides a dimension into equal parts";
constexpr std::string_view kPaddedByXla =
    "XLA pads such a dimension, and its shards are then of equal size";

// The largest number of devices that an export lists by number.
constexpr int64_t kMostListed = 1 << 16;

// Returns the separator that occurs in more parameter names: a slash or a dot.
// If as many names contain a slash as a dot, returns a slash.
char SeparatorOf(const ReadPlan& plan);

// Returns the spec for a tensor of the given rank: an empty entry is added for
// each dimension that the spec lacks.
Spec Padded(const Spec& spec, size_t rank);

// Return the shape and the bytes of the largest shard. An axis that the mesh
// lacks has size 1. Both return nullopt if the shape is unknown or a number
// overflows. ShardBytes() also returns nullopt if the dtype is unknown.
std::optional<Shape> ShardShape(const Mesh& mesh, const Spec& spec,
                                const std::optional<Shape>& shape);
std::optional<int64_t> ShardBytes(const Mesh& mesh, const Spec& spec,
                                  const TensorType& type);

// Returns false and adds a finding (inexpressible) if some parameter is held
// only by the devices at one coordinate of an axis, which the format cannot
// express. The finding names the format, the first such parameter and the
// number of others.
bool NoPlacements(const ReadPlan& plan, std::string_view format,
                  Findings& findings);
bool ShapesKnown(const ReadPlan& plan, std::string_view format,
                 Findings& findings);
// Returns false and adds a finding (inexpressible) if some parameter has a
// dtype that stores elements in blocks.
bool NoBlocks(const ReadPlan& plan, std::string_view format,
              Findings& findings);

// Which uneven shards a format cannot express: those of one mode, or of all
// modes if `mode` is nullopt, and, if `axis` is not empty, only those of
// dimensions that this axis shards.
struct Inexpressible {
  std::string_view format;
  std::string_view why;  // what the other system does with such a dimension
  std::optional<Mode> mode = std::nullopt;
  std::string axis = {};
};
// Returns false and adds a finding (inexpressible) if some parameter has such
// shards, which only the policy `illegal: pad` permits.
bool EvenShards(const ReadPlan& plan, const Inexpressible& uneven,
                Findings& findings);

// Returns false and adds a finding (limit) if the mesh has several slices, so
// that its devices must be listed, and has more than kMostListed devices.
bool CanListDevices(const Mesh& mesh, std::string_view format,
                    Findings& findings);

// Returns whether the mesh has the axis that an option names. If not, adds a
// finding (unknown-name).
bool HasAxis(const Mesh& mesh, const std::string& flag, const std::string& name,
             Findings& findings);

// Parameters whose names differ only in whole numbers and that have the same
// type and sharding. Text formats write one line for all of them.
struct Fold {
  std::string name;  // such as `layers/*/mlp/up/kernel`
  const ReadParam* first = nullptr;
  int64_t count = 0;
};
// Returns the groups in the order of their first parameter.
std::vector<Fold> Folded(const ReadPlan& plan, char separator);

// Returns a spec in short form: `fsdp+sp, tp, -` for [["fsdp", "sp"], "tp",
// null]; `replicated` if no dimension is sharded.
std::string ShortSpec(const Spec& spec);

// Returns a plan without stages in which each device holds the same parameters
// as before. A parameter of one rank gets a placement: only the devices at the
// rank's coordinate of the stage axis hold it. A tensor of stacked layers is
// sharded over that axis. Returns nullopt and adds a finding (inexpressible) in
// three cases: a parameter is on several ranks but not on all; a parameter of
// one rank already has a placement on another axis; the ranks, in their order,
// do not hold equal numbers of the layers of a stacked tensor.
std::optional<ReadPlan> WithoutStages(const ReadPlan& plan,
                                      std::string_view format,
                                      Findings& findings);

// Returns the plan on the mesh of one stage, which is the mesh without the
// stage axis, for formats that have one file per stage.
ReadPlan WithinStage(const ReadPlan& plan);

// Returns the axis that `--axis` names, which is `tp` by default. Returns
// nullopt and adds a finding if the mesh lacks the axis.
std::optional<std::string> TensorAxis(const Request& request,
                                      Findings& findings);

// The dimension that a mesh axis shards. If other axes shard this dimension
// first, a rank's part consists of several pieces. `stride` is the number of
// pieces: the product of the sizes of the other axes. SplitBy() returns nullopt
// if the axis shards no dimension.
struct Split {
  int64_t dim = 0;
  int64_t stride = 1;
};
std::optional<Split> SplitBy(const Mesh& mesh, const std::string& axis,
                             const Spec& spec);

// Returns a Python string literal. It is the JSON string, which is valid
// Python.
std::string PythonString(std::string_view text);
// Returns `P(("fsdp", "sp"), None, "tp")`.
std::string PartitionSpecText(const Spec& spec);
// Returns `{"dp": 2, "tp": 4}`.
std::string AxesText(const Mesh& mesh);

// Returns one file, python/shardc/arrays.py, which the build embeds.
std::span<const EmbeddedFile> EmbeddedArrays();

// The arrays of a train state, with the sharding of the parameter to which each
// array belongs.

struct StateArray {
  std::string name;  // the array's path in the state
  Spec spec;         // empty if the array is replicated
};

// Returns the spec of each array of a train state, in the order of the state.
// The state has the parameters' tree and copies of it, such as Adam's moments.
// Only arrays in these trees are checked. If an array of several elements has a
// parameter's name and another shape than in the plan, an error is added. If an
// array has the name of no parameter of the plan, a warning is added, and the
// array is replicated. Returns an empty list after errors.
std::vector<StateArray> ArraysOfState(const ReadPlan& plan, Mode mode,
                                      const Manifest& state,
                                      Findings& findings);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_EXPORTER_H_
