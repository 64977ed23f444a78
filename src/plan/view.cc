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
#include "plan/view.h"

#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "plan/read.h"
#include "source/plain_json.h"
#include "source/text_order.h"

namespace shardc {
namespace {

bool RefuseSchema(const JsonValue& at, std::string message,
                  Findings& findings) {
  findings.Add(code::kSchema, at.place(), std::move(message));
  return false;
}

// Reads the corrections of a parameter, which are the changes that made its
// spec legal. Malformed members are ignored.
std::vector<PlanView::Correction> CorrectionsOf(const JsonValue& param) {
  std::vector<PlanView::Correction> out;
  const auto list = param.Find("corrections");
  if (!list || !list->IsArray()) return out;
  for (const JsonValue entry : list->items()) {
    if (!entry.IsObject()) continue;
    PlanView::Correction one;
    if (const auto mode = entry.Find("mode"); mode && mode->IsString()) {
      one.mode = ParseMode(mode->string()).value_or(Mode::kTrain);
    }
    const auto dim = entry.Find("dim");
    if (dim && dim->kind() == JsonKind::kInteger) one.dim = dim->integer();
    if (const auto from = entry.Find("from")) one.from = ReadAxisGroup(*from);
    const auto reason = entry.Find("reason");
    if (reason && reason->IsString()) one.reason = reason->string();
    out.push_back(std::move(one));
  }
  return out;
}

bool ReadRules(const JsonValue& root, PlanView& view, Findings& findings) {
  const auto rules = RequiredMember(root, "rules", JsonKind::kArray, findings);
  if (!rules) return false;
  std::vector<std::string_view> patterns;
  for (const JsonValue rule : rules->items()) {
    const auto match =
        RequiredMember(rule, "match", JsonKind::kString, findings);
    if (!match) return false;
    patterns.push_back(match->string());
    view.rules.emplace_back(match->string());
    const auto source = rule.Find("source");
    view.rule_sources.emplace_back(
        source && source->IsString() ? source->string() : "");
  }
  const auto params =
      RequiredMember(root, "params", JsonKind::kObject, findings);
  if (!params) return false;
  const RuleIndex index(patterns);
  for (const JsonMember param : params->members()) {
    view.corrections.push_back(CorrectionsOf(param.value));
    const auto rule = param.value.Find("rule");
    if (!rule || rule->IsNull()) {
      view.rule_of.push_back(-1);
      continue;
    }
    const auto found = index.Find(*rule);
    if (!found) {
      return RefuseSchema(*rule, "the plan has no such rule", findings);
    }
    view.rule_of.push_back(*found);
  }
  return true;
}

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
    auto view = ViewPlan(*document, EditedPlan::kAllowed, doubt);
    if (!view || doubt.errors() > 0 || !IsOfClasses(view->plan)) {
      return std::nullopt;
    }
    if (edited_ == EditedPlan::kRefused &&
        !IsUnedited(document->root(), view->plan,
                    {table_.names, table_.class_of}, doubt)) {
      return std::nullopt;
    }
    table_.classes = std::move(*view);
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

std::optional<PlanView> ViewPlan(const JsonDocument& document,
                                 EditedPlan edited, Findings& findings) {
  auto plan = ParsePlan(document, edited, findings);
  if (!plan) return std::nullopt;
  PlanView out;
  out.plan = std::move(*plan);
  if (!ReadRules(document.root(), out, findings)) return std::nullopt;
  const auto attention =
      RequiredMember(document.root(), "attention", JsonKind::kObject, findings);
  if (!attention || !ReadActivations(*attention, out.attention, findings)) {
    return std::nullopt;
  }
  if (const auto kv = document.root().Find("kv")) {
    auto kinds = ReadKv(*kv, findings);
    if (!kinds) return std::nullopt;
    out.kv = std::move(*kinds);
  }
  return out;
}

std::optional<PlanTable> ReadPlanTable(const SourceRef& source,
                                       EditedPlan edited, Findings& findings) {
  if (auto table = PlainLines(source, edited).Read()) return table;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return std::nullopt;
  auto view = ViewPlan(*document, edited, findings);
  if (!view) return std::nullopt;
  PlanTable out;
  out.source = source;
  out.classes = std::move(*view);
  for (const ReadParam& param : out.classes.plan.params) {
    out.class_of.push_back(static_cast<uint32_t>(out.names.size()));
    out.names.push_back(param.name);
  }
  return out;
}

std::vector<std::string> RuleNames(std::span<const std::string_view> patterns) {
  const std::set<std::string_view> all(patterns.begin(), patterns.end());
  std::map<std::string_view, int64_t> last;  // the last number of each pattern
  std::vector<std::string> out;
  out.reserve(patterns.size());
  for (const std::string_view pattern : patterns) {
    int64_t& number = ++last[pattern];
    std::string name(pattern);
    while (number > 1) {
      name = std::string(pattern) + " (" + std::to_string(number) + ")";
      if (!all.contains(name)) break;
      ++number;
    }
    out.push_back(std::move(name));
  }
  return out;
}

RuleIndex::RuleIndex(std::span<const std::string_view> patterns)
    : count_(static_cast<int64_t>(patterns.size())) {
  int32_t index = 0;
  for (std::string& name : RuleNames(patterns)) {
    by_name_.emplace(std::move(name), index++);
  }
}

std::optional<int32_t> RuleIndex::Find(const JsonValue& rule) const {
  if (rule.IsString()) {
    const auto found = by_name_.find(rule.string());
    return found == by_name_.end() ? std::nullopt
                                   : std::optional(found->second);
  }
  if (rule.kind() != JsonKind::kInteger || rule.integer() < 0 ||
      rule.integer() >= count_) {
    return std::nullopt;
  }
  return static_cast<int32_t>(rule.integer());
}

}  // namespace shardc
