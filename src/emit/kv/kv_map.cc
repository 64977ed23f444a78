// Writes the map as JSON. Ranges are [first, end] without the last number. For
// example, the heads 2 and 3 of all 80 layers, which are the first two heads of
// the source's device and the only ones of the destination's:
//
//   {"from": 1, "to": 1, "pieces": [{"kind": 0, "layers": [[0, 80]],
//    "heads": [2, 4], "from_head": 0, "to_head": 0, "range": [0, 8192], ..}]}
//
// `kind` is an index into `kinds`. What is not known is null, and listed in
// `not_known`. A refused map has reasons in `refused`, and neither pairs nor
// totals.
#include "emit/kv/kv_map.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

#include "emit/emit.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

std::string_view OrderName(kv::Order order) {
  return order == kv::Order::kHnd ? "HND" : "NHD";
}

void WriteRange(JsonWriter& json, const LayerRange& range) {
  json.Array(std::array{range.first, range.end});
}

void WriteTotals(JsonWriter& json, const kv::Totals& totals) {
  json.Members("once", totals.once, "sent", totals.sent, "pairs", totals.pairs,
               "largest_source", totals.largest_source, "largest_destination",
               totals.largest_destination, "descriptors", totals.descriptors,
               "least_descriptors", totals.least_descriptors);
}

// Writes the bytes of a page on both sides: what a device has of one layer.
void WritePageBytes(JsonWriter& json, const KvMapReport& report, size_t index) {
  const kv::Kind& kind = report.map.kinds[index];
  json.Key("page_bytes");
  json.BeginArray();
  for (const KvMapSide* side : {&report.from, &report.to}) {
    const auto& page = side->settings.page;
    if (!page || !side->side || !kind.IsPaged()) {
      json.Null();
      continue;
    }
    const Size bytes = Size(kv::BytesOfHead(kind, side->settings)) *
                       (kind.is.heads / side->side->head_parts[index]) * *page;
    json.Value(bytes.Checked());
  }
  json.EndArray();
}

void WriteKind(JsonWriter& json, const KvMapReport& report, size_t index) {
  const kv::Kind& kind = report.map.kinds[index];
  json.BeginObject();
  json.Members("kind", KvName(kind.is.kind), "draft", kind.draft);
  WriteKvRanges(json, "layers", kind.is.layers);
  json.Members("heads", kind.is.heads, "head_dim", kind.is.head_dim,
               "value_dim", kind.is.value_dim, "window", kind.is.window,
               "tensors", kind.Tensors(), "head_bytes",
               std::array{kv::BytesOfHead(kind, report.from.settings),
                          kv::BytesOfHead(kind, report.to.settings)});
  WritePageBytes(json, report, index);
  if (report.from.side && report.to.side) {
    json.Member("head_parts", std::array{report.from.side->head_parts[index],
                                         report.to.side->head_parts[index]});
  }
  if (report.map.totals && index < report.map.by_kind.size()) {
    WriteTotals(json, report.map.by_kind[index]);
  }
  json.EndObject();
}

void WritePiece(JsonWriter& json, const KvMapReport& report,
                const kv::Piece& piece) {
  json.BeginObject();
  json.Member("kind", static_cast<int64_t>(piece.kind));
  WriteKvRanges(json, "layers", piece.layers);
  json.Members(
      "heads", WrittenBy(WriteRange, piece.heads), "from_head", piece.from_head,
      "to_head", piece.to_head, "range",
      report.settings.tokens ? std::optional(WrittenBy(WriteRange, piece.range))
                             : std::nullopt,
      "from_part", piece.from_part, "to_part", piece.to_part, "tokens",
      piece.tokens, "bytes_per_token", piece.bytes_per_token, "bytes",
      piece.bytes, "descriptors", piece.descriptors, "least_descriptors",
      piece.least_descriptors ? piece.least_descriptors : piece.descriptors);
  json.EndObject();
}

}  // namespace

void WriteKvRanges(JsonWriter& json, std::string_view key,
                   const std::vector<LayerRange>& ranges) {
  json.Array(key, ranges,
             [&](const LayerRange& range) { WriteRange(json, range); });
}

void WriteKvSide(JsonWriter& json, std::string_view key,
                 const KvMapSide& side) {
  const kv::SideSettings& settings = side.settings;
  json.Key(key);
  json.BeginObject();
  json.Members("plan", side.plan, "mode", ModeName(settings.mode), "mesh",
               side.mesh, "kv_dtype", DtypeName(settings.dtype), "state_dtype",
               DtypeName(settings.state_dtype), "conv_dtype",
               DtypeName(settings.conv_dtype), "page", settings.page, "order",
               TextOrNull(settings.order ? OrderName(*settings.order) : ""),
               "joint", settings.joint, "draft", settings.draft, "dp_rank",
               settings.dp_rank, "interleave", settings.interleave);
  if (side.side) {
    json.Members("dp_ranks", side.side->dp_ranks, "token_parts",
                 side.side->token_parts);
    json.Key("devices");
    json.Array(side.side->holders, &kv::Holder::device);
  }
  json.EndObject();
}

void WriteKvMapJson(const KvMapReport& report, Sink& out) {
  const kv::Map& map = report.map;
  const bool mapped = report.IsMapped();
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.kv-map/v1");
  WriteKvSide(json, "from", report.from);
  WriteKvSide(json, "to", report.to);
  json.Members("tokens", report.settings.tokens, "replicas",
               report.settings.replicas == kv::Replicas::kShareTokens
                   ? "share_tokens"
                   : "by_destination",
               "convert", report.settings.convert);
  json.Lines("refused", map.refused);
  json.Key("kinds");
  json.BeginArray(JsonLayout::kLines);
  for (size_t i = 0; mapped && i < map.kinds.size(); ++i) {
    WriteKind(json, report, i);
  }
  json.EndArray();
  json.Key("pairs");
  json.BeginArray(JsonLayout::kLines);
  for (const kv::Pair& pair : map.pairs) {
    if (!mapped) break;
    json.BeginObject();
    json.Members("from", pair.from, "to", pair.to);
    json.Array("pieces", pair.pieces, [&](const kv::Piece& piece) {
      WritePiece(json, report, piece);
    });
    json.EndObject();
  }
  json.EndArray();
  json.Key("totals");
  if (mapped && map.totals) {
    json.BeginObject();
    WriteTotals(json, *map.totals);
    json.EndObject();
  } else {
    json.Null();
  }
  json.Member("idle_sources", mapped ? std::optional(map.idle) : std::nullopt);
  json.Key("proof");
  if (mapped && map.complete) {
    json.Object("elements", map.proved, "enumerated", map.enumerated);
  } else {
    json.Null();
  }
  WriteNotKnown(json, map.not_known);
  json.EndObject();
  out.Put('\n');
}

// Writes the map as text. Pairs whose pieces differ only in the devices and the
// heads have a line each, so that a reader finds the local numbers of heads.

namespace {

constexpr size_t kMostLines = 64;
constexpr size_t kMostRanges = 4;

std::string RangeText(const LayerRange& range) {
  return range.count() == 1 ? std::to_string(range.first)
                            : std::to_string(range.first) + "-" +
                                  std::to_string(range.end - 1);
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
  Columns table;
  table.Row({"kind", "layers", "heads", "size", "head of a token", "request",
             "sent", "pairs", "largest source", "largest destination"});
  for (size_t i = 0; i < report.map.kinds.size(); ++i) {
    const kv::Kind& kind = report.map.kinds[i];
    std::string size = CountText(kind.is.head_dim);
    if (kind.is.value_dim > 0) size += "+" + CountText(kind.is.value_dim);
    if (kind.is.window > 0) size += ", last " + CountText(kind.is.window);
    std::vector<std::string> row = {kind.Name(), KvLayersText(kind.is.layers)};
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
  Columns table;
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
                 kind.Name(), KvLayersText(piece.layers), HeadsText(piece),
                 tokens,
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

std::string KvLayersText(const std::vector<LayerRange>& ranges) {
  if (ranges.size() > kMostRanges) {
    return Counted(kv::CountOf(ranges), "layer") + " of " +
           RangeText({ranges.front().first, ranges.back().end});
  }
  return Join(ranges, ",", RangeText);
}

std::string KvSideText(const KvMapSide& side) {
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

std::string KvMapText(const KvMapReport& report) {
  const kv::Map& map = report.map;
  std::string out = "from  " + KvSideText(report.from) + "\nto    " +
                    KvSideText(report.to) + "\n\n";
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
  // It is a proof only of all that layers keep.
  out += map.complete ? "proved   " : "checked  ";
  out += "each of " + Counted(map.proved, "element") + " of the destination" +
         (map.complete ? "" : " whose size is known") +
         (report.settings.tokens ? "" : ", of one token,") +
         " is sent exactly once" + (map.enumerated ? ", by counting" : "") +
         "\n";
  return out + NotKnownLines(map.not_known);
}

namespace {

// The verdict on a handover. The sizes of the run and the layers that were not
// run are part of both forms. For example, the last lines of the text:
//
//   prefill  is that of one cache to 1e-12
//   copied   1,280 rows of a token and head, in 16 pairs of devices
//   decode   is that of one cache to 1e-12
//   equal

using verify::Handover;
using verify::HandoverKind;

std::string ShortNumber(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0e", value);
  return text.data();
}

// Errors that are allowed are those of roundings, which differ from machine to
// machine. Only JSON has them.
std::string ErrorText(const std::optional<double>& error, double allowed) {
  if (!error) return "reads what nothing has written";
  return *error <= allowed
             ? "is that of one cache to " + ShortNumber(allowed)
             : "is not that of one cache: its error is " + ShortNumber(*error) +
                   ", and " + ShortNumber(allowed) + " is allowed";
}

std::string_view StatusOf(const std::optional<Handover>& run) {
  if (!run) return "refused";
  if (run->Differs()) return "differs";
  return run->NothingRan() ? "not_run" : "equal";
}

// Returns why a kind of layers was not mapped. That the bytes of a request are
// not known does not matter here.
std::vector<NotKnown> NotMapped(const kv::Map& map) {
  return map.complete ? std::vector<NotKnown>() : map.not_known;
}

std::string KindsText(const Handover& run) {
  Columns table;
  table.Row({"kind", "layers", "heads", "query heads", "numbers of a row"});
  for (const HandoverKind& one : run.kinds) {
    std::string row = Join(one.widths, "+",
                           [](int64_t width) { return std::to_string(width); });
    if (one.kind.is.window > 0) {
      row += ", last " + CountText(one.kind.is.window);
    }
    table.Row({one.kind.Name(), KvLayersText(one.kind.is.layers),
               CountText(one.kind.is.heads), CountText(one.queries),
               one.not_run.empty() ? row : "not run: " + one.not_run});
  }
  return table.Text();
}

std::string SizesText(const Handover& run) {
  std::string out =
      "run with a request of " + Counted(run.tokens, "token") + ", pages of " +
      CountText(run.from.page.value_or(verify::kUsualPage)) + " and " +
      CountText(run.to.page.value_or(verify::kUsualPage)) + " tokens, and " +
      Counted(verify::kDecodedTokens, "decoded token");
  const auto interleave = [](const kv::SideSettings& side) {
    return side.interleave.value_or(0) == 0 ? std::string("block")
                                            : CountText(*side.interleave);
  };
  if (run.from.interleave || run.to.interleave) {
    out += ", interleaved by " + interleave(run.from) + " and " +
           interleave(run.to);
  }
  return out + "\n\n";
}

}  // namespace

std::string HandoverText(const KvMapReport& report,
                         const std::optional<Handover>& run) {
  std::string out = "from  " + KvSideText(report.from) + "\nto    " +
                    KvSideText(report.to) + "\n\n";
  for (const std::string& why : report.map.refused) {
    out += "refused: " + Printable(why) + "\n";
  }
  if (!run) return out + NotKnownLines(NotMapped(report.map));
  out += SizesText(*run) + KindsText(*run) + "\n";
  const std::string_view status = StatusOf(run);
  if (status == "not_run") {
    return out + "nothing was run\n" + NotKnownLines(NotMapped(report.map));
  }
  out += "prefill  " + ErrorText(run->prefill_error, run->allowed) +
         "\ncopied   " + Counted(run->rows, "row") +
         " of a token and head, in " + Counted(run->pairs, "pair") +
         " of devices\ndecode   " + ErrorText(run->decode_error, run->allowed);
  if (run->layer) out += ", from layer " + CountText(*run->layer) + " on";
  out += "\n";
  for (const std::string& fault : run->faults.first) {
    out += "fault    " + Printable(fault) + "\n";
  }
  const int64_t more = run->faults.count - std::ssize(run->faults.first);
  if (more > 0) out += "and " + Counted(more, "more fault") + "\n";
  out += status;
  if (status == "equal" && !run->Complete()) {
    out += ", but for the layers that were not run";
  }
  return out + "\n" + NotKnownLines(NotMapped(report.map));
}

void WriteHandoverJson(const KvMapReport& report,
                       const std::optional<Handover>& run, Sink& out) {
  WriteDocument(out, "shardc.kv-proof/v1", [&](JsonWriter& json) {
    WriteKvSide(json, "from", report.from);
    WriteKvSide(json, "to", report.to);
    json.Members("status", StatusOf(run), "complete",
                 run && run->Complete() && report.map.complete);
    json.Lines("refused", report.map.refused);
    json.Key("run");
    if (run) {
      json.BeginObject(JsonLayout::kLines);
      json.Members(
          "tokens", run->tokens, "decoded", verify::kDecodedTokens, "page",
          std::array{run->from.page.value_or(verify::kUsualPage),
                     run->to.page.value_or(verify::kUsualPage)},
          "interleave", std::array{run->from.interleave, run->to.interleave});
      json.Rows("kinds", run->kinds, [&](const HandoverKind& one) {
        json.Members("kind", KvName(one.kind.is.kind), "draft", one.kind.draft);
        WriteKvRanges(json, "layers", one.kind.is.layers);
        json.Members("heads", one.kind.is.heads, "query_heads", one.queries,
                     "widths", one.widths, "window", one.kind.is.window,
                     "not_run", TextOrNull(one.not_run));
      });
      json.Members("pairs", run->pairs, "rows", run->rows, "prefill_error",
                   run->prefill_error, "decode_error", run->decode_error,
                   "allowed", run->allowed, "layer", run->layer, "fault_count",
                   run->faults.count);
      json.Lines("faults", run->faults.first);
      json.EndObject();
    } else {
      json.Null();
    }
    WriteNotKnown(json, NotMapped(report.map));
  });
}

}  // namespace shardc
