// `shardc report`: writes a plan as one HTML page. The contents are gathered
// first, and then written in one pass:
//
//   shardc report --target llama3-8b-64 --base main.plan.json -o report.html
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/check_targets.h"
#include "cli/commands.h"
#include "cli/compared_program.h"
#include "cli/cost_flags.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/pictured.h"
#include "cli/planned.h"
#include "cli/progress.h"
#include "cli/target_audit.h"
#include "cli/version.h"
#include "cost/report.h"
#include "emit/findings/formats.h"
#include "emit/report/page.h"
#include "emit/report/report.h"
#include "lint/baseline.h"
#include "lint/run.h"
#include "model/mesh.h"
#include "model/option_value.h"
#include "picture/fold.h"
#include "plan/difference/plan_difference.h"
#include "plan/planned_stages.h"
#include "plan/read.h"
#include "schedule/schedules.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// The file of a page for which a user at a terminal gave no name.
constexpr const char* kPageOfTerminal = "shardc-report.html";

// Reads a file of results of `shardc verify` for the report page. The member
// `schema` of the file determines whether the file has attention cases or
// complete steps.
//
// Attention cases become rows of a table. Cases of the same operation and mode
// share a row, which counts them by status. The row also has the largest error
// of its cases, as a fraction of the tolerance, and a reason why a case did not
// pass. For example, this row stands for 21 cases:
//
//   ring  decode   18 pass  0 fail  3 unsupported   0.62   "lengths that ..."
//
// A complete step becomes a table of the collectives of its program. The table
// is in the program's order, and has the bytes that each collective sends.

struct Verified {
  std::vector<report::Table> tables;
  bool failed = false;  // whether a case or step failed
};

constexpr std::string_view kWriteAgain =
    "write it again with `shardc verify --format json`";

// Reads the members of one file. After the first error, all further members are
// skipped.
class ReportReader {
 public:
  ReportReader(const Mesh& mesh, Findings& findings)
      : mesh_(mesh), findings_(findings) {}

  bool good() const { return good_; }

  // Reads `status`, which is `pass`, `fail` or `unsupported`.
  std::string_view Status(const JsonValue& object) {
    const std::string_view out = Text(object, "status");
    if (good_ && out != "pass" && out != "fail" && out != "unsupported") {
      Refuse(object.Find("status").value_or(object),
             "`status` is " + ShortQuote(out) +
                 ", not `pass`, `fail` or `unsupported`");
    }
    return out;
  }
  std::string_view Text(const JsonValue& object, std::string_view key) {
    const auto value = Member(object, key, JsonKind::kString);
    return value ? value->string() : std::string_view();
  }
  // Reads a text. Returns nullopt if the member is null or absent.
  std::optional<std::string_view> TextOrNull(const JsonValue& object,
                                             std::string_view key) {
    if (IsNull(object, key)) return std::nullopt;
    return Text(object, key);
  }
  int64_t Count(const JsonValue& object, std::string_view key) {
    const auto value = Member(object, key, JsonKind::kInteger);
    if (value && value->integer() < 0) Refuse(*value, "this is not a count");
    return value ? value->integer() : 0;
  }
  // Reads a number. Returns nullopt if the member is null or absent.
  std::optional<double> Real(const JsonValue& object, std::string_view key) {
    const auto value = object.Find(key);
    if (!value || value->IsNull()) return std::nullopt;
    if (value->kind() != JsonKind::kInteger &&
        value->kind() != JsonKind::kReal) {
      Refuse(*value, "`" + std::string(key) + "` is not a number");
      return std::nullopt;
    }
    return value->real();
  }
  std::vector<JsonValue> List(const JsonValue& object, std::string_view key) {
    std::vector<JsonValue> out;
    const auto value = Member(object, key, JsonKind::kArray);
    if (!value) return out;
    for (const JsonValue item : value->items()) out.push_back(item);
    return out;
  }
  std::string Names(const JsonValue& object, std::string_view key) {
    std::string out;
    for (const JsonValue& item : List(object, key)) {
      if (!item.IsString()) {
        Refuse(item, "this is not a name");
        return {};
      }
      AppendItem(out, " ", item.string());
    }
    return out;
  }
  // Returns whether the results are for the plan's mesh. A case of a large mesh
  // runs on a mesh with smaller axes. Its member `mesh` is this smaller mesh,
  // and `given_mesh` is the large mesh, which is compared with the plan's.
  bool OfThisMesh(const JsonValue& object) {
    const bool reduced = object.IsObject() && object.Find("given_mesh");
    const auto value =
        Member(object, reduced ? "given_mesh" : "mesh", JsonKind::kObject);
    if (!value) return false;
    const auto mesh = ParsePlanMesh(*value, findings_);
    if (!mesh) return good_ = false;
    const std::string given = MeshText(*mesh), wanted = MeshText(mesh_);
    if (given == wanted) return true;
    Refuse(*value,
           "this was verified on " + given + ", the plan's mesh is " + wanted);
    return false;
  }
  void Refuse(const JsonValue& value, std::string message) {
    if (good_) {
      findings_.Add(code::kSchema, value.place(), std::move(message),
                    std::string(kWriteAgain));
    }
    good_ = false;
  }

 private:
  static bool IsNull(const JsonValue& object, std::string_view key) {
    const auto value = object.Find(key);
    return !value || value->IsNull();
  }
  std::optional<JsonValue> Member(const JsonValue& object, std::string_view key,
                                  JsonKind kind) {
    if (!good_) return std::nullopt;
    if (!object.IsObject()) {
      Refuse(object, "this is not an object");
      return std::nullopt;
    }
    auto value = RequiredMember(object, key, kind, findings_);
    good_ = value.has_value();
    return value;
  }

  const Mesh& mesh_;
  Findings& findings_;
  bool good_ = true;
};

// Formats a fraction with two digits (0.62), or with four digits if it is near
// 0 or 1.
std::string PartText(double part) {
  std::array<char, 32> text{};
  const int digits = part < 0.005 || part > 0.995 ? 4 : 2;
  std::snprintf(text.data(), text.size(), "%.*f", digits, part);
  return text.data();
}

struct Row {
  std::string operation, mode, reason;
  int64_t passed = 0, failed = 0, unsupported = 0;
  std::optional<double> closest;
};

void AddCase(ReportReader& read, const JsonValue& value,
             std::vector<Row>& rows) {
  const std::string_view operation = read.Text(value, "operation");
  const std::string_view mode = read.Text(value, "mode");
  const std::string_view status = read.Status(value);
  const auto reason = read.TextOrNull(value, "reason");
  const auto error = read.Real(value, "max_abs_error");
  const auto tolerance = read.Real(value, "tolerance");
  if (!read.good() || !read.OfThisMesh(value)) return;
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
    return row.operation == operation && row.mode == mode;
  });
  Row& row = same != rows.end() ? *same : rows.emplace_back();
  row.operation = operation;
  row.mode = mode;
  (status == "pass"   ? row.passed
   : status == "fail" ? row.failed
                      : row.unsupported) += 1;
  if (reason && row.reason.empty()) row.reason = *reason;
  if (error && tolerance && *tolerance > 0) {
    row.closest = std::max(row.closest.value_or(0), *error / *tolerance);
  }
}

void ReadCases(ReportReader& read, const JsonValue& root,
               const std::string& from, Verified& out) {
  std::vector<Row> rows;
  for (const JsonValue& one : read.List(root, "cases")) {
    AddCase(read, one, rows);
    if (!read.good()) return;
  }
  report::Table table;
  int64_t passed = 0, failed = 0, unsupported = 0;
  table.heads = {"operation",       "mode", "pass", "fail", "unsupported",
                 "error/tolerance", "why"};
  table.numbers = {false, false, true, true, true, true, false};
  for (Row& row : rows) {
    passed += row.passed;
    failed += row.failed;
    unsupported += row.unsupported;
    table.rows.push_back({row.operation, row.mode, CountText(row.passed),
                          CountText(row.failed), CountText(row.unsupported),
                          row.closest ? PartText(*row.closest) : "",
                          std::move(row.reason)});
  }
  table.title = "Attention, verified";
  table.about = "Sharded attention compared with the dense reference, from `" +
                from + "`: " + CountText(passed) + " pass, " +
                CountText(failed) + " fail, " + CountText(unsupported) +
                " unsupported.";
  out.failed = out.failed || failed > 0;
  out.tables.push_back(std::move(table));
}

std::string AboutStep(ReportReader& read, const JsonValue& step,
                      std::string_view status, const std::string& from) {
  std::string out = "A step of the model, from `" + from + "`: ";
  if (status == "unsupported") {
    return out + "it is unsupported. " +
           std::string(read.TextOrNull(step, "reason").value_or(""));
  }
  out += status == "pass" ? "every result equals the dense model's."
                          : "a result differs from the dense model's.";
  return out + " Bytes are those that the busiest device sends at " +
         Counted(read.Count(step, "batch"), "row") + " of " +
         Counted(read.Count(step, "length"), "token") + ", over all layers.";
}

// Adds the op to the table if it is a collective. The file lists equal layers
// once, with their number. The op's bytes are multiplied by this number.
void AddOp(ReportReader& read, const JsonValue& op, report::Table& table) {
  const auto collective = read.TextOrNull(op, "collective");
  if (!collective) return;
  const int64_t layers = read.Count(op, "layers");
  const int64_t bytes = read.Count(op, "bytes_per_device");
  const auto sent = CheckedMul(layers, bytes);
  if (!sent) {
    read.Refuse(op, "this number of bytes does not fit in 64 bits");
    return;
  }
  table.rows.push_back(
      {std::string(read.Text(op, "phase")), std::string(read.Text(op, "part")),
       std::string(read.Text(op, "op")), std::string(read.Text(op, "specs")),
       std::string(*collective) + " " + read.Names(op, "axes"),
       BytesText(*sent)});
}

void ReadSteps(ReportReader& read, const JsonValue& root,
               const std::string& from, Verified& out) {
  for (const JsonValue& step : read.List(root, "steps")) {
    const std::string_view status = read.Status(step);
    if (!read.good() || !read.OfThisMesh(step)) return;
    report::Table table;
    table.title = "Step, verified: " + std::string(read.Text(step, "mode"));
    table.about = AboutStep(read, step, status, from);
    table.heads = {"phase", "part", "op", "specs", "collective", "sent"};
    table.numbers = {false, false, false, false, false, true};
    for (const JsonValue& op : read.List(step, "ops")) AddOp(read, op, table);
    if (!read.good()) return;
    out.failed = out.failed || status == "fail";
    out.tables.push_back(std::move(table));
  }
}

// Reads a file of results. Returns nullopt after a finding in these cases: the
// file or its JSON cannot be read, the schema or the mesh in it is not valid,
// or the results are for another mesh than `mesh`.
std::optional<Verified> ReadVerified(const std::string& path, const Mesh& mesh,
                                     Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  const JsonValue root = document->root();
  const std::string_view kind = SchemaOf(root);
  const std::string name(AfterLast(path, '/'));
  ReportReader read(mesh, findings);
  Verified out;
  if (kind == "shardc.verify/v1" && root.Find("cases")) {
    ReadCases(read, root, name, out);
  } else if (kind == "shardc.step/v1" && root.Find("steps")) {
    ReadSteps(read, root, name, out);
  } else {
    read.Refuse(root, "this is not a report of `shardc verify`");
  }
  if (!read.good()) return std::nullopt;
  return out;
}

struct ReportCommand {
  CostFlags flags;
  std::string plan, base, output;
  ProgramFlags program;
  Strings verified;
  bool allow_edited = false;
};

// Returns the file name of a path, such as `llama.plan.json`. The page must not
// show the names of directories.
std::string FileName(const std::string& path) {
  return std::string(AfterLast(path, '/'));
}

std::string TitleOf(const ReportCommand& command, const Target& target,
                    const Planned& planned) {
  if (!target.name.empty()) return target.name;
  if (planned.compiled == nullptr) return FileName(command.plan);
  const std::string& model = planned.compiled->manifest.model;
  const std::string mesh =
      std::to_string(planned.mesh().devices) +
      (planned.mesh().devices == 1 ? " device" : " devices");
  return (model.empty() ? FileName(target.manifest) : model) + " on " + mesh;
}

// The data for the page. `page` has pointers to the other members.
struct Gathered {
  std::unique_ptr<const Planned> planned;
  std::optional<picture::FoldedPlan> folded, base_folded;
  std::optional<PlanTable> base;
  std::optional<PlanDifference> diff;
  Findings findings;
  std::unique_ptr<const ReportedProgram> program;
  report::Input page;
};

std::optional<PlanDifference> CompareWithBase(const Gathered& all,
                                              Findings& findings) {
  const Planned& planned = *all.planned;
  if (planned.compiled == nullptr) {
    return ComparePlans(*all.base, planned.table, findings);
  }
  const auto table = TableOf(*planned.compiled, findings);
  if (!table) return std::nullopt;
  return ComparePlans(*all.base, *table, findings);
}

bool GatherBase(const ReportCommand& command, Gathered& to,
                Findings& findings) {
  if (command.base.empty()) return true;
  to.base =
      ReadTable(command.base, EditedPlanOf(command.allow_edited), findings);
  if (!to.base) return false;
  to.base_folded.emplace(*to.base);
  to.diff = CompareWithBase(to, findings);
  if (!to.diff) return false;
  to.page.base =
      report::Base{FileName(command.base), &*to.base_folded, &*to.diff};
  return true;
}

// Adds the findings that `check` reports for the inputs, the committed files
// and the budgets of the target, with the project's settings and baseline. The
// findings that make `check` exit with status 1 are a failure of the page. For
// a plan file, adds nothing. Returns false after a finding about an option or
// an input.
bool GatherFindings(const ReportCommand& command, const Target& target,
                    const Common& common, Gathered& to, Findings& findings) {
  if (!command.plan.empty()) return true;
  CheckOptions options;
  options.inputs = command.flags.inputs;
  // The section about the compiled program has the findings of `audit`. The
  // check adds only those about its budget.
  ProgramSums sums;
  options.programs = &sums;
  if (!command.flags.settings["--memory"].empty()) {
    options.lint.memory =
        ParseBytes("--memory", command.flags.settings["--memory"], findings);
    if (!options.lint.memory) return false;
  }
  // The lints must use the same sizes of the step as the page's costs.
  const auto settings =
      CostSettings(command.flags, target, Mode::kTrain, findings);
  if (!settings) return false;
  options.lint.batch = settings->batch;
  options.lint.length = settings->length;
  options.lint.kv_length = settings->kv_length;
  const LintSettings project =
      ProjectLintSettings(command.flags.inputs.asked, findings);
  const auto selection = Selection::Make(project, false, findings);
  if (!selection) return false;
  std::optional<Baseline> baseline;
  if (!project.baseline.empty()) {
    baseline = ReadBaseline(project.baseline, findings);
    if (!baseline) return false;
  }
  // A baseline lists known findings by their parameters. The page lists none.
  options.lint.lists_names = baseline.has_value();
  Common quiet = common;
  quiet.quiet = true;
  auto checked = CheckTargets({command.flags.settings.Replacing(target)},
                              options, *selection, quiet);
  findings.NoteReadsOf(checked.front().errors);
  if (baseline) baseline->Apply(checked.front().result.findings);
  JoinedFindings joined = JoinFindings(checked);
  if (joined.unreadable) {
    findings.Append(std::move(joined.findings));
    return false;
  }
  std::array<int64_t, 3> failing{};
  for (Finding one : joined.findings.all()) {
    one.targets.clear();  // the page is about this target
    if (selection->Fails(one.level)) ++failing[static_cast<size_t>(one.level)];
    to.findings.Add(std::move(one));
  }
  for (size_t i = 0; i < failing.size(); ++i) {
    if (failing[i] == 0) continue;
    to.page.failures.push_back(
        Counted(failing[i], LevelName(static_cast<Level>(i))));
  }
  to.findings.Sort();
  to.page.checked = true;
  to.page.findings = to.findings.all();
  to.page.repository = Repository::Find("");
  return true;
}

// Adds the pipeline schedule of a compiled plan, unless it has too many tasks
// to draw. For a plan file nothing is added, because it does not contain the
// table of its schedule.
void AddSchedule(Gathered& to) {
  if (to.planned->compiled == nullptr) return;
  const auto& stages = to.planned->compiled->stages;
  if (stages == nullptr) return;
  const schedule::Table& table = stages->table;
  const schedule::Extent extent{table.ranks(), table.stages / table.ranks(),
                                table.microbatches};
  const int64_t tasks = schedule::TaskCount(extent);
  if (tasks > static_cast<int64_t>(report::kMostDrawnTasks)) return;
  schedule::Times times;
  times.stages.resize(AsIndex(table.stages));
  to.page.schedule = MakeScheduleReport(table, times);
}

// Adds the costs of each rank of a pipeline, if the batch and the length of a
// step are known. Returns false after a finding.
bool AddRanks(const ReportCommand& command, const Target& target, Gathered& to,
              Findings& findings) {
  const auto settings =
      CostSettings(command.flags, target, Mode::kTrain, findings);
  if (!settings) return false;
  if (!settings->batch || !settings->length) return true;
  auto cost = StagedCostOf(*to.planned, *settings, findings);
  if (!cost) return false;
  to.page.costs = cost::ReportsOfMemory(*cost, to.planned->mesh());
  to.page.pipeline = std::move(*cost);
  return true;
}

bool GatherCosts(const ReportCommand& command, const Target& target,
                 Gathered& to, Findings& findings) {
  if (to.planned->table.classes.stages) {
    AddSchedule(to);
    return AddRanks(command, target, to, findings);
  }
  for (Mode mode : to.planned->table.classes.modes) {
    const auto settings = CostSettings(command.flags, target, mode, findings);
    if (!settings) return false;
    to.page.costs.push_back(CostOf(to.planned->compiled.get(),
                                   to.planned->model, to.planned->WorkIn(mode),
                                   *settings));
    const bool sized = settings->batch || settings->kv_length;
    if (mode == Mode::kTrain || !sized || !to.planned->model) continue;
    auto cache = CacheIn(*to.planned, *settings, mode);
    if (!cache) continue;
    auto& caches = to.page.caches;
    const auto same = std::find_if(
        caches.begin(), caches.end(),
        [&](const auto& one) { return one.input.spec == cache->input.spec; });
    if (same == caches.end()) {
      caches.push_back(
          {{mode}, std::move(cache->title), std::move(cache->input)});
    } else {
      same->modes.push_back(mode);
    }
  }
  return true;
}

bool GatherProgram(const ReportCommand& command, const Target& target,
                   Gathered& to, Findings& findings) {
  const auto selection =
      Selection::Make(ProjectLintSettings(command.flags.inputs.asked, findings),
                      false, findings);
  if (!selection ||
      !ReadReportedProgram(command.program, command.flags, target, *to.planned,
                           *selection, to.program, findings)) {
    return false;
  }
  if (to.program == nullptr) return true;
  to.page.program = to.program->ForPage();
  to.page.repository = Repository::Find("");
  if (to.program->Fails(*selection)) {
    to.page.failures.emplace_back("the compiled program");
  }
  return true;
}

bool GatherVerified(const ReportCommand& command, Gathered& to,
                    Findings& findings) {
  bool good = true, failed = false;
  for (const std::string& path : command.verified) {
    auto one = ReadVerified(path, to.planned->mesh(), findings);
    good = good && one.has_value();
    if (!one) continue;
    failed = failed || one->failed;
    std::move(one->tables.begin(), one->tables.end(),
              std::back_inserter(to.page.tables));
  }
  if (failed) to.page.failures.emplace_back("a verification");
  return good;
}

int RunReport(const ReportCommand& command, const Common& common,
              Findings& findings) {
  InputFlags inputs = command.flags.inputs;
  // With `--plan`, TargetOrPlan refuses `--project`, because a plan file needs
  // no other inputs. A program is an exception: the project's settings
  // determine the levels (error, warning or note) of the findings about it.
  // `--project` is therefore removed here.
  if (!command.plan.empty() && !command.program.program.empty()) {
    inputs.asked.project.clear();
  }
  const auto target = TargetOrPlan(inputs, command.plan, findings);
  if (!target) return kFailed;
  bool found = false;
  Gathered all;
  // The check compiles the target for itself. It runs before the page has its
  // own tables, so that memory never holds both.
  Findings of_check;
  const bool checked = GatherFindings(command, *target, common, all, of_check);
  all.planned = LoadPlanned(command.flags.inputs, command.plan,
                            EditedPlanOf(command.allow_edited), *target, common,
                            found, findings);
  if (all.planned == nullptr) return found ? kFound : kFailed;
  if (!command.plan.empty() &&
      HasIllegalSpec(all.planned->table.classes, findings)) {
    return kFound;
  }
  ShowStage(common, "collecting findings and costs");
  all.folded.emplace(all.planned->table);
  all.page.plan = &*all.folded;
  all.page.title = TitleOf(command, *target, *all.planned);
  all.page.made_from = FileName(command.plan);
  all.page.version = kVersion;
  all.page.budget = target->budget;
  all.page.coverage = CoverageIn(*all.planned, *all.folded);
  findings.NoteReadsOf(of_check);
  if (!checked) findings.Append(std::move(of_check));
  if (!checked || !GatherBase(command, all, findings) ||
      !GatherProgram(command, *target, all, findings) ||
      !GatherCosts(command, *target, all, findings) ||
      !GatherVerified(command, all, findings)) {
    return findings.HasErrors() ? StageStatus(findings) : kFailed;
  }
  for (std::string& failure : report::FailuresOf(all.page.costs)) {
    all.page.failures.push_back(std::move(failure));
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") return WriteReportJson(all.page, out);
    out.Append(report::ReportHtml(all.page));
  };
  // A page on a terminal would be 100 KB of HTML that nobody reads.
  const bool named = !command.output.empty() || common.format == "json" ||
                     isatty(STDOUT_FILENO) != 1;
  const std::string path = named ? command.output : kPageOfTerminal;
  if (common.format != "json" && path.ends_with(".pdf")) {
    findings.Add(code::kUsage, {},
                 ShortQuote(path) + " ends in `.pdf`, and a page is HTML",
                 "write `-o page.html`, and print it to a PDF in a browser");
    return kFailed;
  }
  if (!PutResult(write, path, findings)) return kFailed;
  if (!named) PrintMessage(common, "wrote       " + path + "\n");
  return all.page.failures.empty() ? kDone : kFound;
}

Options OptionsOf(ReportCommand& command) {
  Options options = {
      {.name = "--plan",
       .need = HelpNeed::kMost,
       .to = &command.plan,
       .value = "FILE",
       .help = "plan file to use instead of the inputs; then no findings are "
               "shown"},
      {.name = "--base",
       .need = HelpNeed::kMost,
       .to = &command.base,
       .value = "FILE",
       .help = "plan file to compare with, such as the main "
               "branch's"},
      AllowEditedOption(&command.allow_edited),
      {.name = "--verified",
       .need = HelpNeed::kOften,
       .to = &command.verified,
       .value = "FILE",
       .help = "output of `shardc verify --format json`; for the "
               "same mesh, for attention or steps; may be repeated"},
      {.name = "--compiled",
       .need = HelpNeed::kMost,
       .to = &command.program.program,
       .value = "FILE",
       .help = "text of the compiled program of the step; as for "
               "`shardc audit` (default: the target's, if it has "
               "been compiled)"},
      {.name = "--step",
       .need = HelpNeed::kOften,
       .to = &command.program.step,
       .value = "FILE",
       .help = "step program (`verify step --format json`) to compare the "
               "compiled program with"}};
  Options costs = OptionsOfCost(command.flags);
  for (Option& option : costs) {
    if (option.name != "--mode") continue;
    option.help =
        "mode of the step of `--compiled`; train, prefill, "
        "decode or insert (default: train)";
  }
  Append(options, std::move(costs));
  Append(options,
         {OutputOption(
             &command.output,
             "file to write the page or the JSON to (default: stdout; on a "
             "terminal, a page is written to shardc-report.html)")});
  return options;
}

}  // namespace

Declared DeclareReport() { return Declare(OptionsOf, RunReport); }

}  // namespace shardc::cli
