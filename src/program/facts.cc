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

#include "program/program.h"
#include "program/ties.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::program {
namespace {

// Roles by evidence. Each factor is described by sets of uses, which do not
// depend on the order of the ops, and a list of tests decides, the most certain
// first. "Activations" depend on data; a dot of a weight has one operand that
// depends on parameters only.
//
//   einsum("bskgd,btkd->bkgst", q, k), where q and k depend on data
//     k  batch of a dot of activations, follows no other   -> KV heads
//     g  passed together with the queries' sequence        -> group
//     d  contracted by a dot of activations                -> head_dim
//     s  a data dimension that such a dot passes; t contracted later ->
//     sequence

bool IsData(uint8_t depends) { return (depends & kOnData) != 0; }

// The uses of one factor in the forward pass.
struct Seen {
  bool in_param = false, in_data = false;
  std::vector<const Seen*> parts;        // of a factor that is their sum
  int64_t contracted = 0, produced = 0;  // by dots with weights
  bool batch = false;                    // of a dot of activations
  bool weight_batch = false;             // of a dot with a weight
  bool contracted_by_activations = false;
  bool passed_by_values = false;  // free where a sequence is contracted
  bool passed_with_sequence = false;
  bool scanned = false, scanned_weight = false, divided = false;
  bool moved = false;  // shifted or ordered
  bool by_data = false, by_position = false;
  bool searched = false, grouped = false, window = false, feature = false;
  bool between_weights = false;  // a dot of two weights contracts it
  bool by_constant = false;      // of a constant operand of a dot
  bool within = false;           // follows another factor in a dimension
  bool embeds = false;           // a row of a table that tokens look up
  bool leads = false;            // other factors follow it in a dimension
  bool holds_elements = false;   // the elements of heads follow it
  bool only_parts = false;
  // The smallest size of another side of a weight that a dot contracts or
  // produces together with this factor, in times of the factor's dimension.
  bool at_most_half = true;
};

class RoleFinder {
 public:
  RoleFinder(const Program& program, const Ties& ties)
      : program_(program), ties_(ties), table_(ties.table) {}

  std::unordered_map<FactorId, FactorRole> Find() {
    SeeInputs();
    SeeEvents();
    SeeTables();
    for (const Op* op : ties_.ops) {
      for (const ValueId id : op->out) made_by_.emplace(id, op);
    }
    SeeDots();
    FindGroups();
    FindPartsOfStream(FindStream());
    std::unordered_map<FactorId, FactorRole> out;
    for (const auto& [factor, seen] : seen_) {
      const bool stream = streams_.contains(factor) && !table_.IsSum(factor);
      out[factor] = stream || factor == stream_ ? FactorRole::kStream
                                                : RoleOf(factor, seen);
    }
    return out;
  }

 private:
  // Calls `visit` for a dimension's factors, and for those of their parts.
  template <class Visit>
  void Each(const Factors& dim, const Visit& visit, int depth = 0) {
    for (const FactorId factor : table_.Resolve(dim)) {
      visit(seen_[factor]);
      if (depth == kPartDepth || !table_.IsSum(factor)) continue;
      for (const Factors& part : table_.PartsOf(factor)) {
        Each(part, visit, depth + 1);
      }
    }
  }

  void SeeInputs() {
    for (const Input& input : program_.inputs) {
      if (input.kind != InputKind::kParam) continue;
      for (const Factors& dim : ties_.dims[input.value]) {
        Each(dim, [](Seen& seen) { seen.in_param = true; });
      }
    }
    for (const Input& input : program_.inputs) {
      if (input.kind == InputKind::kParam) continue;
      for (const Factors& dim : ties_.dims[input.value]) {
        if (input.kind == InputKind::kData) {
          Each(dim, [&](Seen& seen) { seen.in_data = true; });
        } else {
          SeeState(dim, 0);
        }
      }
    }
    for (const Op* op : ties_.ops) {
      if (op->phase != Phase::kForward) continue;
      for (const ValueId id : op->out) {
        if (ties_.depends[id] != kOnData) continue;
        for (const Factors& dim : ties_.dims[id]) {
          Each(dim, [](Seen& seen) { seen.in_data = true; });
        }
      }
    }
    for (const Op* op : ties_.ops) {
      if (op->phase == Phase::kForward && op->kind == OpKind::kConv &&
          IsData(ties_.depends[op->in[0]])) {
        SeeWindows(*op);
      }
    }
    for (size_t id = 0; id < ties_.dims.size(); ++id) {
      for (const Factors& dim : ties_.dims[id]) {
        for (const FactorId factor : table_.Resolve(dim)) SeeSum(factor);
      }
    }
    for (const Input& input : program_.inputs) {
      if (input.kind != InputKind::kParam) continue;
      for (const Factors& dim : ties_.dims[input.value]) {
        const Factors list = table_.Resolve(dim);
        for (size_t i = 1; i < list.size(); ++i) {
          Seen& leader = seen_[list[i - 1]];
          leader.leads = true;
          if (!leader.only_parts) seen_[list[i]].within = true;
        }
      }
    }
  }

  // Marks the rows of tables that data looks up: those of token embeddings.
  void SeeTables() {
    for (const Input& input : program_.inputs) {
      if (input.kind != InputKind::kParam) continue;
      const auto& dims = ties_.dims[input.value];
      const bool table = std::ranges::any_of(dims, [&](const Factors& dim) {
        return std::ranges::any_of(table_.Resolve(dim), [&](FactorId factor) {
          return seen_[factor].by_data;
        });
      });
      for (const Factors& dim : dims) {
        const Factors list = table_.Resolve(dim);
        if (table && list.size() == 1 && !seen_[list[0]].by_data) {
          seen_[list[0]].embeds = true;
        }
      }
    }
  }

  // A moment of the optimizer has the dimensions of its parameter. A cache of
  // rotated keys has the halves of the heads that a parameter has, although the
  // sum of these halves is another one.
  void SeeState(const Factors& dim, int depth) {
    for (const FactorId factor : table_.Resolve(dim)) {
      Seen& seen = seen_[factor];
      bool parts_in_param = false;
      if (depth < kPartDepth && table_.IsSum(factor)) {
        for (const Factors& part : table_.PartsOf(factor)) {
          SeeState(part, depth + 1);
          Each(part, [&](const Seen& inner) {
            parts_in_param = parts_in_param || inner.in_param;
          });
        }
      }
      if (!seen.in_param && !parts_in_param) seen.in_data = true;
    }
  }

  // The positions of windows are a dimension of data, although a convolution of
  // a stride has others than its operand: the frames of sound, for instance.
  void SeeWindows(const Op& op) {
    const auto result = op.Of(Attr::kResult);
    for (size_t i = 2; i < result.size(); ++i) {
      Each(ties_.dims[op.out[0]][AsIndex(result[i])],
           [](Seen& seen) { seen.in_data = true; });
    }
  }

  void SeeSum(FactorId factor) {
    if (!table_.IsSum(factor) || !sums_.insert(factor).second) return;
    const auto parts = table_.PartsOf(factor);
    Seen& seen = seen_[factor];
    seen.only_parts = std::ranges::all_of(
        parts, [](const Factors& part) { return part.empty(); });
    for (const Factors& part : parts) {
      for (const FactorId inner : part) {
        SeeSum(inner);
        seen.parts.push_back(&seen_[inner]);
      }
    }
  }

  void SeeEvents() {
    for (const Event& event : ties_.events) {
      const bool activations = IsData(event.own) && IsData(event.other);
      Each(event.factors, [&](Seen& seen) {
        switch (event.use) {
          case Use::kContracted:
            if (event.own == 0) seen.by_constant = true;
            if (activations) seen.contracted_by_activations = true;
            if (IsWeight(event)) ++seen.contracted;
            if (event.own == kOnParams && event.other == kOnParams) {
              seen.between_weights = true;
            }
            break;
          case Use::kProduced:
            if (event.own == 0) seen.by_constant = true;
            if (IsWeight(event)) ++seen.produced;
            break;
          case Use::kBatched:
            (activations ? seen.batch : seen.weight_batch) = true;
            break;
          case Use::kDivided:
          case Use::kJoined:
            seen.divided = true;
            break;
          case Use::kScanned:
            seen.scanned = true;
            if (event.own == kOnParams) seen.scanned_weight = true;
            break;
          case Use::kLookedUp:
            (IsData(event.other) ? seen.by_data : seen.by_position) = true;
            break;
          case Use::kOrdered:
          case Use::kShifted:
            seen.moved = true;
            break;
          case Use::kSearched:
            seen.searched = true;
            break;
          case Use::kGrouped:
            seen.grouped = true;
            break;
          case Use::kWindow:
            seen.window = true;
            break;
          case Use::kFeature:
            seen.feature = true;
            break;
          case Use::kFree:
          case Use::kReduced:
          case Use::kOpaque:
          case Use::kRepeated:
          case Use::kUnreconciled:
            break;
        }
      });
    }
  }

  static bool IsWeight(const Event& event) {
    return event.own == kOnParams && IsData(event.other);
  }

  // Whether the factor is a dimension of data, which no weight contracts: one
  // of an input, or one that no parameter has, such as the length of a cache
  // that the program itself begins with zeros. A sum is one if a part is: the
  // tokens of an image after a class token.
  static bool IsOfData(const Seen& seen, int depth = 0) {
    if (seen.contracted > 0 || seen.produced > 0 || seen.feature) return false;
    const bool alone = depth == 0 && seen.parts.empty() && !seen.by_constant;
    return seen.in_data || (alone && !seen.in_param) ||
           (depth < kPartDepth &&
            std::ranges::any_of(seen.parts, [&](const Seen* part) {
              return IsOfData(*part, depth + 1);
            }));
  }

  // The uses of several dimensions of one dot together.
  void SeeDots() {
    for (size_t begin = 0; begin < ties_.events.size();) {
      size_t end = begin + 1;
      while (end < ties_.events.size() &&
             ties_.events[end].op == ties_.events[begin].op) {
        ++end;
      }
      const std::span<const Event> events(&ties_.events[begin], end - begin);
      const OpKind kind = ties_.ops[events[0].op]->kind;
      if (kind == OpKind::kDot || kind == OpKind::kRaggedDot) SeeDot(events);
      begin = end;
    }
  }

  bool HasDataFactor(const Factors& dim) {
    return std::ranges::any_of(table_.Resolve(dim), [&](FactorId factor) {
      return IsOfData(seen_[factor]);
    });
  }

  void SeeDot(std::span<const Event> events) {
    bool sequence_contracted = false;
    bool activations = false;
    bool free_data[] = {false, false};
    for (const Event& event : events) {
      const bool both = IsData(event.own) && IsData(event.other);
      activations = activations || both;
      const bool data = both && HasDataFactor(event.factors);
      if (event.use == Use::kContracted && data) sequence_contracted = true;
      if (event.use == Use::kFree && data) free_data[event.side] = true;
    }
    if (!activations) return SeeSides(events);
    for (const Event& event : events) {
      if (event.use != Use::kFree || HasDataFactor(event.factors)) continue;
      Each(event.factors, [&](Seen& seen) {
        if (sequence_contracted) {
          if (!free_data[event.side]) seen.passed_by_values = true;
        } else if (free_data[event.side]) {
          seen.passed_with_sequence = true;
        } else if (free_data[1 - event.side]) {
          one_token_.insert(&seen);
        }
      });
    }
  }

  // Adds the factors of a dimension and those of their parts.
  void AddWithParts(const Factors& dim, int depth,
                    std::set<FactorId>& out) const {
    for (const FactorId factor : table_.Resolve(dim)) {
      out.insert(factor);
      if (depth == kPartDepth || !table_.IsSum(factor)) continue;
      for (const Factors& part : table_.PartsOf(factor)) {
        AddWithParts(part, depth + 1, out);
      }
    }
  }

  // Returns whether a dot produced the value, but for its layout, its dtype and
  // factors that do not depend on data. Between two dots nothing then bends
  // the values: their weights are two factors of one matrix.
  bool IsProduct(ValueId value) const {
    for (int steps = 0; steps < kLongestWay; ++steps) {
      const auto made = made_by_.find(value);
      if (made == made_by_.end()) return false;
      const Op& op = *made->second;
      if (op.kind == OpKind::kDot || op.kind == OpKind::kRaggedDot) return true;
      const bool layout = op.kind == OpKind::kReshape ||
                          op.kind == OpKind::kTranspose ||
                          (op.kind == OpKind::kMap && op.in.size() == 1 &&
                           (op.word == "convert" || op.word == "copy"));
      const bool scaled =
          op.kind == OpKind::kMap && op.word == "mul" &&
          IsData(ties_.depends[op.in[0]]) != IsData(ties_.depends[op.in[1]]);
      if (!layout && !scaled) return false;
      value = scaled && !IsData(ties_.depends[op.in[0]]) ? op.in[1] : op.in[0];
    }
    return false;
  }

  // Compares the sizes of both sides of a weight, and notes which factors are
  // on its other side.
  void SeeSides(std::span<const Event> events) {
    for (const Event& event : events) {
      if (!IsWeight(event) || event.use != Use::kContracted) continue;
      const Op& op = *ties_.ops[event.op];
      if (!IsProduct(op.in[1 - event.side])) continue;
      AddWithParts(event.factors, 0, bare_);
    }
    int64_t contracted = 1;
    int64_t produced = 1;
    std::set<FactorId> sides[2];  // contracted, produced
    for (const Event& event : events) {
      const bool in = event.use == Use::kContracted;
      if (!IsWeight(event) || (!in && event.use != Use::kProduced)) continue;
      (in ? contracted : produced) *= table_.SizeOf(event.factors);
      AddWithParts(event.factors, 0, sides[in ? 0 : 1]);
    }
    for (const int side : {0, 1}) {
      for (const FactorId one : sides[side]) {
        auto& others = side == 0 ? leads_to_[one] : comes_from_[one];
        others.insert(sides[1 - side].begin(), sides[1 - side].end());
      }
    }
    for (const Event& event : events) {
      if (!IsWeight(event) ||
          (event.use != Use::kContracted && event.use != Use::kProduced)) {
        continue;
      }
      const bool in = event.use == Use::kContracted;
      const int64_t own = in ? contracted : produced;
      const int64_t other = in ? produced : contracted;
      Each(event.factors, [&](Seen& seen) {
        if (own > other / 2) seen.at_most_half = false;
      });
    }
  }

  // Finds which factors follow heads in a dimension, or in the next one: the
  // query heads of each KV head.
  void FindGroups() {
    // With a single token the queries have no sequence. What the scores pass
    // then is a group if the elements of heads follow it and no dot contracts
    // it. The values' elements, which a state of linear attention passes, are
    // none: nothing follows them.
    std::vector<Factors> all;
    for (const Input& input : program_.inputs) {
      if (input.kind != InputKind::kParam) continue;
      Factors& one = all.emplace_back();
      for (const Factors& dim : ties_.dims[input.value]) {
        const Factors list = table_.Resolve(dim);
        one.insert(one.end(), list.begin(), list.end());
      }
    }
    for (const Factors& one : all) MarkHolders(one, 0);
    for (Seen* const seen : one_token_) {
      if (!seen->contracted_by_activations && seen->holds_elements) {
        seen->passed_with_sequence = true;
      }
    }
    std::set<FactorId> alone;  // followed by something that is no group
    for (const Factors& one : all) AddPairs(one, alone, 0);
    for (const Factors& one : all) AddKeyed(one, 0);
    std::set<std::pair<FactorId, FactorId>> found;
    for (const auto& [head, group] : pairs_) {
      const Seen& seen = seen_[group];
      if (seen.passed_with_sequence || (seen.batch && alone.contains(head))) {
        found.insert({head, group});
        groups_.insert(group);
      }
    }
    // What follows a group is within a head: the channels of a state-space
    // model, whose heads share the states of their group.
    for (const auto& both : found) {
      const FactorId group = both.second;
      if (!groups_.contains(both.first)) {
        kv_.insert(both.first);
      } else if (std::ranges::none_of(found, [&](const auto& pair) {
                   return pair.second == group && !groups_.contains(pair.first);
                 })) {
        inside_.insert(group);
      }
    }
    for (const FactorId factor : inside_) groups_.erase(factor);
  }

  // Whether the factor, or one of its parts, is of the elements of heads.
  bool IsElements(FactorId factor, int depth = 0) {
    const Seen& seen = seen_[factor];
    if (seen.contracted_by_activations || seen.passed_by_values) return true;
    return depth < kPartDepth &&
           std::ranges::any_of(
               table_.PartsOf(factor), [&](const Factors& part) {
                 return !part.empty() && IsElements(part[0], depth + 1);
               });
  }

  // Returns a part with the factors of a list from this index on.
  static Factors FollowedBy(Factors part, const Factors& list, size_t from) {
    part.insert(part.end(), list.begin() + static_cast<std::ptrdiff_t>(from),
                list.end());
    return part;
  }

  // Finds the factors that elements of heads follow, in parts as well.
  void MarkHolders(const Factors& list, int depth) {
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      if (IsElements(list[i + 1])) seen_[list[i]].holds_elements = true;
    }
    for (size_t i = 0; i < list.size() && depth < kPartDepth; ++i) {
      for (const Factors& part : table_.PartsOf(list[i])) {
        MarkHolders(FollowedBy(part, list, i + 1), depth + 1);
      }
    }
  }

  // Returns whether the factor, or one of its parts, is of elements that scores
  // contract.
  bool IsContracted(FactorId factor, int depth = 0) {
    if (seen_[factor].contracted_by_activations) return true;
    return depth < kPartDepth &&
           std::ranges::any_of(
               table_.PartsOf(factor), [&](const Factors& part) {
                 return !part.empty() && IsContracted(part[0], depth + 1);
               });
  }

  // Finds what the elements that scores contract follow. In attention these are
  // KV heads in keys, and KV heads and their group in queries. In a mixer the
  // values alone have the group: B and C, the keys and the queries of its
  // state, both have the state groups.
  void AddKeyed(const Factors& list, int depth) {
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      if (IsContracted(list[i + 1])) {
        keyed_.insert(list[i]);
        if (i > 0) attending_.insert(list[i - 1]);
      }
    }
    for (size_t i = 0; i < list.size() && depth < kPartDepth; ++i) {
      for (const Factors& part : table_.PartsOf(list[i])) {
        Factors whole(list.begin(),
                      list.begin() + static_cast<std::ptrdiff_t>(i));
        whole.insert(whole.end(), part.begin(), part.end());
        AddKeyed(FollowedBy(std::move(whole), list, i + 1), depth + 1);
      }
    }
  }

  void AddPairs(const Factors& list, std::set<FactorId>& alone, int depth) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (table_.IsSum(list[i]) && depth < kPartDepth) {
        for (const Factors& part : table_.PartsOf(list[i])) {
          AddPairs(FollowedBy(part, list, i + 1), alone, depth + 1);
        }
        continue;
      }
      if (!IsHead(seen_[list[i]])) continue;
      const bool last = i + 1 == list.size();
      const FactorId next = last ? list[i] : list[i + 1];
      const Seen& seen = seen_[next];
      if (!last && next != list[i] &&
          (IsHead(seen) || seen.passed_with_sequence)) {
        pairs_.insert({list[i], next});
      } else {
        alone.insert(list[i]);
      }
    }
  }

  bool IsHead(const Seen& seen) const {
    // Tokens of a block that a weight contracts stay tokens.
    const bool tokens =
        seen.in_data && seen.contracted > 0 && seen.produced == 0;
    return seen.batch && !tokens && !IsOfData(seen) && !seen.scanned_weight;
  }

  // Returns the factor that most dots of weights contract and produce. Of equal
  // ones, the first in the parameters; kNone if there is none. The inner width
  // of a block of several projections may have more dots than the stream, up to
  // twice as many where each block is a Mamba-1 mixer. The width of the token
  // embedding is then the stream.
  FactorId FindStream() {
    FactorId best = kNone;
    FactorId embedded = kNone;
    std::pair<int64_t, int64_t> highest(0, 0);
    std::pair<int64_t, int64_t> of_embedded(0, 0);
    for (const Input& input : program_.inputs) {
      if (input.kind != InputKind::kParam) continue;
      for (const Factors& dim : ties_.dims[input.value]) {
        for (const FactorId factor : table_.Resolve(dim)) {
          const Seen& seen = seen_[factor];
          const bool both = seen.contracted > 0 && seen.produced > 0;
          const int64_t count = seen.contracted + seen.produced;
          // A block of several projections of one inner width has that width
          // in many dots, of which one produces it.
          const std::pair rank(std::min(seen.contracted, seen.produced), count);
          const bool other = IsHead(seen) || groups_.contains(factor) ||
                             seen.searched || seen.scanned_weight ||
                             seen.contracted_by_activations || seen.within;
          // An inner width is produced by as many dots as contract it, or more.
          const bool passes = seen.in_data || seen.contracted > seen.produced ||
                              (seen.contracted > 1 && seen.produced > 1);
          if (both && !other && passes && rank > highest) {
            best = factor;
            highest = rank;
          }
          if (both && !other && seen.embeds && rank > of_embedded) {
            embedded = factor;
            of_embedded = rank;
          }
        }
      }
    }
    if (2 * of_embedded.first >= highest.first && embedded != kNone) {
      best = embedded;
      highest = of_embedded;
    }
    most_ = highest.second;
    stream_ = best;
    return best;
  }

  // Finds the parts that follow the stream in a dimension of parameters and
  // that dots produce and contract as they do the stream, and the sums of such
  // parts: a stream may be several embeddings, one after the other.
  void FindPartsOfStream(FactorId stream) {
    streams_ = {stream};
    std::set<FactorId> sums;
    for (const Input& input : program_.inputs) {
      if (input.kind != InputKind::kParam) continue;
      for (const Factors& dim : ties_.dims[input.value]) {
        const Factors list = table_.Resolve(dim);
        if (list.size() != 1 || !table_.IsSum(list[0])) continue;
        const auto parts = table_.PartsOf(list[0]);
        if (std::ranges::find(parts, Factors{stream}) == parts.end()) continue;
        for (const Factors& part : parts) {
          if (part.size() != 1) continue;
          const Seen& seen = seen_[part[0]];
          if (seen.embeds && seen.contracted > 0 && seen.produced > 0) {
            streams_.insert(part[0]);
          }
        }
        sums.insert(list[0]);
      }
    }
    for (const FactorId sum : sums) {
      const auto parts = table_.PartsOf(sum);
      if (std::ranges::all_of(parts, [&](const Factors& part) {
            return part.size() == 1 && streams_.contains(part[0]);
          })) {
        streams_.insert(sum);
      }
    }
  }

  // Returns whether the list has factors, all of which are of the stream.
  bool AreStream(const std::set<FactorId>& list) const {
    return !list.empty() && std::ranges::includes(streams_, list);
  }

  FactorRole RoleOf(FactorId factor, const Seen& seen) const {
    using enum FactorRole;
    const bool of_data = IsOfData(seen);
    if (seen.only_parts) return kParts;
    if (seen.in_param && seen.scanned_weight) return kLayers;
    if (seen.in_param && (seen.searched || seen.grouped)) return kExperts;
    if (seen.in_param && seen.weight_batch && !seen.batch && !of_data &&
        !seen.passed_with_sequence) {
      // The blocks of a weight that is block diagonal are no experts: a
      // dimension of features holds one block after the other.
      return seen.leads ? kUnknown : kExperts;
    }
    // Weights of each example: the dimension is neither data's nor theirs.
    if (of_data && seen.in_param && seen.weight_batch) return kUnknown;
    if (seen.window) return kWindow;
    // The features of the data, or of the result, pass through products of
    // activations as heads do.
    const bool attends = IsHead(seen) || groups_.contains(factor);
    if (seen.in_data && seen.in_param && !of_data && !attends) {
      if (seen.contracted > 0 && seen.produced == 0) return kIn;
    }
    if (!of_data && !attends && !seen.contracted_by_activations &&
        (seen.passed_with_sequence || seen.passed_by_values) &&
        seen.contracted == 0 && seen.produced > 0) {
      return kOut;
    }
    if (seen.in_param && !of_data && seen.by_data && !seen.batch) return kVocab;
    if (kv_.contains(factor)) {
      return attending_.contains(factor) || !keyed_.contains(factor)
                 ? kKvHeads
                 : kStateGroups;
    }
    if (groups_.contains(factor)) return kGroup;
    if (inside_.contains(factor)) return kHeadDim;
    if (IsHead(seen)) return kHeads;
    if (!of_data && seen.passed_with_sequence &&
        !seen.contracted_by_activations) {
      return kHeads;  // one KV head without a dimension: MQA
    }
    if (!of_data && (seen.contracted_by_activations || seen.passed_by_values)) {
      // A weight makes the elements of heads, or contracts them. The number of
      // learned queries is not made by one.
      const bool learned =
          seen.contracted + seen.produced == 0 && !seen.feature;
      return learned && !seen.between_weights ? kUnknown : kHeadDim;
    }
    if (of_data) {
      const bool moves = seen.contracted_by_activations || seen.scanned ||
                         seen.moved || seen.divided || seen.in_param ||
                         seen.by_data || seen.by_position;
      return moves ? kSequence : kBatch;
    }
    if (seen.in_param && seen.by_position) return kPosition;
    const bool both = seen.contracted > 0 && seen.produced > 0;
    // A part of a dimension has no opposite of its own, and is no stream.
    const std::set<FactorId>& from = OppositesIn(comes_from_, factor);
    const std::set<FactorId>& to = OppositesIn(leads_to_, factor);
    const auto meets = [&](const std::set<FactorId>& list) {
      return std::ranges::any_of(
          list, [&](FactorId one) { return streams_.contains(one); });
    };
    const bool inside = meets(from) && meets(to);
    if (both && !seen.within &&
        2 * (seen.contracted + seen.produced) >= most_ && seen.contracted > 1 &&
        seen.produced > 1 && most_ > 6 && !inside &&
        !(from.empty() && to.empty())) {
      return kStream;  // that of another tower
    }
    if (seen.between_weights && !both) return kLatent;
    // The first projections of a feed-forward block, however narrow, read the
    // stream, and the last one writes it, after a gate or another function. A
    // latent leads to another dimension, such as heads, and between the two
    // factors of a matrix there is no function.
    const bool feed_forward =
        AreStream(from) && AreStream(to) && !bare_.contains(factor);
    if (both) return seen.at_most_half && !feed_forward ? kLatent : kInner;
    if (seen.feature) return kChannels;
    if (seen.contracted > 0) return kIn;
    return seen.produced > 0 ? kOut : kUnknown;
  }

  static const std::set<FactorId>& OppositesIn(
      const std::map<FactorId, std::set<FactorId>>& all, FactorId factor) {
    static const std::set<FactorId> kNoFactors;
    const auto at = all.find(factor);
    return at == all.end() ? kNoFactors : at->second;
  }

  static constexpr FactorId kNone = UINT32_MAX;
  // More ops of layout and scale than between any two dots of a model.
  static constexpr int kLongestWay = 16;

  const Program& program_;
  const Ties& ties_;
  const FactorTable& table_;
  // References stay valid where factors are added.
  std::map<FactorId, Seen> seen_;
  std::set<FactorId> sums_;
  std::set<Seen*> one_token_;
  std::set<std::pair<FactorId, FactorId>> pairs_;  // heads, and what follows
  std::set<FactorId> kv_, groups_;
  // The heads whose elements activations contract, and those of which a group
  // follows the head before these elements, as in queries.
  std::set<FactorId> keyed_, attending_;
  std::set<FactorId> inside_;  // what follows a group
  // For each factor what weights contract that produce it, and what those
  // produce that contract it.
  std::map<FactorId, std::set<FactorId>> comes_from_, leads_to_;
  // The factors that a weight contracts as another one produced them.
  std::set<FactorId> bare_;
  std::unordered_map<ValueId, const Op*> made_by_;
  int64_t most_ = 0;
  FactorId stream_ = kNone;
  std::set<FactorId> streams_;  // the stream, its parts and their sums
};

// Returns the roles of all factors that occur in inputs of the program. Factors
// are named by their representatives in `ties`.
std::unordered_map<FactorId, FactorRole> InferRoles(const Program& program,
                                                    const Ties& ties) {
  return RoleFinder(program, ties).Find();
}

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
      "unknown",  "batch",  "sequence", "position",     "layers",
      "stream",   "heads",  "kv_heads", "state_groups", "group",
      "head_dim", "inner",  "latent",   "experts",      "vocab",
      "parts",    "window", "channels", "in",           "out"};
  return kNames[static_cast<size_t>(role)];
}

bool CountsHeads(FactorRole role) {
  return role == FactorRole::kHeads || role == FactorRole::kKvHeads ||
         role == FactorRole::kStateGroups;
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
      std::string parts =
          Join(factor.parts, " | ",
               [&](const FactorList& part) { return Text(part); });
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
