// Follows values through the lines of a `model:` section. Each variable carries
// the weights whose product it is, apart from element-wise ops, norms,
// rotations and parts. When a variable reaches attention, these weights are
// projections of queries, keys or values. What attention returns, and what an
// activation function returns, is marked, and the next weight that multiplies
// it is an output or a down projection. For example:
//
//   z = linear(y, w1)             z: {w1}
//   q, r = part(z, n+m)           q: {w1}, r: {w1}
//   a = attention(q, r, r)        w1 is a query, a key and a value: fused qkv
//   m = linear(a, w2)             w2 multiplies what attention returns: output
#include "step/role_uses.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "match/match.h"
#include "source/list.h"
#include "source/size.h"
#include "step/lines.h"
#include "step/roles.h"

namespace shardc::step {
namespace {

using Factors = std::vector<std::vector<std::string>>;
using RoleSet = std::set<int32_t>;

// What is known of a variable.
struct Flow {
  RoleSet from = {};  // the weights whose product it is
  std::vector<Factors> dims = {};
  bool attended = false, activated = false, encoded = false;
};

// What the ops do with a weight.
struct Seen {
  bool query = false, key = false, value = false;
  bool gate = false, up = false;
  RoleSet fed_by;  // the weights whose product it multiplies
};

class Tracer {
 public:
  Tracer(const ModelDescription& description, const Lines& lines)
      : description_(description),
        lines_(lines),
        flows_(lines.variables.size()),
        seen_(description.roles.size()),
        uses_(description.roles.size()) {}

  std::vector<RoleUse> Run() {
    for (size_t s = lines_.stacks.size(); s > 0;) {
      --s;
      const LineStack& stack = lines_.stacks[s];
      for (const auto* section : {&stack.begin, &stack.layer, &stack.end}) {
        for (const Line& line : *section) {
          Follow(line);
          FindEnds(line, section == &stack.begin, section == &stack.end);
        }
      }
      if (s == kEncoderStack) {
        for (Flow& flow : flows_) flow.encoded = true;
      }
    }
    FindHead();
    for (size_t r = 0; r < uses_.size(); ++r) Decide(r);
    for (size_t r = 0; r < uses_.size(); ++r) Finish(r);
    return std::move(uses_);
  }

 private:
  Flow Of(const LineArgument& argument) const {
    Flow out;
    for (const int32_t variable : argument.variables) {
      const Flow& flow = flows_[AsIndex(variable)];
      out.from.insert(flow.from.begin(), flow.from.end());
      if (out.dims.empty()) out.dims = flow.dims;
      out.attended = out.attended || flow.attended;
      out.activated = out.activated || flow.activated;
      out.encoded = out.encoded || flow.encoded;
    }
    return out;
  }

  void Set(const Line& line, Flow flow) {
    for (const int32_t result : line.results) flows_[AsIndex(result)] = flow;
  }

  void Take(int32_t role, Role as) {
    if (role < 0) return;
    RoleUse& use = uses_[AsIndex(role)];
    if (use.role == Role::kOther) use.role = use.module_role = as;
  }

  const std::vector<DescribedDim>& DimsOf(int32_t role) const {
    return description_.roles[AsIndex(role)].dims;
  }

  // Finds the dimension of a weight that its product sums over: the first one
  // that the other operand has too. Finds none if neither the dimensions of the
  // operand nor that of the residual stream are known.
  void Orient(int32_t role, const Flow& operand) {
    const std::vector<DescribedDim>& dims = DimsOf(role);
    const auto count = static_cast<int>(dims.size());
    RoleUse& use = uses_[AsIndex(role)];
    if (count < 2 || (operand.dims.empty() && residual_.empty())) return;
    for (int d = std::max(0, count - 2); d < count; ++d) {
      const Factors& own = dims[AsIndex(d)].factors;
      const bool shared = IsAmong(own, operand.dims);
      const bool residual = own == residual_;
      // If the dimensions of the operand are not known, as of what attention
      // returns, the product has the dimension of the residual stream.
      if (operand.dims.empty() ? residual : !shared) continue;
      use.in = count - d;
      use.out = use.in == 1 ? 2 : 1;
      return;
    }
  }

  // Returns the dimensions of the product of a value and a weight.
  std::vector<Factors> ProductDims(int32_t role) const {
    const RoleUse& use = uses_[AsIndex(role)];
    const std::vector<DescribedDim>& dims = DimsOf(role);
    if (use.out == 0) return {};
    return {dims[dims.size() - AsIndex(use.out)].factors};
  }

  Flow Multiply(int32_t role, const Flow& operand) {
    Seen& seen = seen_[AsIndex(role)];
    seen.fed_by.insert(operand.from.begin(), operand.from.end());
    Orient(role, operand);
    uses_[AsIndex(role)].crossed =
        uses_[AsIndex(role)].crossed || operand.encoded;
    if (operand.attended) Take(role, Role::kOutput);
    if (operand.activated && !operand.attended) Take(role, Role::kDown);
    return {.from = {role}, .dims = ProductDims(role), .encoded = false};
  }

  void Gated(const Line& line) {
    const Flow x = Of(line.arguments[0]);
    const bool fused = line.op == LineOp::kGatedFused;
    const int32_t first = line.arguments[1].role;
    Orient(first, x);
    Take(first, fused ? Role::kFusedGateUp : Role::kGate);
    if (!fused) {
      const int32_t second = line.arguments[2].role;
      Orient(second, x);
      Take(second, Role::kUp);
    }
    Flow out = {.from = {}, .dims = {}, .activated = true};
    if (!fused) out.dims = ProductDims(first);
    Set(line, std::move(out));
  }

  void Experts(const Line& line) {
    const Flow x = Of(line.arguments[0]);
    const bool fused = line.op == LineOp::kMoeFused;
    const Role roles[] = {Role::kRouter,
                          fused ? Role::kFusedGateUp : Role::kGate,
                          fused ? Role::kDown : Role::kUp, Role::kDown};
    for (size_t i = 1; i < line.arguments.size(); ++i) {
      const int32_t role = line.arguments[i].role;
      if (role < 0) continue;
      const bool down = i + 1 == line.arguments.size();
      if (down) {
        Orient(role, Flow{});
      } else {
        Orient(role, x);
      }
      Take(role, down ? Role::kDown : roles[i - 1]);
      uses_[AsIndex(role)].expert = i > 1;
    }
    Set(line, Flow{.from = {}, .dims = x.dims});
  }

  void Attend(const Line& line) {
    Flow out = {.from = {}, .dims = {}, .attended = true};
    for (size_t i = 0; i < 3; ++i) {
      for (const int32_t role : Of(line.arguments[i]).from) {
        Seen& seen = seen_[AsIndex(role)];
        (i == 0 ? seen.query : i == 1 ? seen.key : seen.value) = true;
      }
    }
    if (line.arguments.size() > 3) {
      Take(line.arguments[3].role,
           line.op == LineOp::kAttention ? Role::kSink : Role::kPosition);
    }
    Set(line, std::move(out));
  }

  // An activated value times another one is a gated layer, unless attention
  // computed one of them.
  void Product(const Line& line) {
    const Flow a = Of(line.arguments[0]), b = Of(line.arguments[1]);
    Flow out = {.from = {}, .dims = a.dims.empty() ? b.dims : a.dims};
    out.attended = a.attended || b.attended;
    out.activated = a.activated || b.activated;
    if (!out.attended && a.activated != b.activated) {
      const Flow& gate = a.activated ? a : b;
      const Flow& up = a.activated ? b : a;
      for (const int32_t role : gate.from) {
        seen_[AsIndex(role)].gate = !up.from.empty();
      }
      for (const int32_t role : up.from) seen_[AsIndex(role)].up = true;
    } else if (!out.activated) {
      out.from = a.from;
      out.from.insert(b.from.begin(), b.from.end());
    }
    Set(line, std::move(out));
  }

  static void Replace(std::vector<Factors>& dims,
                      const std::vector<std::string>& from,
                      const std::string& to) {
    for (Factors& dim : dims) {
      for (std::vector<std::string>& factor : dim) {
        if (factor == from) factor = {to};
      }
    }
  }

  std::vector<std::string> NamesOf(const LineArgument& argument) const {
    std::vector<std::string> out;
    for (const int32_t dim : argument.dims) {
      out.push_back(description_.dims[AsIndex(dim)].first);
    }
    return out;
  }

  void Part(const Line& line) {
    const Flow x = Of(line.arguments[0]);
    const std::vector<std::string> parts = NamesOf(line.arguments[1]);
    for (size_t i = 0; i < line.results.size() && i < parts.size(); ++i) {
      Flow one = x;
      Replace(one.dims, parts, parts[i]);
      flows_[AsIndex(line.results[i])] = std::move(one);
    }
  }

  void Look(const Line& line) {
    const int32_t role = line.arguments[0].role;
    const auto& ids = line.arguments[1].variables;
    const bool positions = IsAmong(kPositionsVariable, ids);
    const bool tokens = IsAmong(kIdsVariable, ids);
    if (tokens || positions) {
      Take(role, tokens ? Role::kEmbedding : Role::kPosition);
    }
    Flow out;
    if (DimsOf(role).size() == 2) {
      out.dims = {DimsOf(role)[1].factors};
      if (tokens || positions) FindResidual(out, tokens);
    }
    Set(line, std::move(out));
  }

  // An encoder that has no table of tokens begins with patches, or with frames
  // and a table of positions.
  void Patches(const Line& line) {
    Take(line.arguments[0].role, Role::kConvolution);
    Flow out;
    for (const std::string& name : NamesOf(line.arguments[1])) {
      out.dims.push_back({{name}});
    }
    if (out.dims.size() == 1) FindResidual(out, false);
    Set(line, std::move(out));
  }

  // Takes the dimension of the residual stream from the first value of it. The
  // stream of tokens takes precedence over that of an encoder of other data.
  void FindResidual(const Flow& first, bool tokens) {
    if (!residual_.empty() && (!tokens || residual_of_tokens_)) return;
    residual_ = first.dims.front();
    residual_of_tokens_ = tokens;
  }

  void Follow(const Line& line) {
    switch (line.op) {
      case LineOp::kLookup:
        return Look(line);
      case LineOp::kPatches:
        return Patches(line);
      case LineOp::kConvolve:
        Take(line.arguments[1].role, Role::kConvolution);
        return Set(line, Flow{});
      case LineOp::kLinear: {
        Flow out = Multiply(line.arguments[1].role, Of(line.arguments[0]));
        return Set(line, std::move(out));
      }
      case LineOp::kRmsNorm:
      case LineOp::kLayerNorm:
        if (line.arguments.size() > 1) {
          Take(line.arguments[1].role, Role::kNorm);
        }
        return Set(line, Of(line.arguments[0]));
      case LineOp::kGated:
      case LineOp::kGatedFused:
      case LineOp::kSwiglu:
      case LineOp::kGeglu:
        return Gated(line);
      case LineOp::kActivation:
      case LineOp::kFunction: {
        Flow out = Of(line.arguments[0]);
        for (const int32_t role : out.from) seen_[AsIndex(role)].up = true;
        out.activated = out.activated || !out.from.empty();
        return Set(line, std::move(out));
      }
      case LineOp::kMultiply:
        return Product(line);
      case LineOp::kAdd: {
        // What a sum is, all of its terms are. So a sum with the residual
        // stream is no product of a weight.
        Flow out = {.attended = true, .activated = true};
        bool products = true;
        for (const LineArgument& argument : line.arguments) {
          Flow one = Of(argument);
          products = products && !one.from.empty();
          out.from.merge(one.from);
          if (out.dims.empty()) out.dims = std::move(one.dims);
          out.attended = out.attended && one.attended;
          out.activated = out.activated && one.activated;
          out.encoded = out.encoded || one.encoded;
        }
        if (!products) out.from.clear();
        return Set(line, std::move(out));
      }
      case LineOp::kPart:
        return Part(line);
      case LineOp::kRename: {
        Flow out = Of(line.arguments[0]);
        const auto to = NamesOf(line.arguments[2]);
        if (!to.empty()) {
          Replace(out.dims, NamesOf(line.arguments[1]), to.front());
        }
        return Set(line, std::move(out));
      }
      case LineOp::kAttention:
      case LineOp::kAttentionNear:
        return Attend(line);
      case LineOp::kMoe:
      case LineOp::kMoeFused:
        return Experts(line);
      case LineOp::kTake:
      case LineOp::kFrames:
        return Set(line, Flow{});
      case LineOp::kRows:
      case LineOp::kToken:
      case LineOp::kScale:
      case LineOp::kDivide:
      case LineOp::kRoot:
      case LineOp::kCap:
      case LineOp::kIndex:
      case LineOp::kRope:
        return Set(line, Of(line.arguments[0]));
    }
  }

  void FindEnds(const Line& line, bool begins, bool ends) {
    for (const LineArgument& argument : line.arguments) {
      if (argument.role < 0) continue;
      RoleUse& use = uses_[AsIndex(argument.role)];
      use.begins = use.begins || begins;
      use.ends = use.ends || ends;
    }
  }

  void FindHead() {
    const auto found =
        std::find(lines_.variables.begin(), lines_.variables.end(), "logits");
    if (found == lines_.variables.end()) return;
    const auto at = static_cast<size_t>(found - lines_.variables.begin());
    // A table that is both stays an embedding, as tied tables are in a tree.
    for (const int32_t role : flows_[at].from) {
      RoleUse& use = uses_[AsIndex(role)];
      if (use.role != Role::kEmbedding)
        use.role = use.module_role = Role::kHead;
    }
  }

  static bool Attends(const Seen& seen) {
    return seen.query || seen.key || seen.value;
  }

  // Returns whether the product of the weight is the operand of a projection of
  // queries, keys or values, as a latent is.
  bool FeedsHeads(int32_t role) const {
    return std::any_of(seen_.begin(), seen_.end(), [&](const Seen& other) {
      return Attends(other) && other.fed_by.contains(role);
    });
  }

  void Decide(size_t r) {
    RoleUse& use = uses_[r];
    const Seen& seen = seen_[r];
    Role role = use.role;
    if (role == Role::kOther) {
      if (FeedsHeads(static_cast<int32_t>(r))) {
        role = Role::kLatentDown;
      } else if (seen.query) {
        role = seen.key || seen.value ? Role::kFusedQkv
               : seen.fed_by.empty()  ? Role::kQuery
                                      : Role::kLatentUp;
      } else if (seen.key && seen.value) {
        role = seen.fed_by.empty() ? Role::kFusedKeyValue : Role::kLatentUp;
      } else if (Attends(seen)) {
        role = seen.key ? Role::kKey : Role::kValue;
      } else if (seen.gate || seen.up) {
        role = seen.gate ? Role::kGate : Role::kUp;
      }
    }
    use.role = use.module_role = role;
    use.attention = IsAttention(role) || role == Role::kLatentDown ||
                    role == Role::kLatentUp;
  }

  void Finish(size_t r) {
    const DescribedRole& described = description_.roles[r];
    RoleUse& use = uses_[r];
    use.encoder = described.stack == kEncoderStack;
    use.crossed = use.crossed && !use.encoder;
    use.counted_expert = described.pattern.text.find("$e") != std::string::npos;
    constexpr std::string_view kBias = ".bias";
    if (!described.name.ends_with(kBias)) return;
    const std::string of =
        described.name.substr(0, described.name.size() - kBias.size());
    for (size_t i = 0; i < uses_.size(); ++i) {
      if (description_.roles[i].name != of || i == r) continue;
      const RoleUse& module = uses_[i];
      use.role = module.role == Role::kOther ? Role::kOther : Role::kBias;
      use.module_role = module.module_role;
      use.begins = module.begins;
      use.ends = module.ends;
      use.attention = module.attention;
      use.expert = module.expert;
    }
  }

  const ModelDescription& description_;
  const Lines& lines_;
  std::vector<Flow> flows_;  // indexed by variable
  std::vector<Seen> seen_;   // indexed by role
  std::vector<RoleUse> uses_;
  Factors residual_;  // the dimension of the residual stream
  bool residual_of_tokens_ = false;
};

}  // namespace

std::vector<RoleUse> UsesOf(const ModelDescription& description) {
  // Errors are reported where the graph of the step is built.
  Findings unreported;
  const auto lines = ResolveLines(description, unreported);
  return lines ? Tracer(description, *lines).Run() : std::vector<RoleUse>();
}

const std::vector<RoleUse>& ParameterUses::Of(
    const ModelDescription& description, Texts names, char separator) {
  std::call_once(once_, [&] {
    const std::vector<RoleUse> uses = UsesOf(description);
    if (uses.empty()) return;
    std::vector<RolePattern> made;
    std::vector<RoleUse> of_pattern;
    std::vector<Place> places;
    const auto add = [&](const std::string& text, const Place& place,
                         const RoleUse& use) {
      if (text.empty()) return;
      made.push_back(MakePattern(text));
      places.push_back(place);
      of_pattern.push_back(use);
    };
    for (size_t r = 0; r < uses.size(); ++r) {
      const DescribedText& pattern = description.roles[r].pattern;
      add(pattern.text, pattern.place, uses[r]);
    }
    for (const DescribedText& skip : description.skip) {
      add(skip.text, skip.place, RoleUse{.skipped = true});
    }
    // The names of scanned layers match only where no other pattern does.
    for (size_t r = 0; r < uses.size(); ++r) {
      const DescribedText& pattern = description.roles[r].pattern;
      add(ScannedPattern(pattern.text, description.separator), pattern.place,
          uses[r]);
    }
    std::vector<Pattern> patterns;
    for (size_t i = 0; i < made.size(); ++i) {
      patterns.push_back({made[i].text, places[i], description.separator});
    }
    Findings unreported;
    const auto matcher = Matcher::Compile(patterns, unreported);
    if (!matcher) return;
    const Matches matches = matcher->Match(names, separator);
    uses_.resize(names.size());
    // The layers that have routed experts; -1 for scanned layers.
    std::set<int32_t> with_experts;
    std::vector<int32_t> layers(names.size(), -1);
    for (size_t i = 0; i < names.size(); ++i) {
      if (matches.first[i] == Matches::kNone) continue;
      const size_t pattern = AsIndex(matches.first[i]);
      uses_[i] = of_pattern[pattern];
      layers[i] =
          NumbersIn(*matcher, pattern, made[pattern], names[i], separator)
              .layer;
      if (uses_[i].expert) with_experts.insert(layers[i]);
    }
    for (size_t i = 0; i < names.size(); ++i) {
      uses_[i].shared_expert = IsMlp(uses_[i].module_role) &&
                               !uses_[i].expert &&
                               with_experts.contains(layers[i]);
    }
  });
  return uses_;
}

}  // namespace shardc::step
