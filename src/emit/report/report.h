// Room: emit/report. A plan as one page of HTML that needs nothing else: what
// is wrong, what changed, where everything lies and what it costs. Knows what
// it shows (plans, findings, costs, pictures) and no file.
#ifndef SHARDC_EMIT_REPORT_REPORT_H_
#define SHARDC_EMIT_REPORT_REPORT_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/report.h"
#include "picture/array.h"
#include "picture/coverage.h"
#include "picture/fold.h"
#include "plan/diff.h"
#include "source/finding.h"
#include "source/repository.h"
#include "source/sink.h"

namespace shardc::report {

struct Base {
  std::string name;  // of the file
  const picture::FoldedPlan* plan = nullptr;
  const PlanDiff* diff = nullptr;
};

// The KV cache in modes where it lies alike.
struct Cache {
  std::vector<Mode> modes;
  std::string title;
  picture::ArrayInput input;
};

// What other commands found of the plan, such as verification or the
// collectives of a step: each is a section of its own.
struct Table {
  std::string title, about;
  std::vector<std::string> heads;
  std::vector<bool> numbers;  // by column: aligned to the right
  std::vector<std::vector<std::string>> rows;
};

// What is absent is left out of the page, or said to be missing.
struct Input {
  std::string title;
  std::string made_from;  // a plan's file; empty: inputs
  std::string version;    // of this program
  const picture::FoldedPlan* plan = nullptr;
  bool checked = false;  // findings were looked for
  std::span<const Finding> findings;
  Repository repository;            // what places are relative to
  std::vector<cost::Report> costs;  // by mode
  picture::Coverage coverage;
  std::vector<Cache> caches;
  std::optional<Base> base;
  std::vector<Table> tables;
};

// Less than this many bytes, whatever the plan: what is left out is said.
inline constexpr size_t kMostBytes = 1'000'000;

std::string ReportHtml(const Input& input);

}  // namespace shardc::report

#endif  // SHARDC_EMIT_REPORT_REPORT_H_
