// Writes the suggested rules file. The rules are in the order in which one
// reads a model: the embedding, attention, feed-forward layers, biases and
// scales, and finally replicated parameters. The comment of each rule states
// what its parameters are, their number, shapes and bytes:
//
//   # Queries: heads over tp. (32 x [4096, 4096]: 1 GiB)
//   - match: 'q_proj\.weight$'
//     spec: [HEAD, [FSDP, SP]]
#include "suggest/suggest.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "source/size.h"
#include "source/wording.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/patterns.h"

namespace shardc::suggest {
namespace {

// Writes the comments of suggested rules. A comment has a title, such as
// `Queries`, which depends on the role. An explanation follows, which depends
// on the spec. For the usual spec of the role, it explains how tp shards the
// parameter. For another spec, it gives the reason. For example:
//
//   q_proj [HEAD, FSDP]            ->  Queries: heads over tp.
//   q_proj [null, [FSDP, SP, TP]]  ->  Queries: tp does not divide the
//                                      heads, so it is stored in slices ...

// The title of a suggested rule, which depends on the role of its parameters.
// The written rules file lists the rules in this order.
enum class Title : uint8_t {
  kEmbedding,
  kHead,
  kTable,
  kPosition,
  kQuery,
  kKeys,
  kToHeads,
  kQkv,
  kLatentUp,
  kOutput,
  kQkvBySizes,
  kHeadsBySizes,
  kLatent,
  kLatentOfProgram,
  kRouter,
  kExpertIn,
  kExpertGateUp,
  kExpertOut,
  kExpertsBySizes,
  kUp,
  kGateUp,
  kDown,
  kInner,
  kMixer,
  kConvolution,
  kAdapter,
  kUnoriented,
  kCounted,
  kOther,
  kScale,
  kBias,
  kHeadVector,
  kReplicated
};

// Returns the explanation of the usual spec of a role: how tp shards the
// parameter. The text is empty if tp does not shard the parameter, or if the
// role needs no explanation.
std::string UsualText(Title title, const Choice& choice) {
  const bool sharded = choice.inner_sharded;
  switch (title) {
    case Title::kEmbedding:
    case Title::kHead:
      return sharded ? "vocabulary over tp" : "";
    case Title::kQuery:
    case Title::kLatentUp:
    case Title::kOutput:
    case Title::kToHeads:
    case Title::kHeadsBySizes:
      return sharded ? "heads over tp" : "";
    case Title::kKeys:
      return sharded ? "KV heads over tp" : "";
    case Title::kQkv:
    case Title::kQkvBySizes:
      return sharded ? "heads over tp; query, key and value are stored one "
                       "after the other, "
                       "so that the loader has to shard each of them"
                     : "";
    // Some models store the columns of gate and up in turn.
    case Title::kExpertGateUp:
      return sharded
                 ? "columns over tp, the same ones of gate and of up on each "
                   "device"
                 : "";
    case Title::kGateUp:
      return sharded ? "columns over tp; gate and up are stored one after the "
                       "other, "
                       "so that the loader has to shard each of them"
                     : "";
    case Title::kUp:
    case Title::kDown:
    case Title::kExpertIn:
    case Title::kExpertOut:
      return sharded ? "columns over tp, so that only the output of the block "
                       "is summed"
                     : "";
    // By sizes alone, a matrix may be gate and up in one, whose halves a shard
    // does not keep together.
    case Title::kExpertsBySizes:
      return sharded ? "columns over tp" : "";
    default:
      return "";
  }
}

// Returns the name of the dimension that tp would shard if its size were
// divisible by the size of tp.
std::string InnerText(Title title) {
  switch (title) {
    case Title::kEmbedding:
    case Title::kHead:
      return "the vocabulary";
    case Title::kQuery:
    case Title::kKeys:
    case Title::kQkv:
    case Title::kQkvBySizes:
    case Title::kHeadsBySizes:
    case Title::kLatentUp:
    case Title::kOutput:
      return "the heads";
    default:
      return "the inner dimension";
  }
}

Title TitleOf(const InferredDims& inferred, const Choice& choice) {
  if (choice.replicated() && choice.place_axis.empty() &&
      choice.reason != Reason::kReplicatedKeys) {
    return Title::kReplicated;
  }
  if (choice.by_heads) return Title::kHeadVector;
  if (inferred.siblings == Siblings::kSizes) {
    return inferred.role == Role::kFusedQkv ? Title::kQkvBySizes
                                            : Title::kHeadsBySizes;
  }
  if (inferred.experts_by_sizes && inferred.role != Role::kBias &&
      inferred.role != Role::kScale) {
    return Title::kExpertsBySizes;
  }
  switch (inferred.role) {
    case Role::kEmbedding:
      return inferred.table_by_sizes ? Title::kTable : Title::kEmbedding;
    case Role::kHead:
      return Title::kHead;
    case Role::kPosition:
      return Title::kPosition;
    case Role::kQuery:
      return inferred.by_program ? Title::kToHeads : Title::kQuery;
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
      return Title::kKeys;
    case Role::kFusedQkv:
      return Title::kQkv;
    case Role::kOutput:
      return Title::kOutput;
    case Role::kLatentDown:
      return inferred.by_program ? Title::kLatentOfProgram : Title::kLatent;
    case Role::kLatentUp:
      return Title::kLatentUp;
    case Role::kRouter:
      return Title::kRouter;
    case Role::kGate:
    case Role::kUp:
      return inferred.Experts() > 0 ? Title::kExpertIn : Title::kUp;
    case Role::kFusedGateUp:
      return inferred.Experts() > 0 ? Title::kExpertGateUp : Title::kGateUp;
    case Role::kDown:
      return inferred.Experts() > 0 ? Title::kExpertOut : Title::kDown;
    case Role::kProjection:
      return Title::kInner;
    case Role::kStateSpace:
      return Title::kMixer;
    case Role::kConvolution:
      return inferred.IsOfUnknownRole() ? Title::kOther : Title::kConvolution;
    case Role::kAdapterDown:
    case Role::kAdapterUp:
      return Title::kAdapter;
    case Role::kScale:
      return Title::kScale;
    case Role::kBias:
      return Title::kBias;
    case Role::kSink:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
      return Title::kHeadVector;
    case Role::kNorm:
    case Role::kLatentNorm:
    case Role::kVector:
    case Role::kOther:
      break;
  }
  if (inferred.counted) return Title::kCounted;
  const Role named = inferred.by_name.role;
  return IsAttention(named) || IsMlp(named) ? Title::kUnoriented
                                            : Title::kOther;
}

std::string_view TitleText(Title title) {
  switch (title) {
    case Title::kEmbedding:
      return "Token embedding";
    case Title::kHead:
      return "Output head";
    case Title::kTable:
      return "Perhaps the embedding or the output head, by sizes alone";
    case Title::kPosition:
      return "Positions";
    case Title::kQuery:
      return "Queries";
    case Title::kKeys:
      return "Keys and values";
    case Title::kToHeads:
      return "Projections to heads";
    case Title::kQkv:
      return "Query, key and value in one matrix";
    case Title::kLatentUp:
      return "Projections from a latent to heads";
    case Title::kOutput:
      return "Attention's output";
    case Title::kQkvBySizes:
      return "Perhaps query, key and value in one matrix, by the sizes of its "
             "siblings";
    case Title::kHeadsBySizes:
      return "Projections to or from heads, by the sizes of their siblings";
    case Title::kLatent:
      return "Projections to a latent, whose norm reads all of it";
    case Title::kLatentOfProgram:
      return "Projections to or from a latent";
    case Title::kRouter:
      return "Router";
    case Title::kExpertIn:
      return "Experts, into the feed-forward width";
    case Title::kExpertGateUp:
      return "Experts, gate and up in one matrix";
    case Title::kExpertOut:
      return "Experts, out of the feed-forward width";
    case Title::kExpertsBySizes:
      return "Perhaps experts, by their sizes alone";
    case Title::kUp:
      return "Feed-forward, into its width";
    case Title::kGateUp:
      return "Feed-forward, gate and up in one matrix";
    case Title::kDown:
      return "Feed-forward, out of its width";
    case Title::kInner:
      return "Projections from or to the model's width";
    case Title::kMixer:
      return "State space mixer, whose projections hold several parts";
    case Title::kConvolution:
      return "Convolutions";
    case Title::kAdapter:
      return "Adapters, whose rank stays unsharded";
    case Title::kUnoriented:
      return "Nothing shows which dimension is the input";
    case Title::kCounted:
      return "Sharded by what its dimensions count";
    case Title::kOther:
      return "Of unknown role";
    case Title::kScale:
      return "Quantisation scales and zero points, sharded as their weights";
    case Title::kBias:
      return "Biases of sharded outputs";
    case Title::kHeadVector:
      return "A number for each head or column of the heads";
    case Title::kReplicated:
      return "Small, or read by every device: replicated";
  }
  return "";
}

// Returns the text that explains a spec. If the spec is the usual one for its
// role, the text describes how tp shards the parameter; otherwise it states the
// reason. `tensor` is true if the mesh has a tensor-parallel axis. The text is
// empty if there is nothing to explain.
std::string ReasonText(const Choice& choice, Title title, bool tensor) {
  switch (choice.reason) {
    case Reason::kSlices:
      return "tp does not divide " + InnerText(title) +
             ", so it is stored in slices of the width and gathered before "
             "use";
    case Reason::kUndivided:
      return "stored in slices of the width and gathered before use";
    case Reason::kBlockSlices:
      return "stored in slices of the width and gathered before use, as the "
             "other projections of its block";
    case Reason::kHeadsUnknown:
      return "the number of heads is not known, so it is stored in slices of "
             "the width and gathered before use";
    case Reason::kRoleUnknown:
      return "nothing shows whether it has heads or parts, so it is stored in "
             "slices of the width and gathered before use";
    case Reason::kReplicatedKeys:
      return "tp does not divide the KV heads, which are few bytes: replicated "
             "over tp";
    case Reason::kExpertsOverTp:
      return "experts over tp, which divides their number, but not their width "
             "together with the data axes";
    case Reason::kWholeExperts:
      return "experts over tp";
    case Reason::kDataOnInner:
      return "the data axes do not divide the width, so they shard the "
             "dimension that tp shards";
    case Reason::kLessData:
      return "some data axis divides no dimension";
    case Reason::kNotOverTensor:
    case Reason::kUsual:
      break;
  }
  return tensor ? UsualText(title, choice) : "";
}

// Rates how certain the inferred roles of a suggested rule are. The rating is
// written into the comment of the rule. What the user's program shows is rated
// high, and so is a parameter that is a vector in each layer. For other
// parameters, the name decides:
// - high: the name is known, and the sizes do not contradict the role
// - medium: other programs use the name with another meaning
// - low: only sizes show the role, or nothing does
// A parameter whose role the title calls unknown is rated low, whatever else is
// known of it.
// A rule has the lowest rating of its parameter groups. If it is not certain
// which dimension counts scanned layers, the rating is lowered as well. For
// example, if the first dimension of `trunk/up` may count either layers or
// experts, the rating is low.

enum class Level : uint8_t { kLow, kMedium, kHigh };

struct Evidence {
  Level level = Level::kHigh;
  std::string text;
};

Evidence OfRole(const InferredDims& inferred, Title title) {
  if (inferred.by_program) {
    if (title == Title::kOther) {
      return {Level::kLow, "the program does not show what a dimension counts"};
    }
    return {Level::kHigh, "by the program"};
  }
  if (title == Title::kOther) {
    return {Level::kLow, "no name or size shows the role"};
  }
  if (title == Title::kHeadVector && !IsHeadVector(inferred.role)) {
    return {Level::kMedium, "as many as the heads of its block"};
  }
  if (inferred.OfOneLayer().size() < 2) {
    return {Level::kHigh, "vectors of one layer"};
  }
  if (inferred.described) {
    return {Level::kHigh, "by the description of the model's family"};
  }
  if (inferred.siblings == Siblings::kNames) {
    return {Level::kMedium, "by the names and sizes of its siblings"};
  }
  if (inferred.siblings == Siblings::kSizes) {
    return {Level::kLow, "by the sizes of its siblings"};
  }
  switch (inferred.by_name.confidence) {
    case Confidence::kSure:
      if (inferred.role != Role::kOther && inferred.role != Role::kProjection) {
        return {Level::kHigh, "by names and sizes"};
      }
      break;
    case Confidence::kLikely:
      if (inferred.role == Role::kOther) break;
      return {Level::kMedium,
              "by names that other programs use differently, and sizes"};
    case Confidence::kSizes:
    case Confidence::kNone:
      break;
  }
  if (inferred.IsMatrix()) {
    return {Level::kLow, "by sizes alone: one side is the width " +
                             std::to_string(inferred.width_size)};
  }
  return {Level::kLow, "no name or size shows the role"};
}

Level OfStack(StackConfidence confidence) {
  switch (confidence) {
    case StackConfidence::kSure:
      return Level::kHigh;
    case StackConfidence::kLikely:
      return Level::kMedium;
    case StackConfidence::kUndecided:
      break;
  }
  return Level::kLow;
}

// Returns a text for the groups of one rule, such as "Confidence: high, by
// names and sizes; dimension 0 counts layers." The text states the lowest
// confidence of these groups.
std::string EvidenceText(const ModelDims& dims,
                         std::span<const uint32_t> groups, Title title) {
  Evidence least;
  std::set<int> scanned;
  bool undecided = false;
  for (const uint32_t k : groups) {
    Evidence one = OfRole(dims.groups[k], title);
    for (const ScannedDim& dim : dims.stacks.dims[k]) {
      const auto confidence = dims.stacks.stacks[dim.stack].confidence;
      one.level = std::min(one.level, OfStack(confidence));
      undecided = undecided || confidence == StackConfidence::kUndecided;
      scanned.insert(dim.dim);
    }
    if (least.text.empty() || one.level < least.level) least = std::move(one);
  }
  std::string out = "Confidence: ";
  out += least.level == Level::kHigh     ? "high"
         : least.level == Level::kMedium ? "medium"
                                         : "low";
  out += ", " + least.text;
  std::string list = Join(scanned, " and ");
  if (!list.empty()) {
    out += std::string("; dimension") + (scanned.size() > 1 ? "s " : " ") +
           list +
           (undecided            ? " may count"
            : scanned.size() > 1 ? " count"
                                 : " counts") +
           " layers";
  }
  return out + ".";
}

// The width of a comment line, in characters, and the largest number of shapes
// that a comment lists.
constexpr size_t kCommentWidth = 74;
constexpr size_t kListedShapes = 3;

using SpecKey = std::vector<std::vector<std::string>>;

SpecKey KeyOf(const Choice& choice) {
  SpecKey out;
  for (const auto& dim : choice.spec) {
    const int64_t parts = PartsAt(choice.parts, out.size());
    out.emplace_back();
    for (const AxisAssignment& one : dim) out.back().push_back(one.axis);
    if (parts > 1) out.back().push_back(std::to_string(parts));
  }
  return out;
}

// ---- comments

std::string ShapesText(const Suggestion& suggestion, const PatternOf& pattern) {
  std::map<Shape, int64_t> shapes;
  std::vector<Shape> order;
  int64_t bytes = 0;
  for (const uint32_t k : pattern.groups) {
    const ParameterGroup& group = suggestion.tree.groups[k];
    const auto [at, fresh] = shapes.try_emplace(group.shape, 0);
    if (fresh) order.push_back(group.shape);
    at->second += group.count();
    bytes = CheckedAdd(bytes, group.total_bytes()).value_or(INT64_MAX);
  }
  std::string out;
  for (size_t i = 0; i < order.size() && i < kListedShapes; ++i) {
    AppendItem(out, ", ",
               CountText(shapes[order[i]]) + " x " + ShapeText(order[i]));
  }
  if (order.size() > kListedShapes) {
    out += " and " + Counted(static_cast<int64_t>(order.size() - kListedShapes),
                             "other shape");
  }
  return out + ": " + BytesText(bytes);
}

std::vector<std::string> Wrapped(const std::string& text) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.size();
    if (end - begin > kCommentWidth) {
      end = text.rfind(' ', begin + kCommentWidth);
      if (end == std::string::npos || end <= begin) {
        end = text.find(' ', begin);
        if (end == std::string::npos) end = text.size();
      }
    }
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string Capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

// Returns the sentence about a layer stack for the comment at the top of the
// suggested file: which dimension counts layers, and why.
std::string StackEvidence(const LayerStack& stack) {
  switch (stack.confidence) {
    case StackConfidence::kSure:
    case StackConfidence::kLikely:
      return "Scanned layers: " + StackText(stack) + ", because " +
             stack.evidence + ".";
    case StackConfidence::kUndecided:
      break;
  }
  return "Undecided: whether " + StackText(stack) + " (" + stack.evidence +
         "). The rules assume it; --scan-axis none or another axis decides.";
}

std::vector<std::string> Head(const Suggestion& suggestion, const Mesh& mesh) {
  const ModelFacts& facts = suggestion.dims.facts;
  std::string read;
  const auto add = [&](const std::string& text) {
    AppendItem(read, "; ", text);
  };
  if (facts.by_program) add("the program of a function, and no names");
  if (facts.unknown_names) add("no known name, so that sizes decide");
  if (!facts.widths.empty()) add("width " + Join(facts.widths, " and "));
  if (!facts.vocabularies.empty()) {
    add("vocabulary " + Join(facts.vocabularies, " and "));
  }
  if (!facts.assumed_vocabularies.empty()) {
    add("perhaps a vocabulary of " + Join(facts.assumed_vocabularies, " and ") +
        ", by its size alone");
  }
  for (const std::string& heads : facts.heads) add(heads);
  if (facts.experts > 0) {
    add((facts.experts_assumed ? "perhaps " : "") +
        Counted(facts.experts, "expert") +
        (facts.experts_assumed ? ", by sizes alone" : ""));
  }
  std::vector<std::string> out = Wrapped(
      "Rules suggested for " + MeshText(mesh) + ": " +
      Counted(static_cast<int64_t>(suggestion.tree.manifest->tensors.size()),
              "tensor") +
      ", " + BytesText(suggestion.tree.bytes) + ", " +
      BytesText(suggestion.bytes_per_device) + " per device.");
  const auto append = [&](const std::string& text) {
    for (std::string& line : Wrapped(text)) out.push_back(std::move(line));
  };
  if (!read.empty()) append("Inferred: " + read + ".");
  for (const LayerStack& stack : suggestion.dims.stacks.stacks) {
    append(StackEvidence(stack));
  }
  if (const auto roles = UnknownRolesOf(suggestion.tree, suggestion.dims);
      roles.any()) {
    append("Not known: " + roles.Text() +
           ", so that nothing shows whether they have heads or fused parts.");
  }
  if (facts.heads_assumed && suggestion.mesh.tp > 1) {
    append(facts.has_config
               ? "The size of a head is assumed where the model's config.json "
                 "does not state it."
               : "The size of a head is assumed; give the model's config.json "
                 "with --model to read it.");
  }
  const auto& groups = suggestion.dims.groups;
  const bool unknown =
      std::any_of(groups.begin(), groups.end(),
                  [](const InferredDims& one) { return one.heads_unknown; });
  if (suggestion.choices.heads_unsharded && unknown) {
    append(
        "The number of heads is not known: attention is not sharded by "
        "heads.");
  } else if (suggestion.choices.heads_unsharded &&
             suggestion.choices.heads_divide) {
    append("Attention is not sharded by heads, although tp " +
           std::to_string(suggestion.mesh.tp) +
           " divides them: the layout with the lowest cost of those that were "
           "compared shards other dimensions over tp.");
  } else if (suggestion.choices.heads_unsharded) {
    append("Heads do not divide by tp " + std::to_string(suggestion.mesh.tp) +
           ": attention is not sharded by heads.");
  } else if (suggestion.choices.kv_heads_unsharded) {
    append("KV heads do not divide by tp " +
           std::to_string(suggestion.mesh.tp) +
           ": every device holds all of them.");
  }
  if (suggestion.mesh.tp > 1) {
    append(
        "Activations between blocks are not sharded over tp (hidden_state: "
        "null): otherwise every projection would gather them.");
  }
  if (suggestion.choices.batch_over_experts) {
    append(facts.experts > 0
               ? "Tokens are sharded over the expert axis as well; an "
                 "all_to_all sends them to their experts."
               : "Tokens are sharded over the expert axis as well; the model "
                 "has no experts for it.");
  }
  return out;
}

// ---- rules

SpecSource SourceOf(const Choice& choice) {
  if (choice.replicated()) return SpecBundle{"Replicated", {}};
  SpecList list;
  for (const auto& dim : choice.spec) {
    SpecEntry entry;
    for (const AxisAssignment& one : dim) entry.names.push_back({one.axis, {}});
    entry.is_group = entry.names.size() > 1;
    list.entries.push_back(std::move(entry));
  }
  return list;
}

// Returns the kinds of axes that shard each dimension, without axes of size 1.
// Linting compares specs in this form: [FSDP, SP] equals [FSDP] if sp has size
// 1.
std::vector<std::multiset<std::string>> Resolved(const Choice& choice) {
  std::vector<std::multiset<std::string>> out;
  for (const auto& dim : choice.spec) {
    out.emplace_back();
    for (const AxisAssignment& one : dim) {
      if (one.size <= 1) continue;
      switch (PurposeOf(one.axis)) {
        case AxisPurpose::kData:
          out.back().insert(one.axis);
          break;
        case AxisPurpose::kExpert:
          out.back().insert("EP");
          break;
        case AxisPurpose::kTensor:
          out.back().insert("TP");
          break;
      }
    }
  }
  while (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

// Returns whether a group that the pattern misses (PatternOf::missed) has
// another spec than the rule.
bool MissesOtherSpecs(const Suggestion& suggestion, const PatternOf& pattern,
                      const Choice& choice) {
  return std::any_of(
      pattern.missed.begin(), pattern.missed.end(), [&](uint32_t k) {
        return Resolved(suggestion.choices.groups[k]) != Resolved(choice);
      });
}

// Returns the placement of experts: their mesh axis, and the pattern that finds
// an expert's number in a name.
Placement PlacementOf(const Suggestion& suggestion, const Choice& choice,
                      const PatternOf& pattern) {
  Placement out;
  const AxisRule rule = choice.place_axis == "EP" ? AxisRule::kExpertParallel
                        : choice.place_axis == "TP"
                            ? AxisRule::kTensorParallel
                            : AxisRule::kFullyShardedDataParallel;
  out.axis = suggestion.mesh.renamed.Value(rule).axes.front();
  const std::string separator(1, suggestion.tree.separator);
  const std::string& name = suggestion.tree.groups[pattern.groups.front()].name;
  // Megatron-Core writes the expert's number at the end of the name:
  // `experts.linear_fc1.weight5`. Others write it in the part after `experts`,
  // as `5` or `expert_5`, and the name may then end with another number:
  // `experts.5.w_2`.
  const std::string experts = "experts" + separator;
  const size_t at = name.find(experts);
  const size_t begin = at == name.npos ? name.size() : at + experts.size();
  const size_t end = std::min(name.find(separator, begin), name.size());
  const bool inside = end < name.size() && name[end - 1] == '*';
  out.index_pattern =
      !inside && name.ends_with('*')
          ? R"((\d+)$)"
          : Escaped(experts +
                    (inside ? name.substr(begin, end - 1 - begin) : "")) +
                R"((\d+))" + Escaped(separator);
  out.count = choice.place_count;
  return out;
}

}  // namespace

std::vector<RuleGroup> RuleGroupsOf(const Tree& tree, const ModelDims& dims,
                                    const Choices& choices) {
  using Key = std::tuple<Title, SpecKey, std::string, int64_t, bool, Reason>;
  std::map<Key, RuleGroup> rule_groups;
  for (uint32_t k = 0; k < tree.groups.size(); ++k) {
    const Choice& choice = choices.groups[k];
    const Title title = TitleOf(dims.groups[k], choice);
    const bool replicated = title == Title::kReplicated;
    Key key = {title,
               replicated ? SpecKey{} : KeyOf(choice),
               choice.place_axis,
               choice.place_count,
               choice.ignore_reshard,
               replicated ? Reason::kUsual : choice.reason};
    RuleGroup& rule_group = rule_groups[key];
    if (rule_group.groups.empty()) rule_group.choice = &choice;
    rule_group.order = static_cast<int>(title);
    rule_group.groups.push_back(k);
  }
  std::vector<RuleGroup> out;
  for (auto& [key, rule_group] : rule_groups)
    out.push_back(std::move(rule_group));
  std::stable_sort(out.begin(), out.end(),
                   [](const RuleGroup& a, const RuleGroup& b) {
                     return std::pair(a.order, a.groups.front()) <
                            std::pair(b.order, b.groups.front());
                   });
  return out;
}

Imported WriteFile(const Suggestion& suggestion, const Mesh& mesh) {
  Imported out;
  out.comments = Head(suggestion, mesh);
  out.separator = suggestion.tree.separator;
  out.axes = suggestion.choices.axes;
  std::string previous;
  for (size_t g = 0; g < suggestion.rule_groups.size(); ++g) {
    const RuleGroup& rule_group = suggestion.rule_groups[g];
    const auto title = static_cast<Title>(rule_group.order);
    for (const PatternOf& pattern : suggestion.patterns.rule_groups[g]) {
      ImportedRule one;
      one.rule.match = pattern.text;
      one.rule.spec = SourceOf(*rule_group.choice);
      one.rule.parts = DimPartsOf(rule_group.choice->parts);
      if (!rule_group.choice->place_axis.empty()) {
        one.rule.placement =
            PlacementOf(suggestion, *rule_group.choice, pattern);
      }
      std::string text(TitleText(title));
      const std::string reason =
          ReasonText(*rule_group.choice, title, suggestion.mesh.tp > 1);
      if (!reason.empty()) text += ": " + reason;
      text += ".";
      const std::string shapes = ShapesText(suggestion, pattern);
      // If the previous rule has the same title and reason, the comment repeats
      // only the shapes.
      one.comments = Wrapped(text == previous ? Capital(shapes) + "."
                                              : text + " (" + shapes + ")");
      previous = text;
      for (std::string& line :
           Wrapped(EvidenceText(suggestion.dims, pattern.groups, title))) {
        one.comments.push_back(std::move(line));
      }
      if (MissesOtherSpecs(suggestion, pattern, *rule_group.choice)) {
        one.comments.emplace_back(
            "shardc: ignore[SHD118] names of other parameters end with this "
            "one");
      }
      if (rule_group.choice->ignore_reshard) {
        const bool unknown = rule_group.choice->reason == Reason::kHeadsUnknown;
        one.comments.push_back(
            "shardc: ignore[SHD214] heads " +
            std::string(unknown ? "are not known" : "do not divide by tp") +
            ", so slices are gathered before use");
      }
      out.rules.push_back(std::move(one));
    }
  }
  return out;
}

}  // namespace shardc::suggest
