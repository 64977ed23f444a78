// Selects lints by picks. A pick is an entry of `select` or `ignore`: a code
// (`SHD105`, or its name), or a family of codes with the same first digit
// (`SHD1`). `ignore` overrides `select`. A lint in preview runs only if its own
// code is selected, or with --preview.
//
//   select [SHD1], ignore [SHD105]  ->  all codes SHD1xx without SHD105, and
//                                       without SHD117, which is in preview
#include "lint/select.h"

#include <algorithm>
#include <utility>

#include "source/wording.h"

namespace shardc {

std::optional<Selection::Pick> Selection::ParsePick(
    const std::string& text, std::string_view flag,
    const LintSettings& settings, Findings& findings) {
  if (const Code* code = FindCode(text)) return Pick{code, -1};
  // The families are SHD0 to SHD7. Any other family is a typing error and would
  // select nothing.
  if (text.size() == 4 && text.starts_with("SHD") && text[3] >= '0' &&
      text[3] <= '7') {
    return Pick{nullptr, text[3] - '0'};
  }
  std::vector<std::string> names;
  for (const Code* code : AllCodes()) {
    names.emplace_back(code->name);
    names.push_back(code->Id());
  }
  const auto at = settings.places.find(text);
  const bool in_file = at != settings.places.end();
  findings.Add(in_file ? code::kReference : code::kUsage,
               in_file ? at->second : Place{},
               "`" + text + "` in `" + std::string(flag) + "` is no diagnostic",
               DidYouMean(text, names,
                          "give a code such as `SHD101`, a name, or a family"
                          " such as `SHD1`"));
  return std::nullopt;
}

std::optional<Selection> Selection::Make(const LintSettings& settings,
                                         bool preview, Findings& findings) {
  Selection out;
  out.preview_ = preview;
  const size_t before = findings.errors();
  for (const std::string& text : settings.select) {
    if (auto pick = ParsePick(text, "select", settings, findings)) {
      out.select_.push_back(*pick);
    }
  }
  for (const std::string& text : settings.ignore) {
    if (auto pick = ParsePick(text, "ignore", settings, findings)) {
      out.ignore_.push_back(*pick);
    }
  }
  for (const auto* levels : {&settings.severity, &settings.flag_severity}) {
    std::vector<std::pair<Pick, Level>> codes;
    const auto set = [&](const Pick& pick, Level level) {
      for (const Code* code : AllCodes()) {
        if (pick.Covers(*code)) out.severity_[code->number] = level;
      }
    };
    for (const auto& [text, level] : *levels) {
      const auto pick = ParsePick(text, "severity", settings, findings);
      if (!pick) continue;
      if (pick->code != nullptr) {
        codes.emplace_back(*pick, level);
      } else {
        set(*pick, level);
      }
    }
    // The level of a code overrides that of its family.
    for (const auto& [pick, level] : codes) set(pick, level);
  }
  const std::string& fail_on = settings.fail_on;
  if (fail_on == "never") {
    out.fail_on_.reset();
  } else if (fail_on == "warning") {
    out.fail_on_ = Level::kWarning;
  } else if (fail_on == "note") {
    out.fail_on_ = Level::kNote;
  } else if (!fail_on.empty() && fail_on != "error") {
    findings.Add(code::kUsage, {}, "`" + fail_on + "` in `fail_on` is no level",
                 "give error, warning, note or never");
  }
  if (findings.errors() > before) return std::nullopt;
  return out;
}

bool Selection::Selects(const Lint& lint) const {
  const bool by_code =
      std::any_of(select_.begin(), select_.end(),
                  [&](const Pick& pick) { return pick.code == &lint.code; });
  if (lint.preview && !preview_ && !by_code) return false;
  return Selects(lint.code);
}

bool Selection::Selects(const Code& code) const {
  const auto covers = [&](const Pick& pick) { return pick.Covers(code); };
  if (std::any_of(ignore_.begin(), ignore_.end(), covers)) return false;
  return select_.empty() || std::any_of(select_.begin(), select_.end(), covers);
}

Level Selection::LevelOf(const Finding& finding) const {
  const auto at = severity_.find(finding.code->number);
  return at == severity_.end() ? finding.level : at->second;
}

bool Selection::Fails(Level level) const {
  return fail_on_ && static_cast<int>(level) <= static_cast<int>(*fail_on_);
}

}  // namespace shardc
