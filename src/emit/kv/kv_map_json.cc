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
#include <string_view>

#include "emit/kv/kv_map.h"
#include "emit/not_known.h"
#include "source/json_writer.h"
#include "source/size.h"

namespace shardc {
namespace {

std::string_view OrderName(kv::Order order) {
  return order == kv::Order::kHnd ? "HND" : "NHD";
}

void WriteRange(JsonWriter& json, const LayerRange& range) {
  json.BeginArray();
  json.Integer(range.first);
  json.Integer(range.end);
  json.EndArray();
}

void WriteRanges(JsonWriter& json, std::string_view key,
                 const std::vector<LayerRange>& ranges) {
  json.Key(key);
  json.BeginArray();
  for (const LayerRange& range : ranges) WriteRange(json, range);
  json.EndArray();
}

void WriteSide(JsonWriter& json, std::string_view key, const KvMapSide& side) {
  const kv::SideSettings& settings = side.settings;
  json.Key(key);
  json.BeginObject();
  json.Member("plan", side.plan);
  json.Member("mode", ModeName(settings.mode));
  json.Member("mesh", side.mesh);
  json.Member("kv_dtype", DtypeName(settings.dtype));
  json.Member("state_dtype", DtypeName(settings.state_dtype));
  json.Member("conv_dtype", DtypeName(settings.conv_dtype));
  json.Member("page", settings.page);
  json.TextOrNull("order", settings.order ? OrderName(*settings.order) : "");
  json.Member("joint", settings.joint);
  json.Member("draft", settings.draft);
  json.Member("dp_rank", settings.dp_rank);
  json.Member("interleave", settings.interleave);
  if (side.side) {
    json.Member("dp_ranks", side.side->dp_ranks);
    json.Member("token_parts", side.side->token_parts);
    json.Key("devices");
    json.Array(side.side->holders, &kv::Holder::device);
  }
  json.EndObject();
}

void WriteTotals(JsonWriter& json, const kv::Totals& totals) {
  json.Member("once", totals.once);
  json.Member("sent", totals.sent);
  json.Member("pairs", totals.pairs);
  json.Member("largest_source", totals.largest_source);
  json.Member("largest_destination", totals.largest_destination);
  json.Member("descriptors", totals.descriptors);
  json.Member("least_descriptors", totals.least_descriptors);
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
  json.Member("kind", KvName(kind.is.kind));
  json.Member("draft", kind.draft);
  WriteRanges(json, "layers", kind.is.layers);
  json.Member("heads", kind.is.heads);
  json.Member("head_dim", kind.is.head_dim);
  json.Member("value_dim", kind.is.value_dim);
  json.Member("window", kind.is.window);
  json.Member("tensors", kind.Tensors());
  json.Key("head_bytes");
  json.BeginArray();
  json.Integer(kv::BytesOfHead(kind, report.from.settings));
  json.Integer(kv::BytesOfHead(kind, report.to.settings));
  json.EndArray();
  WritePageBytes(json, report, index);
  if (report.from.side && report.to.side) {
    json.Key("head_parts");
    json.BeginArray();
    json.Integer(report.from.side->head_parts[index]);
    json.Integer(report.to.side->head_parts[index]);
    json.EndArray();
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
  WriteRanges(json, "layers", piece.layers);
  json.Key("heads");
  WriteRange(json, piece.heads);
  json.Member("from_head", piece.from_head);
  json.Member("to_head", piece.to_head);
  json.Key("range");
  if (report.settings.tokens) {
    WriteRange(json, piece.range);
  } else {
    json.Null();
  }
  json.Member("from_part", piece.from_part);
  json.Member("to_part", piece.to_part);
  json.Member("tokens", piece.tokens);
  json.Member("bytes_per_token", piece.bytes_per_token);
  json.Member("bytes", piece.bytes);
  json.Member("descriptors", piece.descriptors);
  json.Member("least_descriptors", piece.least_descriptors
                                       ? piece.least_descriptors
                                       : piece.descriptors);
  json.EndObject();
}

}  // namespace

void WriteKvMapJson(const KvMapReport& report, Sink& out) {
  const kv::Map& map = report.map;
  const bool mapped = report.IsMapped();
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.kv-map/v1");
  WriteSide(json, "from", report.from);
  WriteSide(json, "to", report.to);
  json.Member("tokens", report.settings.tokens);
  json.Member("replicas", report.settings.replicas == kv::Replicas::kShareTokens
                              ? "share_tokens"
                              : "by_destination");
  json.Member("convert", report.settings.convert);
  json.Key("refused");
  json.BeginArray(JsonLayout::kLines);
  for (const std::string& why : map.refused) json.String(why);
  json.EndArray();
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
    json.Member("from", pair.from);
    json.Member("to", pair.to);
    json.Key("pieces");
    json.BeginArray();
    for (const kv::Piece& piece : pair.pieces) {
      WritePiece(json, report, piece);
    }
    json.EndArray();
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
  if (mapped) {
    json.BeginObject();
    json.Member("elements", map.proved);
    json.Member("enumerated", map.enumerated);
    json.EndObject();
  } else {
    json.Null();
  }
  WriteNotKnown(json, map.not_known);
  json.EndObject();
  out.Put('\n');
}

}  // namespace shardc
