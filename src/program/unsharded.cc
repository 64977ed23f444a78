// Finds what keeps a parameter of a traced program from being sharded. A
// runtime that shards modules, such as transformers, gives each of them a
// style: how its weight is divided, and what is communicated before and after
// its `forward`. For example:
//
//   qkv_proj.weight [(heads 6 x 8 | kv_heads 2 x 8 | kv_heads 2 x 8), stream
//   48]
//     -> dimension 0 holds 3 parts of different sizes, ...; dimension 1,
//        stream 48, is that of the values between blocks
//
// Mamba multiplies with `dt_proj.weight` in the code of the mixer around it. A
// hook of `dt_proj` does not see that product.
#include "program/facts.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "model/name.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::program {
namespace {

std::string LineOf(const Program& program, const Factor& factor, Use use) {
  for (const Evidence& one : factor.evidence) {
    if (one.use == use && one.at.known()) {
      return " at " + program.LineText(one.at);
    }
  }
  return "";
}

// Returns why a factor cannot be divided; empty if it can.
std::string WhyNotFactor(const Program& program, const Factor& factor,
                         int64_t parts) {
  using enum FactorRole;
  switch (factor.role) {
    case kBatch:
      return "counts the rows of a batch";
    case kSequence:
    case kPosition:
      return "counts positions";
    case kStream:
      return "is that of the values between blocks";
    case kLatent:
      return "is a latent, which all devices read";
    case kWindow:
      return "has the taps of a window";
    default:
      break;
  }
  if (factor.size % parts != 0) {
    return "is not divisible by " + CountText(parts) + " devices";
  }
  if (!factor.needs_replication) return "";
  for (const auto& [use, what] :
       {std::pair(Use::kOrdered, "an op orders it"),
        std::pair(Use::kSearched, "an op searches it"),
        std::pair(Use::kShifted, "its elements move along it"),
        std::pair(Use::kScanned, "a loop runs over it"),
        std::pair(Use::kRepeated, "one value has it twice"),
        std::pair(Use::kUnreconciled, "an op divides it otherwise"),
        std::pair(Use::kOpaque, "an op that is not known reads it")}) {
    const std::string line = LineOf(program, factor, use);
    if (!line.empty()) {
      return "is needed on each device: " + std::string(what) + line;
    }
  }
  return "is needed on each device";
}

std::string WhyNotDim(const Program& program, const Facts& facts,
                      const FactorList& dim, int64_t parts) {
  if (dim.empty()) return "has one element";
  const Factor& lead = facts.factors[dim[0]];
  if (lead.parts.empty()) {
    const std::string why = WhyNotFactor(program, lead, parts);
    if (!why.empty()) return why;
    return facts.CanShard(dim, parts) ? ""
                                      : "would be divided inside of a unit";
  }
  const bool equal = std::ranges::all_of(lead.parts, [&](const auto& part) {
    return facts.SizeOf(part) == facts.SizeOf(lead.parts[0]);
  });
  std::string out = "holds " + Counted(std::ssize(lead.parts), "part");
  out += equal ? " one after the other" : " of different sizes";
  out += LineOf(program, lead, Use::kDivided);
  for (const FactorList& part : lead.parts) {
    const std::string why = WhyNotDim(program, facts, part, parts);
    if (!why.empty()) return out + ", of which " + facts.Text(part) + " " + why;
  }
  return out;
}

}  // namespace

ModuleReads ReadsElsewhere(const Program& program) {
  std::map<ValueId, std::string_view> names;
  std::map<std::string_view, std::vector<std::string_view>> params;
  const auto owner_of = [](std::string_view name) {
    const size_t dot = name.rfind('.');
    return dot == std::string_view::npos ? "" : name.substr(0, dot);
  };
  for (const Input& input : program.inputs) {
    if (input.kind != InputKind::kParam) continue;
    names[input.value] = input.name;
    params[owner_of(input.name)].push_back(input.name);
  }
  ModuleReads out;
  // Modules that read more of other modules than a weight, with the text.
  std::map<std::string_view, std::string> readers;
  for (const Op& op : program.ops) {
    if (op.module < 0) continue;
    const std::string& module = program.modules[AsIndex(op.module)];
    for (const ValueId id : op.in) {
      const auto read = names.find(id);
      if (read == names.end()) continue;
      const std::string name(read->second);
      const std::string_view owner = owner_of(read->second);
      const bool around = owner.size() > module.size() &&
                          owner.starts_with(module) &&
                          owner[module.size()] == '.';
      if (owner == module) continue;
      const bool shares = !around && !params.contains(module);
      if (shares && op.kind == OpKind::kGather) {
        out.lookups[name].insert(module);
        continue;
      }
      if (shares && op.kind == OpKind::kDot) {
        out.heads.emplace(name, module);
        continue;
      }
      const std::string what = " reads " + ShortQuote(name) + " at " +
                               program.LineText(op.at) +
                               ", where no style of the module acts";
      out.replicated.emplace(
          name,
          "the code of " +
              ShortQuote(NameTemplate(module, '.', TemplateNumbers::kParts)) +
              what);
      if (!around) readers.emplace(module, what);
    }
  }
  // What the code of an unread parameter would do is not known.
  std::set<ValueId> read;
  for (const Op& op : program.ops) read.insert(op.in.begin(), op.in.end());
  for (const auto& [id, name] : names) {
    if (!read.contains(id)) {
      out.replicated.emplace(name, "the program does not read it");
    }
  }
  for (const auto& [module, what] : readers) {
    for (const std::string_view own : params[module]) {
      out.replicated.emplace(own, "its code" + what);
    }
    std::erase_if(out.heads,
                  [&, reader = module, why = what](const auto& head) {
                    if (head.second != reader) return false;
                    out.replicated.emplace(
                        head.first, "the code of " + ShortQuote(reader) + why);
                    return true;
                  });
  }
  return out;
}

std::string WhyUnsharded(const Program& program, const Facts& facts,
                         const ParamFacts& param, int64_t parts) {
  if (param.dims.size() < 2) return "";
  std::vector<std::string> out;
  for (size_t d = 0; d < param.dims.size(); ++d) {
    const FactorList& dim = param.dims[d];
    std::string why = WhyNotDim(program, facts, dim, parts);
    if (why.empty()) {
      why = "is in one value with a dimension that is sharded";
    }
    out.push_back("dimension " + std::to_string(d) + ", " + facts.Text(dim) +
                  ", " + why);
  }
  return Join(out, "; ");
}

std::string TransformersType(const Program& program) {
  constexpr std::string_view kModels = "transformers/models/";
  std::map<std::string, int64_t> counts;
  for (const Op& op : program.ops) {
    if (!op.at.known()) continue;
    const std::string_view file = program.files[AsIndex(op.at.file)];
    const size_t at = file.find(kModels);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = file.substr(at + kModels.size());
    ++counts[std::string(rest.substr(0, rest.find('/')))];
  }
  const auto most = std::ranges::max_element(
      counts, {}, [](const auto& one) { return one.second; });
  return most == counts.end() ? "" : most->first;
}

}  // namespace shardc::program
