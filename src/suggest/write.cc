// Rules stand in the order in which a model is read: the table of tokens,
// attention, the feed-forward layers, what belongs to weights, and at last what
// every device holds whole. Each says what it is and what it weighs:
//
//   # Queries: heads over tp. (32 x [4096, 4096]: 1 GiB)
//   - match: 'q_proj\.weight$'
//     spec: [HEAD, [FSDP, SP]]
#include "suggest/write.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "source/checked.h"
#include "source/wording.h"

namespace shardc::suggest {
namespace {

constexpr size_t kCommentWidth = 74;
constexpr size_t kListedShapes = 3;

// What a rule is called, in the order of the file.
enum class Title : uint8_t {
  kEmbedding,
  kHead,
  kPosition,
  kQuery,
  kKeys,
  kQkv,
  kLatentUp,
  kOutput,
  kLatent,
  kRouter,
  kExpertIn,
  kExpertOut,
  kUp,
  kGateUp,
  kDown,
  kInner,
  kMixer,
  kConvolution,
  kAdapter,
  kOther,
  kScale,
  kBias,
  kHeadVector,
  kReplicated
};

bool IsExpert(const Reading& reading) {
  return reading.experts >= 0 || reading.expert_count > 1;
}

Title TitleOf(const Reading& reading, const Choice& choice) {
  if (choice.replicated() && choice.place_axis.empty() &&
      choice.reason != Reason::kWholeKeys) {
    return Title::kReplicated;
  }
  switch (reading.part) {
    case Part::kEmbedding:
      return Title::kEmbedding;
    case Part::kHead:
      return Title::kHead;
    case Part::kPosition:
      return Title::kPosition;
    case Part::kQuery:
      return Title::kQuery;
    case Part::kKey:
    case Part::kValue:
    case Part::kKeyValue:
      return Title::kKeys;
    case Part::kQkv:
      return Title::kQkv;
    case Part::kOutput:
      return Title::kOutput;
    case Part::kLatent:
      return Title::kLatent;
    case Part::kLatentUp:
      return Title::kLatentUp;
    case Part::kRouter:
      return Title::kRouter;
    case Part::kUp:
      return IsExpert(reading) ? Title::kExpertIn : Title::kUp;
    case Part::kGateUp:
      return IsExpert(reading) ? Title::kExpertIn : Title::kGateUp;
    case Part::kDown:
      return IsExpert(reading) ? Title::kExpertOut : Title::kDown;
    case Part::kInner:
      return Title::kInner;
    case Part::kMixer:
      return Title::kMixer;
    case Part::kConvolution:
      return Title::kConvolution;
    case Part::kAdapter:
      return Title::kAdapter;
    case Part::kScale:
      return Title::kScale;
    case Part::kBias:
      return Title::kBias;
    case Part::kHeadVector:
      return Title::kHeadVector;
    case Part::kVector:
    case Part::kOther:
      break;
  }
  return Title::kOther;
}

std::string_view TitleText(Title title) {
  switch (title) {
    case Title::kEmbedding:
      return "Token embedding";
    case Title::kHead:
      return "Output head";
    case Title::kPosition:
      return "Positions";
    case Title::kQuery:
      return "Queries";
    case Title::kKeys:
      return "Keys and values";
    case Title::kQkv:
      return "Query, key and value in one matrix";
    case Title::kLatentUp:
      return "From the latent to heads";
    case Title::kOutput:
      return "Attention's output";
    case Title::kLatent:
      return "Down to a latent, which is normed whole";
    case Title::kRouter:
      return "Router";
    case Title::kExpertIn:
      return "Experts, into their width";
    case Title::kExpertOut:
      return "Experts, out of their width";
    case Title::kUp:
      return "Feed-forward, into its width";
    case Title::kGateUp:
      return "Feed-forward, gate and up in one matrix";
    case Title::kDown:
      return "Feed-forward, out of its width";
    case Title::kInner:
      return "From or to the model's width";
    case Title::kMixer:
      return "State space mixer, whose projections pack several parts";
    case Title::kConvolution:
      return "Convolutions";
    case Title::kAdapter:
      return "Adapters, whose rank stays whole";
    case Title::kOther:
      return "Of no known role";
    case Title::kScale:
      return "Quantisation scales and zero points, as their weights";
    case Title::kBias:
      return "Biases of what is split";
    case Title::kHeadVector:
      return "A number for each head or column of the heads";
    case Title::kReplicated:
      return "Small, or read by every device: whole";
  }
  return "";
}

// What is behind a first choice's spec.
std::string UsualText(Title title, const Choice& choice) {
  const bool cut = choice.inner_cut;
  switch (title) {
    case Title::kEmbedding:
    case Title::kHead:
      return cut ? "vocabulary over tp" : "";
    case Title::kQuery:
    case Title::kLatentUp:
    case Title::kOutput:
      return cut ? "heads over tp" : "";
    case Title::kKeys:
      return cut ? "KV heads over tp" : "";
    case Title::kQkv:
      return cut ? "heads over tp; packed one after the other, they are cut "
                   "part by part by the loader"
                 : "";
    case Title::kGateUp:
      return cut ? "columns over tp; packed one after the other, they are cut "
                   "part by part by the loader"
                 : "";
    case Title::kUp:
    case Title::kDown:
    case Title::kExpertIn:
    case Title::kExpertOut:
      return cut ? "columns over tp, so that only the result is summed" : "";
    default:
      return "";
  }
}

// What slices are instead of.
std::string Inside(Title title) {
  switch (title) {
    case Title::kEmbedding:
    case Title::kHead:
      return "the vocabulary";
    case Title::kQuery:
    case Title::kKeys:
    case Title::kQkv:
    case Title::kLatentUp:
    case Title::kOutput:
      return "the heads";
    default:
      return "it inside";
  }
}

std::string ReasonText(const Choice& choice, Title title, bool cuts) {
  switch (choice.reason) {
    case Reason::kSlices:
      return "tp does not divide " + Inside(title) +
             ", so it is stored in slices of the width and gathered before "
             "use";
    case Reason::kWholeKeys:
      return "fewer KV heads than tp divides, and little of the model: whole "
             "over tp";
    case Reason::kWholeExperts:
      return "whole experts over tp, which divides their number and not their "
             "width beside the data axes";
    case Reason::kBehindToken:
      return "the width does not divide by the data axes, so they stand "
             "behind";
    case Reason::kLessData:
      return "not every data axis divides it";
    case Reason::kWholeTensor:
    case Reason::kUsual:
      break;
  }
  return cuts ? UsualText(title, choice) : "";
}

using SpecKey = std::vector<std::vector<std::string>>;

SpecKey KeyOf(const Choice& choice) {
  SpecKey out;
  for (const auto& dim : choice.spec) {
    out.emplace_back();
    for (const Cut& cut : dim) out.back().push_back(cut.token);
  }
  return out;
}

// ---- comments

std::string ShapesText(const Suggestion& suggestion, const PatternOf& pattern) {
  std::map<Shape, int64_t> shapes;
  std::vector<Shape> order;
  int64_t bytes = 0;
  for (const uint32_t k : pattern.kinds) {
    const Kind& kind = suggestion.tree.kinds[k];
    const auto [at, fresh] = shapes.try_emplace(kind.shape, 0);
    if (fresh) order.push_back(kind.shape);
    at->second += kind.count();
    bytes = CheckedAdd(bytes, kind.total_bytes()).value_or(INT64_MAX);
  }
  std::string out;
  for (size_t i = 0; i < order.size() && i < kListedShapes; ++i) {
    out += (out.empty() ? "" : ", ") + CountText(shapes[order[i]]) + " x " +
           ShapeText(order[i]);
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

std::string ListText(const std::vector<int64_t>& numbers) {
  std::string out;
  for (const int64_t number : numbers) {
    out += (out.empty() ? "" : " and ") + std::to_string(number);
  }
  return out;
}

std::vector<std::string> Head(const Suggestion& suggestion, const Mesh& mesh) {
  const TreeFacts& facts = suggestion.readings.facts;
  std::string read;
  const auto add = [&](const std::string& text) {
    read += (read.empty() ? "" : "; ") + text;
  };
  if (facts.opaque) add("names say nothing, so sizes decide");
  if (!facts.widths.empty()) add("width " + ListText(facts.widths));
  if (!facts.vocabularies.empty()) {
    add("vocabulary " + ListText(facts.vocabularies));
  }
  for (const std::string& heads : facts.heads) add(heads);
  if (facts.experts > 0) {
    add(Counted(facts.experts, "expert"));
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
  if (!read.empty()) append("What was read: " + read + ".");
  if (facts.heads_assumed && suggestion.mesh.tp > 1) {
    append(
        "The size of a head is assumed; name config.json with --model to "
        "be sure.");
  }
  if (suggestion.choices.heads_whole) {
    append("Heads do not divide by tp " + std::to_string(suggestion.mesh.tp) +
           ": attention is not split by heads.");
  } else if (suggestion.choices.kv_heads_whole) {
    append("KV heads do not divide by tp " +
           std::to_string(suggestion.mesh.tp) + ": every device has all.");
  }
  if (suggestion.mesh.tp > 1) {
    append(
        "Activations between blocks are whole (hidden_state: null): over "
        "tp they would be gathered before every projection.");
  }
  if (suggestion.choices.batch_over_experts) {
    append(
        "Tokens are split over the expert axis too, so that an all_to_all "
        "exchanges them.");
  }
  return out;
}

// ---- rules

SpecSource SourceOf(const Choice& choice) {
  if (choice.replicated()) return SpecBundle{"Replicated", {}};
  SpecList list;
  for (const auto& dim : choice.spec) {
    SpecEntry entry;
    for (const Cut& cut : dim) entry.names.push_back({cut.token, {}});
    entry.is_group = entry.names.size() > 1;
    list.entries.push_back(std::move(entry));
  }
  return list;
}

// By axes that are there: what a lint compares.
std::vector<std::multiset<std::string>> Resolved(const Choice& choice) {
  std::vector<std::multiset<std::string>> out;
  for (const auto& dim : choice.spec) {
    out.emplace_back();
    for (const Cut& cut : dim) {
      if (cut.size <= 1) continue;
      const std::string& t = cut.token;
      const bool own = t == "FSDP" || t == "SP" || t == "EP";
      out.back().insert(own ? t : t == "EXPERT" ? "EP" : "TP");
    }
  }
  while (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

bool MissesOtherSpecs(const Suggestion& suggestion, const PatternOf& pattern,
                      const Choice& choice) {
  return std::any_of(
      pattern.missed.begin(), pattern.missed.end(), [&](uint32_t k) {
        return Resolved(suggestion.choices.kinds[k]) != Resolved(choice);
      });
}

// The mesh axis of experts, and where a name holds an expert's number.
Placement PlacementOf(const Suggestion& suggestion, const Choice& choice) {
  Placement out;
  const AxisRule rule = choice.place_axis == "EP" ? AxisRule::kExpertParallel
                        : choice.place_axis == "TP"
                            ? AxisRule::kTensorParallel
                            : AxisRule::kFullyShardedDataParallel;
  out.axis = suggestion.mesh.renamed.Value(rule).axes.front();
  const bool dots = suggestion.tree.separator == '.';
  out.index_pattern = dots ? R"(experts\.(\d+)\.)" : R"(experts/(\d+)/)";
  out.count = choice.place_count;
  return out;
}

}  // namespace

std::vector<Group> GroupsOf(const Tree& tree, const Readings& readings,
                            const Choices& choices) {
  using Key = std::tuple<Title, SpecKey, std::string, int64_t, bool, Reason>;
  std::map<Key, Group> groups;
  for (uint32_t k = 0; k < tree.kinds.size(); ++k) {
    const Choice& choice = choices.kinds[k];
    const Title title = TitleOf(readings.kinds[k], choice);
    const bool whole = title == Title::kReplicated;
    Key key = {title,
               whole ? SpecKey{} : KeyOf(choice),
               choice.place_axis,
               choice.place_count,
               choice.ignore_reshard,
               whole ? Reason::kUsual : choice.reason};
    Group& group = groups[key];
    if (group.kinds.empty()) group.choice = &choice;
    group.order = static_cast<int>(title);
    group.kinds.push_back(k);
  }
  std::vector<Group> out;
  for (auto& [key, group] : groups) out.push_back(std::move(group));
  std::stable_sort(out.begin(), out.end(), [](const Group& a, const Group& b) {
    return std::pair(a.order, a.kinds.front()) <
           std::pair(b.order, b.kinds.front());
  });
  return out;
}

Imported WriteFile(const Suggestion& suggestion, const Mesh& mesh) {
  Imported out;
  out.comments = Head(suggestion, mesh);
  out.separator = suggestion.tree.separator;
  out.axes = suggestion.choices.axes;
  std::string said;
  for (size_t g = 0; g < suggestion.groups.size(); ++g) {
    const Group& group = suggestion.groups[g];
    const auto title = static_cast<Title>(group.order);
    for (const PatternOf& pattern : suggestion.patterns.groups[g]) {
      ImportedRule one;
      one.rule.match = pattern.text;
      one.rule.spec = SourceOf(*group.choice);
      if (!group.choice->place_axis.empty()) {
        one.rule.placement = PlacementOf(suggestion, *group.choice);
      }
      std::string text(TitleText(title));
      const std::string reason =
          ReasonText(*group.choice, title, suggestion.mesh.tp > 1);
      if (!reason.empty()) text += ": " + reason;
      text += ".";
      const std::string shapes = ShapesText(suggestion, pattern);
      // Said once for the rules that follow one another.
      one.comments = Wrapped(text == said ? Capital(shapes) + "."
                                          : text + " (" + shapes + ")");
      said = text;
      if (MissesOtherSpecs(suggestion, pattern, *group.choice)) {
        one.comments.emplace_back(
            "shardc: ignore[SHD118] names of other parameters end with this "
            "one");
      }
      if (group.choice->ignore_reshard) {
        one.comments.emplace_back(
            "shardc: ignore[SHD214] heads do not divide by tp, so slices are "
            "gathered before use");
      }
      out.rules.push_back(std::move(one));
    }
  }
  return out;
}

}  // namespace shardc::suggest
