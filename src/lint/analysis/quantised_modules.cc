// Compares the names of modules with the lists of a quantisation_config. An
// entry is a pattern, a name, or a class of modules:
//
//   re:.*down_proj       all modules whose name begins with a match
//   *.down_proj          the same with a wildcard
//   layers.0.mlp         the module, those below it, and below any prefix
//   Linear               all projections, if no other entry names the module
//
// A name applies to prefixes too, because the trees of one model differ in
// them. If a pattern cannot be read, no module has a known block.
#include "lint/analysis/quantised_modules.h"

#include <algorithm>

#include "source/finding.h"

namespace shardc {
namespace {

// Returns whether an entry is a class such as `Linear`, and not a name.
bool IsClass(std::string_view text) {
  return !text.empty() && text.front() >= 'A' && text.front() <= 'Z' &&
         text.find('.') == std::string_view::npos;
}

}  // namespace

QuantisedModules::QuantisedModules(const ModelConfig& model)
    : blocks_(model.quant_blocks) {
  if (blocks_.empty()) {
    blocks_.push_back({{}, model.quant_group.value_or(1), model.quant_rows});
  }
  for (const QuantisedBlock& block : blocks_) {
    std::vector<Entry>& entries = targets_.emplace_back();
    for (const std::string& target : block.targets) {
      entries.push_back(Read(target));
    }
  }
  for (const std::string& name : model.unquantised) {
    excluded_.push_back(Read(name));
  }
}

QuantisedModules::Entry QuantisedModules::Read(const std::string& text) {
  Entry out{.text = text, .pattern = {}};
  std::string pattern;
  if (text.starts_with("re:")) {
    pattern = "^(?:" + text.substr(3) + ")";
  } else if (text.find('*') != std::string::npos) {
    for (const char c : text) {
      pattern += c == '*' ? ".*" : c == '.' ? "\\." : std::string(1, c);
    }
    pattern = "^(?:" + pattern + ")$";
  } else {
    return out;
  }
  Findings ignored;
  auto regex = Regex::Compile({pattern, {}, '.'}, ignored);
  unknown_ |= !regex;
  if (regex) out.pattern.push_back(*std::move(regex));
  return out;
}

bool QuantisedModules::Entry::Names(std::string_view module) const {
  if (!pattern.empty()) return pattern.front().Found(module);
  if (text.empty()) return false;
  for (size_t at = module.find(text); at != std::string_view::npos;
       at = module.find(text, at + 1)) {
    const size_t end = at + text.size();
    if ((at == 0 || module[at - 1] == '.') &&
        (end == module.size() || module[end] == '.')) {
      return true;
    }
  }
  return false;
}

const QuantisedBlock* QuantisedModules::Of(std::string_view module) const {
  const auto named = [&](const std::vector<Entry>& entries) {
    return std::any_of(entries.begin(), entries.end(),
                       [&](const Entry& one) { return one.Names(module); });
  };
  if (unknown_ || named(excluded_)) return nullptr;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (named(targets_[i])) return &blocks_[i];
  }
  for (const QuantisedBlock& block : blocks_) {
    if (block.targets.empty() ||
        std::any_of(block.targets.begin(), block.targets.end(), IsClass)) {
      return &block;
    }
  }
  return nullptr;
}

}  // namespace shardc
