// Computes the rank of each stage, and the text of a cell. For 2 ranks and 4
// stages, the stages 0 to 3 are on these ranks:
//
//   loop  0 1 0 1      v  0 1 1 0
#include "schedule/table.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "schedule/order.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/wording.h"

namespace shardc::schedule {

std::string_view PlacementName(Placement placement) {
  switch (placement) {
    case Placement::kLoop:
      return "loop";
    case Placement::kV:
      return "v";
    case Placement::kBoth:
      return "both";
    case Placement::kListed:
      break;
  }
  return "listed";
}

std::optional<Placement> FindPlacement(std::string_view name) {
  for (const Placement placement : {Placement::kLoop, Placement::kV,
                                    Placement::kBoth, Placement::kListed}) {
    if (PlacementName(placement) == name) return placement;
  }
  return std::nullopt;
}

bool Table::Holds(int32_t rank, int32_t stage) const {
  const auto first = owners.begin() + static_cast<ptrdiff_t>(At(stage, 0));
  return std::find(first, first + microbatches, rank) != first + microbatches;
}

int32_t PlacedRank(Placement placement, int32_t ranks, int32_t stage,
                   int32_t micro, int32_t microbatches) {
  if (placement == Placement::kV) {
    return stage < ranks ? stage : 2 * ranks - 1 - stage;
  }
  if (placement == Placement::kBoth) {
    return micro < microbatches / 2 ? stage : ranks - 1 - stage;
  }
  return stage % ranks;
}

void PlaceStages(Table& table) {
  table.owners.resize(table.At(table.stages, 0));
  for (int32_t stage = 0; stage < table.stages; ++stage) {
    for (int32_t micro = 0; micro < table.microbatches; ++micro) {
      table.owners[table.At(stage, micro)] = PlacedRank(
          table.placement, table.ranks(), stage, micro, table.microbatches);
    }
  }
}

char KindLetter(TaskKind kind) { return "FBIW"[static_cast<size_t>(kind)]; }

std::string TaskText(const Task& task) {
  return std::to_string(task.stage) + KindLetter(task.kind) +
         std::to_string(task.micro);
}

std::string CellText(const Cell& cell) {
  if (!cell.overlapped) return TaskText(cell.task);
  return "(" + TaskText(cell.task) + ";" + TaskText(*cell.overlapped) +
         ")OVERLAP_F_B";
}

// Reads a schedule from a file that may be malformed or hostile. First, the
// cells are read into a list with their places in the file. Then their numbers
// are checked: every stage up to the largest must occur, and stages times
// micro-batches must not exceed kMostTasks. Only then is memory allocated for
// each stage and micro-batch, so a cell such as `999999999F0` costs no memory.
// A cell that breaks the order of tasks is reported with its place:
//
//   0F0,0B0,0W0   ->  line 1, column 9: `0W0` computes the gradients of the
//                     weights that `0B0` computed before

namespace {

constexpr std::string_view kPair = "OVERLAP_F_B";
constexpr std::string_view kBlanks = " \t\r";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Removes the digits at the front of the text and returns their value. Returns
// nullopt if there are no digits, or if the number is negative or does not fit
// in 32 bits.
std::optional<int32_t> TakeNumber(std::string_view& text) {
  int32_t out = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return out;
}

std::optional<Task> ParseTask(std::string_view text) {
  text = Trim(text);
  if (text.empty()) return std::nullopt;
  const auto stage = TakeNumber(text);
  if (!stage || text.empty()) return std::nullopt;
  const size_t kind = std::string_view("FBIW").find(text.front());
  if (kind == std::string_view::npos) return std::nullopt;
  text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  const auto micro = TakeNumber(text);
  if (!micro || !text.empty()) return std::nullopt;
  return Task{static_cast<TaskKind>(kind), *stage, *micro};
}

std::optional<Cell> ParseCell(std::string_view text) {
  if (!text.starts_with('(')) {
    const auto task = ParseTask(text);
    if (!task) return std::nullopt;
    return Cell{*task};
  }
  const size_t close = text.find(')');
  if (close == text.npos || Trim(text.substr(close + 1)) != kPair) {
    return std::nullopt;
  }
  const std::string_view inside = text.substr(1, close - 1);
  const size_t middle = inside.find(';');
  if (middle == inside.npos) return std::nullopt;
  const auto first = ParseTask(inside.substr(0, middle));
  const auto second = ParseTask(inside.substr(middle + 1));
  if (!first || !second || first->kind != TaskKind::kForward ||
      !second->SendsBack()) {
    return std::nullopt;
  }
  return Cell{*first, *second};
}

class CsvReader {
 public:
  CsvReader(SourceRef source, const Expected& expected, Findings& findings)
      : source_(std::move(source)), expected_(expected), findings_(findings) {}

  std::optional<Table> Read() {
    if (ReportOtherText(source_, findings_, code::kForeignSyntax)) {
      return std::nullopt;
    }
    const size_t before = findings_.errors();
    ReadLines();
    if (findings_.errors() > before) return std::nullopt;
    table_.name = source_->name();
    if (!CheckSizes()) return std::nullopt;
    Place();
    for (const Fault& fault : CheckOrder(table_)) {
      Add(PlaceOf(fault), fault.text);
    }
    if (findings_.errors() > before) return std::nullopt;
    return std::move(table_);
  }

 private:
  struct Range {
    size_t begin = 0, end = 0;
  };

  void Add(::shardc::Place place, std::string message, std::string help = {}) {
    findings_.Add(code::kScheduleUnsafe, std::move(place), std::move(message),
                  std::move(help));
  }
  // Reports a file without tasks as empty. It is not reported as an unsafe
  // schedule, because it contains no schedule.
  void AddEmpty(std::string message) {
    findings_.Add(code::kEmpty, {source_}, std::move(message),
                  "write a line for each rank, such as `0F0,0B0`");
  }
  ::shardc::Place PlaceOf(const Range& range) const {
    return {source_, range.begin, range.end};
  }
  ::shardc::Place PlaceOf(const Fault& fault) const {
    const auto& ranges = ranges_[static_cast<size_t>(fault.rank)];
    const auto at = static_cast<size_t>(fault.position);
    return PlaceOf(at < ranges.size()
                       ? ranges[at]
                       : lines_[static_cast<size_t>(fault.rank)]);
  }

  // Returns whether reading stops because there are too many findings or cells.
  bool IsFull() const { return findings_.Full() || cells_ > kMostTasks; }

  void ReadLines() {
    std::string_view text = source_->text();
    size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    // Empty lines at the end of the file are not rows.
    const size_t last = text.find_last_not_of(" \t\r\n");
    text = text.substr(0, last == text.npos ? 0 : last + 1);
    while (begin < text.size() && !IsFull()) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      lines_.push_back({begin, end});
      table_.rows.emplace_back();
      ranges_.emplace_back();
      ReadLine(text.substr(0, end), begin);
      begin = end + 1;
    }
    if (lines_.empty()) {
      AddEmpty("the file has no rank: it is empty");
    }
  }

  void ReadLine(std::string_view text, size_t begin) {
    while (begin <= text.size() && !IsFull()) {
      const size_t end = std::min(text.find(',', begin), text.size());
      ReadCell(text.substr(begin, end - begin), begin);
      begin = end + 1;
    }
  }

  void ReadCell(std::string_view raw, size_t begin) {
    std::string_view text = Trim(raw);
    if (text.empty()) return;
    begin += static_cast<size_t>(text.data() - raw.data());
    const Range range{begin, begin + text.size()};
    // Programs that write CSV may put quotes around any cell.
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
      text = Trim(text.substr(1, text.size() - 2));
      if (text.empty()) return;
    }
    const auto cell = ParseCell(text);
    if (!cell) {
      findings_.Add(
          code::kForeignSyntax, PlaceOf(range),
          ShortQuote(text) + " is no task of a schedule",
          "write a stage, F, I, W or B, and a micro-batch, such as 3F0, 3I0, "
          "3W0 or 3B0, or a pair such as (3F1;0B0)OVERLAP_F_B");
      return;
    }
    if (++cells_ > kMostTasks) {
      findings_.Add(
          code::kLimit, PlaceOf(range),
          "a schedule has more than " + CountText(kMostTasks) + " tasks");
      return;
    }
    table_.rows.back().push_back(*cell);
    ranges_.back().push_back(range);
  }

  // Sets the numbers of stages and micro-batches of the table. Returns false
  // after a finding.
  bool CheckSizes() {
    std::set<int32_t> stages;
    int32_t micros = 0;
    Fault last_stage, last_micro;
    for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
      const auto& row = table_.rows[rank];
      for (size_t i = 0; i < row.size(); ++i) {
        const Fault here{
            static_cast<int32_t>(rank), static_cast<int32_t>(i), {}};
        ForEachTask(row[i], [&](const Task& task) {
          if (stages.insert(task.stage).second &&
              task.stage == *stages.rbegin()) {
            last_stage = here;
          }
          if (task.micro >= micros) {
            micros = task.micro + (task.micro == INT32_MAX ? 0 : 1);
            last_micro = here;
          }
          tasks_ += 1;
        });
      }
    }
    if (expected_.ranks != 0 &&
        static_cast<size_t>(expected_.ranks) != table_.rows.size()) {
      Add({source_},
          "the file has " +
              Counted(static_cast<int64_t>(table_.rows.size()), "row") +
              ", not one for each of " + Counted(expected_.ranks, "rank"));
      return false;
    }
    if (stages.empty()) {
      AddEmpty("the file has no task");
      return false;
    }
    return CheckStages(stages, last_stage) && CheckMicros(micros, last_micro);
  }

  bool CheckStages(const std::set<int32_t>& stages, const Fault& last) {
    int32_t expected = 0;
    for (const int32_t stage : stages) {
      if (stage != expected) {
        Add(PlaceOf(last), "no row has a task of stage " +
                               std::to_string(expected) +
                               ", but this row has one of stage " +
                               std::to_string(*stages.rbegin()));
        return false;
      }
      ++expected;
    }
    table_.stages = expected;
    return true;
  }

  bool CheckMicros(int32_t micros, const Fault& last) {
    if (expected_.microbatches != 0 && micros > expected_.microbatches) {
      Add(PlaceOf(last),
          "micro-batch " + std::to_string(micros - 1) + " is not one of the " +
              CountText(expected_.microbatches) + ", which start at 0");
      return false;
    }
    micros = std::max(micros, expected_.microbatches);
    // The size of the table is checked before memory is allocated. A file with
    // few tasks may name a large stage or micro-batch. Small tables that lack
    // tasks are read, because the first task that is missing is reported then.
    constexpr int64_t kSmall = 4096;
    if (int64_t{table_.stages} * micros > std::max(kSmall, tasks_)) {
      Add(PlaceOf(last),
          "the file has " + CountText(tasks_) + " tasks, fewer than the " +
              CountText(int64_t{2} * table_.stages * micros) + " that " +
              Counted(micros, "micro-batch", "micro-batches") +
              " need forward and back through " +
              Counted(table_.stages, "stage"));
      return false;
    }
    table_.microbatches = micros;
    return true;
  }

  // Finds the rank that owns each pair of a stage and a micro-batch. This is
  // the first rank with a forward task of the pair. If no rank has such a task,
  // a rank that has any task of the stage is used.
  void Place() {
    table_.owners.assign(table_.At(table_.stages, 0), -1);
    std::vector<int32_t> any(static_cast<size_t>(table_.stages), 0);
    for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
      for (const Cell& cell : table_.rows[rank]) {
        ForEachTask(cell, [&](const Task& task) {
          any[static_cast<size_t>(task.stage)] = static_cast<int32_t>(rank);
          int32_t& owner = table_.owners[table_.At(task.stage, task.micro)];
          if (task.kind == TaskKind::kForward && owner < 0) {
            owner = static_cast<int32_t>(rank);
          }
        });
      }
    }
    for (size_t i = 0; i < table_.owners.size(); ++i) {
      int32_t& owner = table_.owners[i];
      if (owner < 0) {
        owner = any[i / static_cast<size_t>(table_.microbatches)];
      }
    }
    table_.placement = InferPlacement();
  }

  Placement InferPlacement() const {
    for (const Placement placement :
         {Placement::kLoop, Placement::kV, Placement::kBoth}) {
      // kBoth divides the micro-batches into two halves, so it needs two.
      if (placement == Placement::kBoth && table_.microbatches < 2) continue;
      Table placed;
      placed.stages = table_.stages;
      placed.microbatches = table_.microbatches;
      placed.rows.resize(table_.rows.size());
      placed.placement = placement;
      PlaceStages(placed);
      if (placed.owners == table_.owners) return placement;
    }
    return Placement::kListed;
  }

  SourceRef source_;
  Expected expected_;
  Findings& findings_;
  Table table_;
  int64_t cells_ = 0, tasks_ = 0;
  std::vector<Range> lines_;
  std::vector<std::vector<Range>> ranges_;  // indexed by rank, then by cell
};

}  // namespace

std::string CsvText(const Table& table) {
  std::string out;
  for (const auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += ',';
      out += CellText(row[i]);
    }
    // An empty last line would be no rank.
    out += row.empty() ? ",\n" : "\n";
  }
  return out;
}

std::optional<Table> ReadCsv(const SourceRef& source, const Expected& expected,
                             Findings& findings) {
  return CsvReader(source, expected, findings).Read();
}

}  // namespace shardc::schedule
