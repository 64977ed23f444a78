// Directory: emit/report. Writes self-contained HTML pages: a plan with its
// findings, changes, layouts and costs, a pipeline's schedule, and the result
// of a search.
// Its files include headers of these directories: source, model, comm,
// plan/difference, cost, audit, picture, emit/findings, emit/costs,
// emit/audits, emit/pictures, emit/schedules.
#ifndef SHARDC_EMIT_REPORT_REPORT_H_
#define SHARDC_EMIT_REPORT_REPORT_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "cost/pipeline.h"
#include "cost/report.h"
#include "emit/audits/audit_report.h"
#include "emit/costs/search_report.h"
#include "emit/schedules/schedule_report.h"
#include "model/project.h"
#include "picture/array.h"
#include "picture/fold.h"
#include "plan/difference/plan_difference.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/repository.h"
#include "source/sink.h"

namespace shardc::report {

struct Base {
  std::string name;  // name of the plan file
  const picture::FoldedPlan* plan = nullptr;
  const PlanDifference* diff = nullptr;
};

// A sharding of the KV cache, and the modes that use this sharding.
struct Cache {
  std::vector<Mode> modes;
  std::string title;
  picture::ArrayInput input;
};

// The result of another command for this plan, such as verification or the
// collectives of a step. The page shows it as a table with a heading.
struct Table {
  std::string title, about;
  std::vector<std::string> heads;
  std::vector<bool> numbers;  // for each column, true if it is right-aligned
  std::vector<std::vector<std::string>> rows;
};

// A compiled program of the plan's step.
struct Program {
  std::string from;  // the file that has the program
  const audit::Report* report = nullptr;
  // How the program differs from the plan and from the planned step.
  const AuditText* compared = nullptr;
  std::span<const Finding> findings;
};

// The contents of a page. If a member is empty, the page has no section about
// it, or the section states that its contents are missing.
struct Input {
  std::string title;
  std::string made_from;  // name of the plan file; empty if there is none
  std::string version;    // the version of shardc
  const picture::FoldedPlan* plan = nullptr;
  bool checked = false;  // true if lints ran
  std::span<const Finding> findings;
  // Why the command exits with status 1, in words such as "2 errors". Empty if
  // nothing is wrong.
  std::vector<std::string> failures;
  StepBudget budget;      // the target's limits of a step
  Repository repository;  // printed paths are relative to its root
  // The costs of each mode. For a plan with pipeline stages, these are the
  // costs of training: one report for each set of ranks that hold the same
  // bytes.
  std::vector<cost::Report> costs;
  std::optional<cost::PipelineCost> pipeline;  // only for a plan with stages
  std::optional<ScheduleReport> schedule;      // only for a plan with stages
  picture::Coverage coverage;
  std::vector<Cache> caches;
  std::optional<Base> base;
  std::optional<Program> program;
  std::vector<Table> tables;
};

// The limit on the size of a page. A larger page is written again with fewer
// details until it is smaller, at most seven times. The page states what was
// left out.
inline constexpr size_t kMostBytes = 1'000'000;

// Returns why the costs make the command exit with status 1: a step does not
// fit a device, or may not. Without the roles of parameters there is no verdict
// on a step whose sizes and device are given, which is a failure too.
std::vector<std::string> FailuresOf(std::span<const cost::Report> costs);

std::string ReportHtml(const Input& input);
// Writes the figures, findings and changes of the page as JSON.
void WriteReportJson(const Input& input, Sink& out);

// Returns page.css and page.js, which the build embeds.
std::span<const EmbeddedFile> EmbeddedPage();

// Writes the result of a search as an HTML page.

// Writes the winner next to the runner-up, the Pareto front of time and memory
// as a drawing and a table, the ties, and the reason why each alternative
// loses. If no sharding fits, the page has the least memory that is needed.
void WriteSearchPage(const SearchReport& report, Sink& out);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_REPORT_H_
