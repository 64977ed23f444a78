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
#include <algorithm>
#include <map>
#include <utility>

#include "kv/map.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::kv {
namespace {

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
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = *pieces[i];
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
      for (size_t j = 0; j < i; ++j) {
        if (!Disjoint(piece, *pieces[j])) return "receives elements twice";
      }
    }
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

  // Counts how often each element is sent.
  std::string Count(const Holder& holder, const std::vector<LayerRange>& layers,
                    const LayerRange& heads, const LayerRange& kept,
                    const std::vector<const Piece*>& pieces) const {
    for (const LayerRange& range : layers) {
      std::vector<int> times(
          AsIndex(range.count() * heads.count() * kept.count()), 0);
      for (const Piece* piece : pieces) {
        for (const LayerRange& both : Common({range}, piece->layers)) {
          for (int64_t layer = both.first; layer < both.end; ++layer) {
            for (int64_t h = piece->heads.first; h < piece->heads.end; ++h) {
              const int64_t row =
                  (layer - range.first) * heads.count() + h - heads.first;
              for (int64_t t = piece->range.first; t < piece->range.end; ++t) {
                if (from_.Locate(t, tokens_).part != piece->from_part) continue;
                ++times[AsIndex(row * kept.count() + t - kept.first)];
              }
            }
          }
        }
      }
      for (int64_t i = 0; i < std::ssize(times); ++i) {
        const int64_t token = kept.first + i % kept.count();
        const bool own = to_.Locate(token, tokens_).part == holder.token_part;
        if (own && times[AsIndex(i)] != 1) {
          return "does not receive each element once";
        }
      }
    }
    return {};
  }

  using Table = std::map<std::pair<int64_t, int64_t>, int64_t>;
  const Side& from_;
  const Side& to_;
  const int64_t tokens_;
  Map& map_;
  bool counted_all_ = true;
  // For each range, the number of tokens of each pair of parts.
  std::map<std::pair<int64_t, int64_t>, Table> shared_;
};

}  // namespace

std::string Prove(const Side& from, const Side& to, int64_t tokens, Map& map) {
  return Prover(from, to, tokens, map).Prove();
}

}  // namespace shardc::kv
