// Writes the map as text. Pairs whose pieces differ only in the devices and the
// heads have a line each, so that a reader finds the local numbers of heads.
#include <algorithm>
#include <array>
#include <vector>

#include "emit/kv/kv_map.h"
#include "emit/not_known.h"
#include "source/wording.h"

namespace shardc {
namespace {

constexpr size_t kMostLines = 64;
constexpr size_t kMostRanges = 4;

std::string RangeText(const LayerRange& range) {
  return range.count() == 1 ? std::to_string(range.first)
                            : std::to_string(range.first) + "-" +
                                  std::to_string(range.end - 1);
}

std::string LayersOf(const std::vector<LayerRange>& ranges) {
  if (ranges.size() > kMostRanges) {
    return Counted(kv::CountOf(ranges), "layer") + " of " +
           RangeText({ranges.front().first, ranges.back().end});
  }
  std::string out;
  for (const LayerRange& range : ranges) {
    out += (out.empty() ? "" : ",") + RangeText(range);
  }
  return out;
}

// A table whose columns are as wide as their widest cell.
class Table {
 public:
  void Row(std::vector<std::string> cells) {
    rows_.push_back(std::move(cells));
  }
  std::string Text() const {
    std::vector<size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], row[i].size());
      }
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        line += (i > 0 ? "  " : "") + row[i];
        if (i + 1 < row.size()) line.append(widths[i] - row[i].size(), ' ');
      }
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string SideText(const KvMapSide& side) {
  const kv::SideSettings& settings = side.settings;
  std::string out = Printable(side.plan) + ", " +
                    std::string(ModeName(settings.mode)) + ", " +
                    (side.mesh.empty() ? "one device" : Printable(side.mesh)) +
                    ", " + std::string(DtypeName(settings.dtype));
  if (settings.page) out += ", pages of " + CountText(*settings.page);
  if (settings.order) {
    out += *settings.order == kv::Order::kHnd ? " HND" : " NHD";
  }
  if (settings.joint) out += ", keys and values joint";
  if (side.side && side.side->dp_ranks > 1) {
    out += ", data parallel rank " + CountText(settings.dp_rank) + " of " +
           CountText(side.side->dp_ranks);
  }
  if (side.side && side.side->token_parts > 1) {
    out += ", tokens over " + CountText(side.side->token_parts) + " parts";
  }
  return out;
}

std::string CountOr(const std::optional<int64_t>& count) {
  return count ? CountText(*count) : "?";
}

// Returns for example "163,840 descriptors (81,920 suffice)".
std::string DescriptorsText(const kv::Totals& totals) {
  if (!totals.descriptors) return "descriptors not known";
  std::string out = Counted(*totals.descriptors, "descriptor");
  if (totals.least_descriptors &&
      *totals.least_descriptors < *totals.descriptors) {
    out += " (" + CountText(*totals.least_descriptors) + " suffice)";
  }
  return out;
}

std::string KindsText(const KvMapReport& report) {
  Table table;
  table.Row({"kind", "layers", "heads", "size", "head of a token", "request",
             "sent", "pairs", "largest source", "largest destination"});
  for (size_t i = 0; i < report.map.kinds.size(); ++i) {
    const kv::Kind& kind = report.map.kinds[i];
    std::string size = CountText(kind.is.head_dim);
    if (kind.is.value_dim > 0) size += "+" + CountText(kind.is.value_dim);
    if (kind.is.window > 0) size += ", last " + CountText(kind.is.window);
    std::vector<std::string> row = {kind.Name(), LayersOf(kind.is.layers)};
    if (kind.is.heads == 0) {
      row.insert(row.end(), {"?", "?", "?", "?", "?", "?", "?", "?"});
      table.Row(std::move(row));
      continue;
    }
    row.insert(row.end(),
               {CountText(kind.is.heads), size,
                BytesText(kv::BytesOfHead(kind, report.from.settings))});
    if (report.map.totals) {
      const kv::Totals& totals = report.map.by_kind[i];
      row.insert(row.end(),
                 {BytesText(totals.once), BytesText(totals.sent),
                  CountText(totals.pairs), BytesText(totals.largest_source),
                  BytesText(totals.largest_destination)});
    } else {
      row.insert(row.end(), {"?", "?", "?", "?", "?"});
    }
    table.Row(std::move(row));
  }
  return table.Text();
}

std::string HeadsText(const kv::Piece& piece) {
  const auto local = [&](int64_t first) {
    return RangeText({first, first + piece.heads.count()});
  };
  return RangeText(piece.heads) + " (" + local(piece.from_head) + " -> " +
         local(piece.to_head) + ")";
}

std::string PairsText(const KvMapReport& report) {
  Table table;
  table.Row({"devices", "kind", "layers", "heads (local)", "tokens", "bytes",
             "descriptors"});
  size_t lines = 0, left = 0;
  const bool sharded =
      report.from.side->token_parts > 1 || report.to.side->token_parts > 1;
  for (const kv::Pair& pair : report.map.pairs) {
    for (const kv::Piece& piece : pair.pieces) {
      if (++lines > kMostLines) {
        ++left;
        continue;
      }
      const kv::Kind& kind = report.map.kinds[piece.kind];
      std::string tokens = "?";
      if (kind.is.kind == KvKindName::kState) {
        tokens = "-";
      } else if (piece.tokens) {
        tokens = RangeText(piece.range);
        if (sharded) {
          tokens = CountText(*piece.tokens) + " of " + tokens;
        }
      }
      table.Row({CountText(pair.from) + " -> " + CountText(pair.to),
                 kind.Name(), LayersOf(piece.layers), HeadsText(piece), tokens,
                 piece.bytes ? BytesText(*piece.bytes)
                             : BytesText(piece.bytes_per_token) + " a token",
                 CountOr(piece.descriptors)});
    }
  }
  std::string out = table.Text();
  if (left > 0) {
    out += "and " + Counted(static_cast<int64_t>(left), "more line") +
           " (--format json has all)\n";
  }
  return out;
}

}  // namespace

std::string KvMapText(const KvMapReport& report) {
  const kv::Map& map = report.map;
  std::string out = "from  " + SideText(report.from) + "\nto    " +
                    SideText(report.to) + "\n\n";
  if (!report.IsMapped()) {
    for (const std::string& why : map.refused) {
      out += "refused: " + Printable(why) + "\n";
    }
    return out + NotKnownLines(map.not_known);
  }
  out += KindsText(report) + "\n" + PairsText(report) + "\n";
  if (map.totals) {
    const kv::Totals& all = *map.totals;
    out += "request  " + BytesText(all.once) + " (" + CountText(all.once) +
           " B) for " + Counted(*report.settings.tokens, "token") +
           "\nsent     " + BytesText(all.sent) + " (" + CountText(all.sent) +
           " B) in " + Counted(all.pairs, "pair") + ", " +
           DescriptorsText(all) + "\nlargest  source " +
           BytesText(all.largest_source) + ", destination " +
           BytesText(all.largest_destination) + "\n";
  }
  if (map.idle > 0) {
    out += Counted(map.idle, "device") + " of the source " +
           (map.idle == 1 ? "sends" : "send") + " nothing";
    if (report.settings.replicas == kv::Replicas::kByDestination) {
      out += " (--share-replicas divides the tokens among replicas)";
    }
    out += "\n";
  }
  if (report.settings.convert) {
    out += "bytes are those of the source's dtypes\n";
  }
  out += "proved   each of " + Counted(map.proved, "element") +
         " of the destination" +
         (report.settings.tokens ? "" : ", of one token,") +
         " is sent exactly once" + (map.enumerated ? ", by counting" : "") +
         "\n";
  return out + NotKnownLines(map.not_known);
}

}  // namespace shardc
