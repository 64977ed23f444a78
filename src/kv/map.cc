// Makes the map of a cache. For each device of the destination and each kind of
// layers, the needed elements are a box: its layers, its heads and its tokens.
// The box is divided by what the source's devices have, and each part is read
// from one of the devices that have it. For example, 8 KV heads from tp:4 to
// tp:16, where device 5 has head 2:
//
//   device 5 of the destination <- device 1 of the source (heads 2-3),
//   head 2, which is head 0 of both devices
//
// A descriptor is a range of memory that is consecutive on both sides. It never
// leaves a page, because pages are anywhere in memory.
#include "kv/map.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::kv {
namespace {

constexpr int64_t kMostPieces = 250'000;
// The most tokens whose places are computed one by one, because both sides
// shard them differently.
constexpr int64_t kMostSteps = int64_t{1} << 24;

// The tokens that one part of the source and one part of the destination have
// in common.
struct Runs {
  int64_t tokens = 0;
  // The number of ranges of tokens that are consecutive in a page of both
  // sides, and how many of them are a complete page of both.
  int64_t runs = 0, complete = 0;
};

// Computes the runs of a range of tokens, indexed by source part and
// destination part.
class RunTable {
 public:
  RunTable(const Side& from, const Side& to, LayerRange range, bool paged,
           int64_t tokens)
      : from_(from), to_(to), to_parts_(to.token_parts) {
    runs_.resize(AsIndex(from.token_parts * to.token_parts));
    // Without pages, all tokens of a layer are consecutive.
    from_page_ = paged ? from.settings.page.value_or(0) : tokens;
    to_page_ = paged ? to.settings.page.value_or(0) : tokens;
    if (from.token_parts == 1 && to.token_parts == 1) {
      Count(range);
    } else {
      Walk(range, tokens);
    }
  }
  const Runs& Of(int64_t from_part, int64_t to_part) const {
    return runs_[AsIndex(from_part * to_parts_ + to_part)];
  }

 private:
  // Returns the number of multiples of `page` after range.first and before
  // range.end.
  static int64_t Multiples(const LayerRange& range, int64_t page) {
    return (range.end - 1) / page - range.first / page;
  }

  void Count(const LayerRange& range) {
    Runs& all = runs_.front();
    all.tokens = range.count();
    if (range.count() <= 0 || from_page_ < 1 || to_page_ < 1) return;
    const Size common =
        Size(from_page_ / std::gcd(from_page_, to_page_)) * to_page_;
    all.runs = 1 + Multiples(range, from_page_) + Multiples(range, to_page_) -
               Multiples(range, common.value());
    if (from_page_ != to_page_) return;
    const int64_t first = CeilDiv(range.first, from_page_);
    all.complete = std::max<int64_t>(range.end / from_page_ - first, 0);
  }

  // Visits each token, and joins it to the previous token of the same parts if
  // both are next to each other in one page on both sides.
  void Walk(const LayerRange& range, int64_t tokens) {
    struct Last {
      int64_t from = -2, to = -2, length = 0;
    };
    std::vector<Last> last(runs_.size());
    const auto close = [&](size_t at) {
      const bool complete = from_page_ == to_page_ && from_page_ > 0 &&
                            last[at].length == from_page_;
      if (complete) ++runs_[at].complete;
    };
    for (int64_t token = range.first; token < range.end; ++token) {
      const Side::At a = from_.Locate(token, tokens);
      const Side::At b = to_.Locate(token, tokens);
      const size_t at = AsIndex(a.part * to_parts_ + b.part);
      Runs& runs = runs_[at];
      ++runs.tokens;
      if (from_page_ < 1 || to_page_ < 1) continue;
      Last& before = last[at];
      const bool joins = before.from + 1 == a.index &&
                         before.to + 1 == b.index &&
                         a.index % from_page_ != 0 && b.index % to_page_ != 0;
      if (!joins) {
        close(at);
        ++runs.runs;
        before.length = 0;
      }
      ++before.length;
      before.from = a.index;
      before.to = b.index;
    }
    for (size_t at = 0; at < last.size(); ++at) close(at);
  }

  const Side& from_;
  const Side& to_;
  const int64_t to_parts_;
  int64_t from_page_ = 0, to_page_ = 0;
  std::vector<Runs> runs_;
};

// The numbers of heads of a piece and of the devices of both sides.
struct HeadCounts {
  int64_t moved = 0, from = 0, to = 0;
};

// Returns the descriptors of one tensor of one layer if pages of both sides
// have the orders.
int64_t InOrders(Order from, Order to, const HeadCounts& heads,
                 const Runs& runs) {
  if (from != to) return runs.tokens * heads.moved;
  if (from == Order::kNhd) {
    return heads.moved == heads.from && heads.moved == heads.to ? runs.runs
                                                                : runs.tokens;
  }
  return runs.complete + (runs.runs - runs.complete) * heads.moved;
}

// Returns the number that suffices. A page of one head or of one token is the
// same memory in both orders.
int64_t LeastInOrders(Order from, Order to, const HeadCounts& heads,
                      const Runs& runs, const Side& source,
                      const Side& destination) {
  const bool any_from = heads.from == 1 || source.settings.page == 1;
  const bool any_to = heads.to == 1 || destination.settings.page == 1;
  if (any_from && any_to) return runs.runs;
  if (any_from) from = to;
  if (any_to) to = from;
  return InOrders(from, to, heads, runs);
}

class Maker {
 public:
  Maker(const std::vector<Kind>& kinds, const Side& from, const Side& to,
        const MapSettings& settings, Findings& findings)
      : from_(from), to_(to), settings_(settings), findings_(findings) {
    map_.kinds = kinds;
  }

  std::optional<Map> Make() {
    CheckDtypes();
    if (!map_.refused.empty()) return std::move(map_);
    ListNotKnown();
    map_.by_kind.resize(map_.kinds.size());
    for (size_t kind = 0; kind < map_.kinds.size(); ++kind) {
      if (map_.kinds[kind].is.heads == 0) continue;
      if (!AddKind(kind)) return std::nullopt;
      if (!map_.refused.empty()) return std::move(map_);
    }
    for (auto& [devices, pieces] : pairs_) {
      map_.pairs.push_back({devices.second, devices.first, std::move(pieces)});
    }
    std::set<int64_t> sending;
    for (const Pair& pair : map_.pairs) sending.insert(pair.from);
    map_.idle = std::ssize(from_.holders) - std::ssize(sending);
    if (settings_.tokens && !AddTotals()) return std::nullopt;
    const std::string wrong =
        Prove(from_, to_, settings_.tokens.value_or(1), map_);
    if (!wrong.empty()) {
      map_.refused.push_back("the map is not proved: " + wrong);
    }
    return std::move(map_);
  }

 private:
  void Refuse(std::string why) { map_.refused.push_back(std::move(why)); }

  bool Limit(const Code& code, const std::string& what) {
    findings_.Add(code, {}, what);
    return false;
  }

  void CheckDtypes() {
    const auto check = [&](Dtype from, Dtype to, std::string_view flag,
                           bool used) {
      if (!used || from == to || settings_.convert) return;
      Refuse("the source stores " + std::string(DtypeName(from)) +
             " and the destination " + std::string(DtypeName(to)) + " (`" +
             std::string(flag) +
             "`): a copy of bytes would be misread; `--convert` states that "
             "the destination converts them");
    };
    const auto has = [&](auto test) {
      return std::any_of(map_.kinds.begin(), map_.kinds.end(), test);
    };
    const SideSettings& a = from_.settings;
    const SideSettings& b = to_.settings;
    check(a.dtype, b.dtype, "--kv-dtype",
          has([](const Kind& one) { return one.IsPaged(); }));
    check(
        a.state_dtype, b.state_dtype, "--state-dtype",
        has([](const Kind& one) { return one.is.kind == KvKindName::kState; }));
    check(a.conv_dtype, b.conv_dtype, "--conv-dtype", has([](const Kind& one) {
            return one.is.kind == KvKindName::kConvKey;
          }));
  }

  void ListNotKnown() {
    for (const Kind& kind : map_.kinds) {
      if (kind.is.heads > 0) continue;
      map_.complete = false;
      map_.not_known.push_back(
          {.what = "the heads and bytes of the states that " +
                   Counted(CountOf(kind.is.layers), "layer") +
                   " keep for each request"});
    }
    if (!settings_.tokens) {
      map_.not_known.push_back(
          {.what = "the bytes of a request", .settled_by = "--tokens"});
    }
    const bool paged = std::any_of(map_.kinds.begin(), map_.kinds.end(),
                                   [](const Kind& k) { return k.IsPaged(); });
    if (paged && !(from_.settings.page && to_.settings.page)) {
      map_.not_known.push_back(
          {.what = "the descriptors", .settled_by = "--page"});
    }
  }

  // Devices of the source that have the same layers, heads and tokens.
  struct Group {
    std::vector<LayerRange> layers;
    LayerRange heads;
    int64_t token_part = 0;
    std::vector<const Holder*> holders;
  };

  // Groups the source's devices. Layers that the same ranks have are together.
  std::vector<Group> Groups(size_t index) const {
    const Kind& kind = map_.kinds[index];
    // For each layer's range, the ranks that have it. Boundaries of all ranks
    // divide the layers into ranges that no rank has only in part.
    std::set<int64_t> ends;
    for (const auto& layers : from_.layers_of_rank) {
      for (const LayerRange& range : Common(layers, kind.is.layers)) {
        ends.insert(range.first);
        ends.insert(range.end);
      }
    }
    std::map<std::vector<int64_t>, std::vector<LayerRange>> of_ranks;
    for (auto at = ends.begin(); at != ends.end(); ++at) {
      const auto next = std::next(at);
      if (next == ends.end()) break;
      const std::vector<LayerRange> one = {{*at, *next}};
      if (Common(one, kind.is.layers).empty()) continue;
      std::vector<int64_t> ranks;
      for (size_t rank = 0; rank < from_.layers_of_rank.size(); ++rank) {
        if (!Common(one, from_.layers_of_rank[rank]).empty()) {
          ranks.push_back(static_cast<int64_t>(rank));
        }
      }
      if (ranks.empty()) continue;
      auto& layers = of_ranks[ranks];
      if (!layers.empty() && layers.back().end == *at) {
        layers.back().end = *next;
      } else {
        layers.push_back(one.front());
      }
    }
    std::vector<Group> out;
    for (const auto& [ranks, layers] : of_ranks) {
      std::map<std::pair<int64_t, int64_t>, std::vector<const Holder*>> parts;
      for (const Holder& holder : from_.holders) {
        if (!IsAmong(holder.stage_rank, ranks)) {
          continue;
        }
        parts[{holder.head_part[index], holder.token_part}].push_back(&holder);
      }
      for (auto& [part, holders] : parts) {
        out.push_back({layers, from_.HeadsOf(kind, index, *holders.front()),
                       part.second, std::move(holders)});
      }
    }
    return out;
  }

  // Returns the tokens that are kept, and the ranges that replicas send.
  std::vector<LayerRange> Ranges(const Kind& kind, int64_t replicas) const {
    const int64_t tokens = settings_.tokens.value_or(1);
    const int64_t kept = kind.Kept(tokens);
    const LayerRange all = kind.is.kind == KvKindName::kState
                               ? LayerRange{0, 1}
                               : LayerRange{tokens - kept, tokens};
    const bool shares = settings_.replicas == Replicas::kShareTokens &&
                        settings_.tokens && kind.IsPaged() && replicas > 1;
    if (!shares) return {all};
    // The caller has checked that both pages are known.
    const int64_t from = from_.settings.page.value_or(1);
    const int64_t unit =
        std::min((Size(from / std::gcd(from, to_.settings.page.value_or(1))) *
                  to_.settings.page.value_or(1))
                     .value(),
                 std::max<int64_t>(tokens, 1));
    const int64_t first = all.first / unit, units = CeilDiv(all.end, unit);
    std::vector<LayerRange> out;
    for (int64_t i = 0; i < replicas; ++i) {
      const int64_t begin = first + (units - first) * i / replicas;
      const int64_t end = first + (units - first) * (i + 1) / replicas;
      out.push_back(
          {std::max(begin * unit, all.first), std::min(end * unit, all.end)});
    }
    return out;
  }

  const RunTable& RunsOf(const LayerRange& range, bool paged) {
    const auto key = std::pair(std::pair(range.first, range.end), paged);
    const auto at = tables_.find(key);
    if (at != tables_.end()) return at->second;
    return tables_
        .emplace(key, RunTable(from_, to_, range, paged,
                               settings_.tokens.value_or(1)))
        .first->second;
  }

  bool AddKind(size_t index) {
    const Kind& kind = map_.kinds[index];
    const bool sharded = from_.token_parts > 1 || to_.token_parts > 1;
    if (sharded && kind.Kept(settings_.tokens.value_or(1)) > kMostSteps) {
      return Limit(code::kLimit,
                   "a request of more than " + CountText(kMostSteps) +
                       " tokens, which are sharded, is not mapped");
    }
    if (sharded && !kind.IsPaged()) {
      Refuse(
          "tokens are sharded, and the plan does not state which device has "
          "the kind `" +
          kind.Name() + "`");
      return true;
    }
    const std::vector<Group> groups = Groups(index);
    int64_t number = 0;
    for (const Holder& holder : to_.holders) {
      const LayerRange heads = to_.HeadsOf(kind, index, holder);
      const std::vector<LayerRange> needed = Common(
          to_.layers_of_rank[AsIndex(holder.stage_rank)], kind.is.layers);
      int64_t found = 0;
      for (const Group& group : groups) {
        const LayerRange both{std::max(heads.first, group.heads.first),
                              std::min(heads.end, group.heads.end)};
        std::vector<LayerRange> layers = Common(needed, group.layers);
        if (both.count() <= 0 || layers.empty()) continue;
        if (group.token_part == 0) found += CountOf(layers) * both.count();
        if (!AddPieces(index, group, holder, number, both, layers)) {
          return false;
        }
      }
      if (found != CountOf(needed) * heads.count()) {
        Refuse("no device of the source has all layers of the kind `" +
               kind.Name() + "` that device " + CountText(holder.device) +
               " of the destination needs");
        return true;
      }
      ++number;
    }
    return true;
  }

  bool AddPieces(size_t index, const Group& group, const Holder& holder,
                 int64_t number, const LayerRange& heads,
                 const std::vector<LayerRange>& layers) {
    const Kind& kind = map_.kinds[index];
    const auto replicas = std::ssize(group.holders);
    const std::vector<LayerRange> ranges = Ranges(kind, replicas);
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].count() <= 0) continue;
      const auto sender = ranges.size() > 1 ? i : AsIndex(number % replicas);
      const Holder& from = *group.holders[sender];
      Piece piece;
      piece.kind = index;
      piece.layers = layers;
      piece.heads = heads;
      piece.from_head = heads.first - group.heads.first;
      piece.to_head = heads.first - to_.HeadsOf(kind, index, holder).first;
      piece.range = ranges[i];
      piece.from_part = from.token_part;
      piece.to_part = holder.token_part;
      const Size each = Size(CountOf(layers)) * heads.count() *
                        BytesOfHead(kind, from_.settings);
      if (!each.Fits()) return Limit(code::kOverflow, "bytes exceed 64 bits");
      piece.bytes_per_token = each.value();
      if (settings_.tokens || kind.is.kind == KvKindName::kState) {
        const HeadCounts counts{heads.count(), group.heads.count(),
                                to_.HeadsOf(kind, index, holder).count()};
        if (!Measure(kind, counts, piece)) return false;
        if (piece.tokens == 0) continue;
      }
      if (++pieces_ > kMostPieces) {
        return Limit(code::kLimit, "the map has more than " +
                                       CountText(kMostPieces) + " pieces");
      }
      pairs_[{holder.device, from.device}].push_back(std::move(piece));
    }
    return true;
  }

  // Sets the tokens, bytes and descriptors of a piece.
  bool Measure(const Kind& kind, const HeadCounts& heads, Piece& piece) {
    const Runs& runs =
        RunsOf(piece.range, kind.IsPaged()).Of(piece.from_part, piece.to_part);
    piece.tokens = runs.tokens;
    const Size bytes = Size(piece.bytes_per_token) * runs.tokens;
    if (!bytes.Fits()) return Limit(code::kOverflow, "bytes exceed 64 bits");
    piece.bytes = bytes.value();
    SetDescriptors(kind, heads, runs, piece);
    return true;
  }

  void SetDescriptors(const Kind& kind, const HeadCounts& heads,
                      const Runs& runs, Piece& piece) {
    const SideSettings& a = from_.settings;
    const SideSettings& b = to_.settings;
    const int64_t layers = CountOf(piece.layers);
    if (!kind.IsPaged()) {
      // A device's heads of a state are consecutive, and so are the inputs of
      // a convolution.
      piece.descriptors = layers * kind.Tensors();
      return;
    }
    if (!a.page || !b.page) return;
    // Scales are a tensor of their own for each tensor that they scale.
    const bool scaled =
        a.dtype == Dtype::kI8 && kind.is.kind != KvKindName::kIndexer;
    const int64_t tensors = kind.Tensors();
    // In pages that hold keys and values next to each other, a page that is
    // copied completely is one range.
    const bool complete = heads.moved == heads.from && heads.moved == heads.to;
    const int64_t joined =
        a.joint && b.joint && tensors == 2 && complete ? runs.complete : 0;
    const auto count = [&](int64_t each) {
      return layers * ((scaled ? 2 : 1) * tensors * each - joined);
    };
    std::optional<int64_t> declared, least;
    for (const Order from : {Order::kHnd, Order::kNhd}) {
      for (const Order to : {Order::kHnd, Order::kNhd}) {
        // A side whose order is not given may have either.
        if (from != a.order.value_or(from) || to != b.order.value_or(to)) {
          continue;
        }
        const int64_t most = count(InOrders(from, to, heads, runs));
        const int64_t few =
            count(LeastInOrders(from, to, heads, runs, from_, to_));
        const bool given = a.order && b.order;
        const int64_t one = given ? most : few;
        if (declared && *declared != one) {
          NeedsOrder();
          return;
        }
        declared = one;
        least = few;
      }
    }
    piece.descriptors = declared;
    if (least < declared) piece.least_descriptors = least;
  }

  void NeedsOrder() {
    AddNotKnown({{.what = "the descriptors of pages whose heads are copied in "
                          "part, or to another order",
                  .settled_by = "--order"}},
                map_.not_known);
  }

  bool AddTotals() {
    std::vector<std::map<int64_t, int64_t>> sent(map_.kinds.size() + 1);
    std::vector<std::map<int64_t, int64_t>> received(map_.kinds.size() + 1);
    std::vector<Totals> totals(map_.kinds.size() + 1);
    bool fits = true;
    const auto add = [&](int64_t& to, int64_t more) {
      const auto sum = CheckedAdd(to, more);
      fits = fits && sum.has_value();
      to = sum.value_or(to);
    };
    const auto add_known = [&](std::optional<int64_t>& to,
                               const std::optional<int64_t>& more) {
      to = to && more ? CheckedAdd(*to, *more) : std::nullopt;
    };
    const size_t all = map_.kinds.size();
    for (const Pair& pair : map_.pairs) {
      std::set<size_t> counted = {all};
      for (const Piece& piece : pair.pieces) {
        counted.insert(piece.kind);
        for (const size_t to : {piece.kind, all}) {
          add(totals[to].sent, piece.bytes.value_or(0));
          add(sent[to][pair.from], piece.bytes.value_or(0));
          add(received[to][pair.to], piece.bytes.value_or(0));
          add_known(totals[to].descriptors, piece.descriptors);
          add_known(totals[to].least_descriptors, piece.least_descriptors
                                                      ? piece.least_descriptors
                                                      : piece.descriptors);
        }
      }
      for (const size_t to : counted) ++totals[to].pairs;
    }
    const auto most = [](const std::map<int64_t, int64_t>& of) {
      int64_t out = 0;
      for (const auto& [device, bytes] : of) out = std::max(out, bytes);
      return out;
    };
    for (size_t i = 0; i <= all; ++i) {
      totals[i].largest_source = most(sent[i]);
      totals[i].largest_destination = most(received[i]);
      if (i == all) continue;
      const Kind& kind = map_.kinds[i];
      const Size once = Size(CountOf(kind.is.layers)) * kind.is.heads *
                        BytesOfHead(kind, from_.settings) *
                        kind.Kept(*settings_.tokens);
      fits = fits && once.Fits();
      totals[i].once = once.value();
      add(totals[all].once, once.value());
    }
    if (!fits) return Limit(code::kOverflow, "bytes exceed 64 bits");
    map_.totals = totals[all];
    totals.pop_back();
    map_.by_kind = std::move(totals);
    return true;
  }

  const Side& from_;
  const Side& to_;
  const MapSettings& settings_;
  Findings& findings_;
  Map map_;
  // The pieces of each pair, by the devices of the destination and the source.
  std::map<std::pair<int64_t, int64_t>, std::vector<Piece>> pairs_;
  std::map<std::pair<std::pair<int64_t, int64_t>, bool>, RunTable> tables_;
  int64_t pieces_ = 0;
};

std::vector<Kind>::const_iterator FindKind(const std::vector<Kind>& in,
                                           const Kind& kind) {
  return std::find_if(in.begin(), in.end(), [&](const Kind& one) {
    return one.is.kind == kind.is.kind && one.draft == kind.draft &&
           (one.is.window > 0) == (kind.is.window > 0);
  });
}

std::string Layers(const std::vector<LayerRange>& ranges) {
  return ranges.size() == 1 ? LayersText(ranges.front())
                            : Counted(CountOf(ranges), "layer");
}

}  // namespace

std::vector<std::string> KindsRefused(const std::vector<Kind>& from,
                                      const std::vector<Kind>& to) {
  std::vector<std::string> out;
  const auto only = [&](const std::vector<Kind>& a, const std::vector<Kind>& b,
                        const std::string& has, const std::string& lacks) {
    for (const Kind& kind : a) {
      if (FindKind(b, kind) != b.end()) continue;
      out.push_back(has + " has " + Layers(kind.is.layers) + " of the kind `" +
                    kind.Name() + "`, and " + lacks + " has none");
    }
  };
  only(from, to, "the source", "the destination");
  only(to, from, "the destination", "the source");
  for (const Kind& kind : from) {
    const auto other = FindKind(to, kind);
    if (other == to.end()) continue;
    const auto differs = [&](std::string_view what, int64_t a, int64_t b) {
      if (a == b) return;
      out.push_back("the kind `" + kind.Name() + "` has " + std::string(what) +
                    " " + CountText(a) + " in the source and " + CountText(b) +
                    " in the destination");
    };
    differs("heads", kind.is.heads, other->is.heads);
    differs("a head of", kind.is.head_dim, other->is.head_dim);
    differs("a value of", kind.is.value_dim, other->is.value_dim);
    differs("a window of", kind.is.window, other->is.window);
    if (kind.is.layers != other->is.layers) {
      out.push_back("the kind `" + kind.Name() + "` has " +
                    Layers(kind.is.layers) + " in the source and " +
                    Layers(other->is.layers) +
                    " in the destination, which are not the same layers");
    }
  }
  return out;
}

std::optional<std::vector<Kind>> InOrderOf(const std::vector<Kind>& from,
                                           const std::vector<Kind>& to) {
  std::vector<Kind> out;
  for (const Kind& kind : from) {
    const auto at = FindKind(to, kind);
    if (at == to.end()) return std::nullopt;
    out.push_back(*at);
  }
  return out;
}

std::optional<Map> MakeMap(const std::vector<Kind>& kinds, const Side& from,
                           const Side& to, const MapSettings& settings,
                           Findings& findings) {
  return Maker(kinds, from, to, settings, findings).Make();
}

namespace {

// Proves a map of a cache. What a device of the destination needs of one kind
// of layers is a box of layers, heads and tokens, and so is each piece that is
// sent to it. The pieces cover the box exactly if
//
//   each piece is inside of the box,
//   no two pieces have an element in common, and
//   the numbers of elements of the pieces add up to that of the box.
//
// That holds for boxes of any size. In small maps, each element is counted as
// well, which does not rely on the argument.

constexpr int64_t kMostCounted = int64_t{1} << 22;

bool Inside(const LayerRange& inner, const LayerRange& outer) {
  return outer.first <= inner.first && inner.end <= outer.end;
}

bool Overlap(const LayerRange& a, const LayerRange& b) {
  return std::max(a.first, b.first) < std::min(a.end, b.end);
}

class Prover {
 public:
  Prover(const Side& from, const Side& to, int64_t tokens, Map& map)
      : from_(from), to_(to), tokens_(tokens), map_(map) {}

  std::string Prove() {
    std::map<int64_t, const Holder*> senders;
    for (const Holder& holder : from_.holders) {
      senders[holder.device] = &holder;
    }
    // The pieces of each device of the destination, by kind.
    std::map<std::pair<int64_t, size_t>, std::vector<const Piece*>> received;
    for (const Pair& pair : map_.pairs) {
      for (const Piece& piece : pair.pieces) {
        const auto sender = senders.find(pair.from);
        if (sender == senders.end() || !Has(*sender->second, piece)) {
          return "device " + CountText(pair.from) +
                 " of the source does not have what it sends to device " +
                 CountText(pair.to);
        }
        received[{pair.to, piece.kind}].push_back(&piece);
      }
    }
    Size proved = 0;
    for (const Holder& holder : to_.holders) {
      for (size_t kind = 0; kind < map_.kinds.size(); ++kind) {
        if (map_.kinds[kind].is.heads == 0) continue;
        const auto at = received.find({holder.device, kind});
        const std::vector<const Piece*> none;
        const auto& pieces = at == received.end() ? none : at->second;
        const std::string wrong = Covers(holder, kind, pieces, proved);
        if (!wrong.empty()) {
          return "device " + CountText(holder.device) + " of the destination " +
                 wrong + " (kind `" + map_.kinds[kind].Name() + "`)";
        }
        if (at != received.end()) received.erase(at);
      }
    }
    if (!received.empty()) return "a device receives what it does not need";
    map_.proved = proved.value();
    map_.enumerated = counted_all_;
    return {};
  }

 private:
  LayerRange Kept(const Kind& kind) const {
    if (kind.is.kind == KvKindName::kState) return {0, 1};
    return {tokens_ - kind.Kept(tokens_), tokens_};
  }

  // Returns the number of tokens of a range that a part of each side has.
  // `from_part` is -1 if any part of the source may have them.
  int64_t Tokens(const LayerRange& range, int64_t from_part, int64_t to_part) {
    if (from_.token_parts == 1 && to_.token_parts == 1) return range.count();
    const auto key = std::pair(range.first, range.end);
    auto at = shared_.find(key);
    if (at == shared_.end()) {
      at = shared_.emplace(key, Table()).first;
      for (int64_t token = range.first; token < range.end; ++token) {
        const int64_t from = from_.Locate(token, tokens_).part;
        const int64_t to = to_.Locate(token, tokens_).part;
        ++at->second[{from, to}];
        ++at->second[{-1, to}];
      }
    }
    const auto found = at->second.find({from_part, to_part});
    return found == at->second.end() ? 0 : found->second;
  }

  // Returns whether a device of the source has the elements of a piece, and has
  // its heads under the piece's local numbers.
  bool Has(const Holder& holder, const Piece& piece) const {
    if (piece.kind >= map_.kinds.size()) return false;
    const LayerRange heads =
        from_.HeadsOf(map_.kinds[piece.kind], piece.kind, holder);
    const auto& layers = from_.layers_of_rank[AsIndex(holder.stage_rank)];
    return Inside(piece.heads, heads) &&
           piece.from_head == piece.heads.first - heads.first &&
           piece.from_part == holder.token_part &&
           Common(layers, piece.layers) == piece.layers;
  }

  static bool Disjoint(const Piece& a, const Piece& b) {
    return a.from_part != b.from_part || !Overlap(a.heads, b.heads) ||
           !Overlap(a.range, b.range) || Common(a.layers, b.layers).empty();
  }

  // Returns whether no two pieces have an element in common. Sorted by the part
  // and the first token, a piece is compared with those only that begin before
  // it ends.
  static bool AllDisjoint(std::vector<const Piece*> pieces) {
    const auto begin = [](const Piece* piece) {
      return std::pair(piece->from_part, piece->range.first);
    };
    std::sort(
        pieces.begin(), pieces.end(),
        [&](const Piece* a, const Piece* b) { return begin(a) < begin(b); });
    for (size_t i = 0; i < pieces.size(); ++i) {
      for (size_t j = i + 1; j < pieces.size() &&
                             begin(pieces[j]) < std::pair(pieces[i]->from_part,
                                                          pieces[i]->range.end);
           ++j) {
        if (!Disjoint(*pieces[i], *pieces[j])) return false;
      }
    }
    return true;
  }

  // Checks that the pieces cover the box of one device and one kind exactly,
  // and adds its elements to `proved`. Returns what is wrong.
  std::string Covers(const Holder& holder, size_t index,
                     const std::vector<const Piece*>& pieces, Size& proved) {
    const Kind& kind = map_.kinds[index];
    const std::vector<LayerRange> layers =
        Common(to_.layers_of_rank[AsIndex(holder.stage_rank)], kind.is.layers);
    const LayerRange heads = to_.HeadsOf(kind, index, holder);
    const LayerRange kept = Kept(kind);
    const Size needed = Size(CountOf(layers)) * heads.count() *
                        Tokens(kept, -1, holder.token_part);
    Size sum = 0;
    for (const Piece* one : pieces) {
      const Piece& piece = *one;
      if (!Inside(piece.heads, heads) || !Inside(piece.range, kept) ||
          piece.to_head != piece.heads.first - heads.first ||
          piece.to_part != holder.token_part ||
          Common(layers, piece.layers) != piece.layers) {
        return "receives elements that it does not need, or heads under "
               "wrong numbers";
      }
      const int64_t tokens =
          Tokens(piece.range, piece.from_part, piece.to_part);
      if (piece.tokens && *piece.tokens != tokens) {
        return "receives another number of tokens than the map states";
      }
      sum += Size(CountOf(piece.layers)) * piece.heads.count() * tokens;
    }
    if (!AllDisjoint(pieces)) return "receives elements twice";
    if (!needed.Fits() || sum.value() != needed.value()) {
      return "receives " + CountText(sum.value()) + " of its " +
             CountText(needed.value()) + " elements";
    }
    proved += needed;
    const Size counted = Size(CountOf(layers)) * heads.count() * kept.count();
    if (counted.value() > kMostCounted || proved.value() > kMostCounted) {
      counted_all_ = false;
      return {};
    }
    return Count(holder, layers, heads, kept, pieces);
  }

  // Counts how often each element is sent. A device has the same tokens of each
  // of its layers and heads, so that these are looked up once: the work is the
  // number of elements, and not that of pieces times tokens.
  std::string Count(const Holder& holder, const std::vector<LayerRange>& layers,
                    const LayerRange& heads, const LayerRange& kept,
                    const std::vector<const Piece*>& pieces) {
    const auto& own = Listed(kept)[AsIndex(holder.token_part)];
    for (const LayerRange& range : layers) {
      std::vector<int> times(AsIndex(range.count() * heads.count()) * own.count,
                             0);
      for (const Piece* piece : pieces) {
        const auto sent = own.from.find(piece->from_part);
        if (sent == own.from.end()) continue;
        for (const LayerRange& both : Common({range}, piece->layers)) {
          for (int64_t layer = both.first; layer < both.end; ++layer) {
            for (int64_t h = piece->heads.first; h < piece->heads.end; ++h) {
              const size_t row = AsIndex((layer - range.first) * heads.count() +
                                         h - heads.first);
              for (const auto& [token, place] : sent->second) {
                if (token < piece->range.first || token >= piece->range.end) {
                  continue;
                }
                ++times[row * own.count + place];
              }
            }
          }
        }
      }
      if (std::any_of(times.begin(), times.end(),
                      [](int count) { return count != 1; })) {
        return "does not receive each element once";
      }
    }
    return {};
  }

  // The tokens of one part of the destination: their number, and by the part of
  // the source that has them the tokens, each with its place among those of the
  // destination's part.
  struct Own {
    size_t count = 0;
    std::map<int64_t, std::vector<std::pair<int64_t, size_t>>> from;
  };

  // Returns the tokens of a range, indexed by the part of the destination.
  const std::vector<Own>& Listed(const LayerRange& kept) {
    const auto [at, fresh] =
        listed_.try_emplace(std::pair(kept.first, kept.end));
    if (!fresh) return at->second;
    at->second.resize(AsIndex(to_.token_parts));
    for (int64_t token = kept.first; token < kept.end; ++token) {
      Own& own = at->second[AsIndex(to_.Locate(token, tokens_).part)];
      own.from[from_.Locate(token, tokens_).part].emplace_back(token,
                                                               own.count++);
    }
    return at->second;
  }

  using Table = std::map<std::pair<int64_t, int64_t>, int64_t>;
  const Side& from_;
  const Side& to_;
  const int64_t tokens_;
  Map& map_;
  bool counted_all_ = true;
  // For each range, the number of tokens of each pair of parts.
  std::map<std::pair<int64_t, int64_t>, Table> shared_;
  std::map<std::pair<int64_t, int64_t>, std::vector<Own>> listed_;
};

}  // namespace

std::string Prove(const Side& from, const Side& to, int64_t tokens, Map& map) {
  return Prover(from, to, tokens, map).Prove();
}

}  // namespace shardc::kv
