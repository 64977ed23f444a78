// Reads a plan quickly, by reading each distinct entry once. A plan that shardc
// wrote has one parameter on each line. Parameters whose lines are equal except
// for the name are one class. A shorter plan is built that has only the first
// line of each class, and the ordinary reader reads and checks this plan. In
// this example, `..1..` and `..2..` stand for two different entries:
//
//   "a.0": {..1..},                     "a.0": {..1..},
//   "a.1": {..1..},   two classes  ->   "b": {..2..}
//   "b": {..2..}
//
// A plan with other line breaks, or with a mistake, is read parameter by
// parameter.
#include "plan/plan_table.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "source/file.h"
#include "source/json.h"
#include "source/plain_json.h"
#include "source/text_order.h"

namespace shardc {
namespace {

constexpr std::string_view kParamsLine = "\n  \"params\": {\n";
constexpr std::string_view kNameIndent = "    \"";
constexpr std::string_view kColon = "\": ";

// Reads the lines of `params`, and divides them into classes by the text after
// the name.
class PlainLines {
 public:
  PlainLines(const SourceRef& source, EditedPlan edited)
      : source_(source), text_(source->text()), edited_(edited) {}

  std::optional<PlanTable> Read() {
    const size_t line = text_.find(kParamsLine);
    if (line == std::string_view::npos) return std::nullopt;
    const size_t begin = line + kParamsLine.size();
    size_t at = begin;
    bool more = true;
    while (more) {
      const auto end = ReadLine(at, more);
      if (!end) return std::nullopt;
      at = *end;
    }
    if (!AreDistinct(table_.names)) return std::nullopt;
    Findings doubt;
    const auto document = JsonDocument::Parse(
        MakeSource(source_->name(), OfClasses(begin, at)), doubt);
    if (document == nullptr) return std::nullopt;
    auto plan = ParsePlanOfClasses(*document, {table_.names, table_.class_of},
                                   edited_, doubt);
    if (!plan || !IsOfClasses(*plan)) return std::nullopt;
    table_.classes = std::move(*plan);
    table_.source = source_;
    return std::move(table_);
  }

 private:
  // Reads a line and returns the position of the next line. Sets `more` to true
  // if the line ends in a comma, and else to false. Returns nullopt if the line
  // does not consist of a name and an object, such as `    "w": {"spec": []},`.
  std::optional<size_t> ReadLine(size_t at, bool& more) {
    if (!text_.substr(at).starts_with(kNameIndent)) return std::nullopt;
    const size_t name = at + kNameIndent.size();
    const size_t quote = EndOfPlain(text_, name);
    if (quote == name || !text_.substr(quote).starts_with(kColon)) {
      return std::nullopt;
    }
    const size_t value = quote + kColon.size();
    const size_t end = text_.find('\n', value);
    if (end == std::string_view::npos) return std::nullopt;
    more = text_[end - 1] == ',';
    const size_t value_end = end - (more ? 1 : 0);
    if (value_end <= value || text_[value] != '{' ||
        text_[value_end - 1] != '}') {
      return std::nullopt;
    }
    Add(text_.substr(name, quote - name),
        text_.substr(value, value_end - value));
    return end + 1;
  }

  void Add(std::string_view name, std::string_view value) {
    const auto next = static_cast<uint32_t>(first_.size());
    const uint32_t own = class_of_.try_emplace(value, next).first->second;
    if (own == next) first_.emplace_back(name, value);
    table_.names.push_back(name);
    table_.class_of.push_back(own);
  }

  // Returns the plan's text with only the first line of each class.
  std::string OfClasses(size_t begin, size_t end) const {
    std::string out(text_.substr(0, begin));
    for (size_t i = 0; i < first_.size(); ++i) {
      if (i > 0) out += ",\n";
      out += kNameIndent;
      out += first_[i].first;
      out += kColon;
      out += first_[i].second;
    }
    out += '\n';
    out += text_.substr(end);
    return out;
  }

  // Returns whether `plan` has exactly the first parameter of each class.
  bool IsOfClasses(const ReadPlan& plan) const {
    if (plan.params.size() != first_.size()) return false;
    for (size_t i = 0; i < first_.size(); ++i) {
      if (plan.params[i].name != first_[i].first) return false;
    }
    return true;
  }

  SourceRef source_;
  std::string_view text_;
  EditedPlan edited_;
  PlanTable table_;
  std::vector<std::pair<std::string_view, std::string_view>> first_;
  std::unordered_map<std::string_view, uint32_t> class_of_;
};

}  // namespace

std::optional<PlanTable> ReadPlanTable(const SourceRef& source,
                                       EditedPlan edited, Findings& findings) {
  if (auto table = PlainLines(source, edited).Read()) return table;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  auto plan = ParsePlan(*document, edited, findings);
  if (!plan) return std::nullopt;
  PlanTable out;
  out.source = source;
  out.classes = std::move(*plan);
  for (const ReadParam& param : out.classes.params) {
    out.class_of.push_back(static_cast<uint32_t>(out.names.size()));
    out.names.push_back(param.name);
  }
  return out;
}

ReadPlan AllParams(const PlanTable& table) {
  ReadPlan out = table.classes;
  if (out.params.size() == table.names.size()) return out;
  const std::string_view text = table.source->text();
  out.mesh_place.source = table.source;
  out.params.clear();
  out.params.reserve(table.names.size());
  for (size_t i = 0; i < table.names.size(); ++i) {
    const std::string_view name = table.names[i];
    ReadParam& param =
        out.params.emplace_back(table.classes.params[table.class_of[i]]);
    param.name = name;
    // The place of a name has its quotes.
    const auto begin = static_cast<size_t>(name.data() - text.data()) - 1;
    param.place = {table.source, begin, begin + name.size() + 2};
  }
  return out;
}

std::optional<ReadPlan> ReadPlanFile(const std::string& path, EditedPlan edited,
                                     Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return std::nullopt;
  const auto table = ReadPlanTable(source, edited, findings);
  return table ? std::optional(AllParams(*table)) : std::nullopt;
}

}  // namespace shardc
