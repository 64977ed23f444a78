// Turns ties and roles into facts that other directories read. Factors are
// numbered by their first occurrence in the parameters, so that neither names
// nor the order of independent ops change anything:
//
//   qkv [512, 1536], which slices divide into (512|128|128) of 12 heads of 64
//     ->  dimension 0: stream 512
//         dimension 1: (heads 8 | heads 2 | heads 2) x head_dim 64
#include "program/facts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "program/roles.h"
#include "source/index.h"

namespace shardc::program {
namespace {

bool NeedsReplication(Use use) {
  return use == Use::kOrdered || use == Use::kScanned || use == Use::kOpaque;
}

class FactMaker {
 public:
  FactMaker(const Program& program, const Ties& ties)
      : program_(program),
        ties_(ties),
        table_(ties.table),
        roles_(InferRoles(program, ties)) {}

  Facts Make() {
    for (const Input& input : program_.inputs) {
      if (input.kind == InputKind::kParam) AddParam(input);
    }
    for (const Input& input : program_.inputs) {
      if (input.kind == InputKind::kParam) continue;
      for (const Factors& dim : ties_.dims[input.value]) ListOf(dim, 0);
    }
    for (const Event& event : ties_.events) AddEvidence(event);
    AddDots();
    AddValues();
    return std::move(out_);
  }

 private:
  FactorList ListOf(const Factors& dim, int depth) {
    FactorList out;
    for (const FactorId factor : table_.Resolve(dim)) {
      out.push_back(IndexOf(factor, depth));
    }
    return out;
  }

  uint32_t IndexOf(FactorId factor, int depth) {
    const auto next = static_cast<uint32_t>(out_.factors.size());
    const auto [at, fresh] = index_.try_emplace(factor, next);
    if (!fresh) return at->second;
    Factor& made = out_.factors.emplace_back();
    made.size = table_.SizeOf(factor);
    const auto role = roles_.find(factor);
    if (role != roles_.end()) made.role = role->second;
    if (depth < kPartDepth) {
      for (const Factors& part : table_.PartsOf(factor)) {
        FactorList list = ListOf(part, depth + 1);
        out_.factors[next].parts.push_back(std::move(list));
      }
    }
    return next;
  }

  // Calls `visit` for the indices of a dimension's factors and of the factors
  // of their parts, each once. Factors that occur in no input are left out.
  template <class Visit>
  void Each(const Factors& dim, const Visit& visit) const {
    std::set<uint32_t> all;
    for (const FactorId factor : table_.Resolve(dim)) Collect(factor, all, 0);
    for (const uint32_t one : all) visit(one);
  }

  void Collect(FactorId factor, std::set<uint32_t>& out, int depth) const {
    const auto at = index_.find(factor);
    if (at != index_.end()) out.insert(at->second);
    if (depth >= kPartDepth || !table_.IsSum(factor)) return;
    for (const Factors& part : table_.PartsOf(factor)) {
      for (const FactorId inner : part) Collect(inner, out, depth + 1);
    }
  }

  void AddParam(const Input& input) {
    ParamFacts param;
    param.name = input.name;
    param.value = input.value;
    param.shape = program_.ShapeOf(input.value);
    const auto number = static_cast<uint32_t>(out_.params.size());
    numbers_.emplace(input.value, number);
    const auto& dims = ties_.dims[input.value];
    for (size_t d = 0; d < dims.size(); ++d) {
      param.dims.push_back(ListOf(dims[d], 0));
      Each(dims[d], [&](uint32_t factor) {
        out_.factors[factor].occurrences.push_back(
            {number, static_cast<uint32_t>(d)});
      });
    }
    out_.params.push_back(std::move(param));
  }

  void AddEvidence(const Event& event) {
    const Op& op = *ties_.ops[event.op];
    const bool activations =
        (event.own & kOnData) != 0 && (event.other & kOnData) != 0;
    Each(event.factors, [&](uint32_t index) {
      Factor& factor = out_.factors[index];
      if (NeedsReplication(event.use)) factor.needs_replication = true;
      const Evidence made = {.use = event.use,
                             .activations = activations,
                             .at = op.at,
                             .count = 1};
      auto& known = places_[{index, event.use, activations, op.at}];
      if (known == 0) {
        factor.evidence.push_back(made);
        known = factor.evidence.size();
      } else {
        ++factor.evidence[known - 1].count;
      }
    });
  }

  double ElementsOf(ValueId value) const {
    double out = 1;
    for (const int64_t size : program_.ShapeOf(value)) {
      out *= static_cast<double>(size);
    }
    return out;
  }

  // Adds what dots and other ops compute and would communicate.
  void AddDots() {
    for (size_t i = 0; i < ties_.events.size();) {
      const uint32_t at = ties_.events[i].op;
      const Op& op = *ties_.ops[at];
      const double turns = ties_.turns[at];
      const bool dot = op.kind == OpKind::kDot || op.kind == OpKind::kRaggedDot;
      const double results = op.out.empty() ? 0 : turns * ElementsOf(op.out[0]);
      double products = results;
      std::set<uint32_t> in_weight;
      std::set<uint32_t> reduced;
      for (; i < ties_.events.size() && ties_.events[i].op == at; ++i) {
        const Event& event = ties_.events[i];
        const bool weight =
            event.own == kOnParams && (event.other & kOnData) != 0;
        if (dot && event.use == Use::kContracted && event.side == 0) {
          products *= static_cast<double>(table_.SizeOf(event.factors));
        }
        Each(event.factors, [&](uint32_t factor) {
          if (event.use == Use::kContracted || event.use == Use::kReduced ||
              event.use == Use::kSearched || event.use == Use::kLookedUp) {
            reduced.insert(factor);
          }
          if (!dot || !weight) return;
          in_weight.insert(factor);
          const auto param = ParamOf(op.in[event.side]);
          if (param && event.use == Use::kContracted) {
            out_.params[*param].contracted.push_back(factor);
          }
        });
      }
      for (const uint32_t factor : in_weight) {
        out_.factors[factor].flops += 2 * products;
      }
      for (const uint32_t factor : reduced) {
        out_.factors[factor].communicated += results;
      }
    }
  }

  // Returns the index in Facts::params of the only parameter that a value
  // depends on.
  std::optional<uint32_t> ParamOf(ValueId value) const {
    const uint32_t origin = ties_.origin[value];
    if (origin == 0) return std::nullopt;
    const auto at = numbers_.find(program_.inputs[origin - 1].value);
    return at == numbers_.end() ? std::nullopt : std::optional(at->second);
  }

  void AddValues() {
    std::set<FactorList> together;
    std::vector<bool> looked_up(program_.values.size());
    const auto add = [&](ValueId id) {
      std::set<uint32_t> all;
      for (const Factors& dim : ties_.dims[id]) {
        Each(dim, [&](uint32_t factor) {
          if (!out_.factors[factor].occurrences.empty()) all.insert(factor);
        });
      }
      if (all.size() > 1) together.emplace(all.begin(), all.end());
    };
    for (const ParamFacts& param : out_.params) add(param.value);
    for (const Op* op : ties_.ops) {
      if (op->phase != Phase::kForward) continue;
      for (const ValueId id : op->out) add(id);
      if (op->kind == OpKind::kGather) looked_up[op->in[0]] = true;
    }
    out_.together.assign(together.begin(), together.end());
    for (ParamFacts& param : out_.params) {
      param.looked_up = looked_up[param.value];
    }
  }

  using PlaceKey = std::tuple<uint32_t, Use, bool, Line>;

  const Program& program_;
  const Ties& ties_;
  const FactorTable& table_;
  std::unordered_map<FactorId, FactorRole> roles_;
  std::unordered_map<FactorId, uint32_t> index_;
  // The index in Facts::params of each parameter's value.
  std::unordered_map<ValueId, uint32_t> numbers_;
  // One more than the position of the evidence of a factor at a line.
  std::map<PlaceKey, size_t> places_;
  Facts out_;
};

}  // namespace

std::string_view RoleName(FactorRole role) {
  constexpr std::string_view kNames[] = {
      "unknown", "batch",    "sequence", "position", "layers",
      "stream",  "heads",    "kv_heads", "group",    "head_dim",
      "inner",   "latent",   "experts",  "vocab",    "parts",
      "window",  "channels", "in",       "out"};
  return kNames[static_cast<size_t>(role)];
}

FactorList Facts::Sharded(const FactorList& dim, int64_t parts) const {
  FactorList out;
  for (const uint32_t index : dim) {
    const Factor& factor = factors[index];
    if (!factor.parts.empty()) return {};
    out.push_back(index);
    if (factor.size % parts == 0) return out;
    if (parts % factor.size != 0) return {};
    parts /= factor.size;
  }
  return {};
}

bool Facts::CanShard(const FactorList& dim, int64_t parts) const {
  return !Sharded(dim, parts).empty();
}

int64_t Facts::SizeOf(const FactorList& dim) const {
  int64_t out = 1;
  for (const uint32_t factor : dim) out *= factors[factor].size;
  return out;
}

std::string Facts::Text(const FactorList& dim) const {
  if (dim.empty()) return "1";
  std::string out;
  for (const uint32_t index : dim) {
    const Factor& factor = factors[index];
    if (!out.empty()) out += " x ";
    if (factor.role == FactorRole::kParts) {
      out += std::to_string(factor.size) + " parts";
      continue;
    }
    if (!factor.parts.empty()) {
      std::string parts;
      for (const FactorList& part : factor.parts) {
        parts += (parts.empty() ? "" : " | ") + Text(part);
      }
      out += "(" + parts + ")";
      continue;
    }
    if (factor.role != FactorRole::kUnknown) {
      out += std::string(RoleName(factor.role)) + " ";
    }
    out += std::to_string(factor.size);
  }
  return out;
}

Facts FindFacts(const Program& program) {
  const Ties ties = TieDimensions(program);
  return FactMaker(program, ties).Make();
}

}  // namespace shardc::program
