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
#include "plan/quantised_modules.h"

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
    targets_.push_back(Read(block.targets));
  }
  excluded_ = Read(model.unquantised);
}

QuantisedModules::Entries QuantisedModules::Read(
    const std::vector<std::string>& list) {
  Entries out;
  for (const std::string& text : list) {
    std::string pattern;
    if (text.starts_with("re:")) {
      pattern = "^(?:" + text.substr(3) + ")";
    } else if (text.find('*') != std::string::npos) {
      for (const char c : text) {
        pattern += c == '*' ? ".*" : c == '.' ? "\\." : std::string(1, c);
      }
      pattern = "^(?:" + pattern + ")$";
    } else {
      out.names.insert(text);
      continue;
    }
    Findings ignored;
    auto regex = Regex::Compile({pattern, {}, '.'}, ignored);
    unknown_ |= !regex;
    if (regex) out.patterns.push_back(*std::move(regex));
  }
  return out;
}

// Looks up all sequences of complete parts of the module's name, because a list
// may have thousands of names.
bool QuantisedModules::Entries::Name(std::string_view module) const {
  size_t begin = 0;
  while (!names.empty() && begin < module.size()) {
    for (size_t end = module.find('.', begin);;
         end = module.find('.', end + 1)) {
      if (names.contains(module.substr(begin, end - begin))) return true;
      if (end == std::string_view::npos) break;
    }
    const size_t dot = module.find('.', begin);
    if (dot == std::string_view::npos) break;
    begin = dot + 1;
  }
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const Regex& one) { return one.Found(module); });
}

bool QuantisedModules::Any() const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [](const QuantisedBlock& one) {
                       return one.columns > 1 || one.rows > 1;
                     });
}

const QuantisedBlock* QuantisedModules::Of(std::string_view weight,
                                           char separator, bool leaf) const {
  std::string module(leaf ? weight.substr(0, weight.rfind(separator)) : weight);
  std::replace(module.begin(), module.end(), separator, '.');
  if (unknown_ || excluded_.Name(module)) return nullptr;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (targets_[i].Name(module)) return &blocks_[i];
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
