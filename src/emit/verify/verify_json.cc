// Writes the results of cases as JSON. Each case is one object, with its
// members in the order of the schema. If the output of a case was not compared
// with the reference, the errors of the case are null. A value that each device
// has is written in one of two forms. With `--metrics stacked` it is a list,
// and with `--metrics reduced` it is the minimum, mean and maximum of this
// list. For example:
//
//   sent by 4 devices  ->  stacked: [96, 96, 96, 0]
//                          reduced: {"min": 0, "mean": 72, "max": 96}
#include "emit/verify/verify_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "comm/collective.h"
#include "model/mesh_layout.h"
#include "model/operation_settings.h"
#include "source/json_writer.h"
#include "source/size.h"
#include "source/wording.h"
#include "verify/cases/case.h"

namespace shardc {
namespace {

using verify::Case;
using verify::CaseResult;
using verify::Sizes;

void WriteShapes(JsonWriter& json, const Case& test) {
  const Sizes& n = test.sizes;
  const auto shape = [&](std::string_view name, int64_t length, int64_t heads,
                         int64_t dim) {
    json.Member(name,
                verify::ShapeIn(test.layout, n.batch, length, heads, dim));
  };
  json.Key("shapes");
  json.BeginObject();
  shape("query", n.query_length, n.heads, n.head_dim);
  shape("key", n.key_length, n.key_heads, n.head_dim);
  shape("value", n.key_length, n.key_heads, n.ValueDim());
  json.EndObject();
}

void WriteCommunication(JsonWriter& json, std::string_view key,
                        const exec::SentBytes& sent) {
  json.Key(key);
  json.BeginObject();
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto kind = static_cast<Collective>(i);
    const int64_t bytes = sent.Most(kind);
    if (DefOf(kind).listed_if_sent && bytes == 0) continue;
    json.Member(CollectiveName(kind), bytes);
  }
  json.EndObject();
}

void WriteSteps(JsonWriter& json, const exec::Ledger& ledger) {
  json.Key("steps");
  json.BeginArray();
  for (const exec::LedgerEntry& entry : ledger.entries()) {
    int64_t most = 0;
    for (int64_t bytes : entry.sent) most = std::max(most, bytes);
    json.Object("collective", CollectiveName(entry.kind), "axes",
                JoinedGroup(entry.axes), "tensor", entry.what, "group_size",
                entry.group_size, "bytes", most);
  }
  json.EndArray();
}

// The minimum, mean and maximum of a value over devices. If the value of one
// device is NaN, all three are NaN.
struct Spread {
  double least = 0, mean = 0, greatest = 0;
};

Spread SpreadOf(const std::vector<double>& values) {
  Spread out;
  if (values.empty()) return out;
  out.least = out.greatest = values[0];
  for (double v : values) {
    // A NaN in `least` or `greatest` is never replaced, because every
    // comparison with NaN is false.
    if (v < out.least || std::isnan(v)) out.least = v;
    if (v > out.greatest || std::isnan(v)) out.greatest = v;
    out.mean += v;
  }
  out.mean /= static_cast<double>(values.size());
  return out;
}

void WriteMetric(JsonWriter& json, std::string_view name,
                 const std::vector<double>& values, Metrics metrics) {
  if (metrics == Metrics::kStacked) {
    json.Member(name, values);
    return;
  }
  const Spread spread = SpreadOf(values);
  json.Member(name, Record("min", spread.least, "mean", spread.mean, "max",
                           spread.greatest));
}

// Writes for each device its largest error, the bytes that it sends, and the
// number of collectives in which it sends. The error is null if the case failed
// before the outputs were compared.
void WriteDevices(JsonWriter& json, const Case& test, const CaseResult& result,
                  Metrics metrics) {
  const auto devices = AsIndex(test.mesh.devices);
  std::vector<double> bytes(devices, 0), steps(devices, 0);
  for (const exec::LedgerEntry& entry : result.ledger.entries()) {
    for (size_t d = 0; d < entry.sent.size() && d < devices; ++d) {
      bytes[d] += static_cast<double>(entry.sent[d]);
      steps[d] += entry.sent[d] > 0;
    }
  }
  json.Key("devices");
  json.BeginObject();
  if (result.device_error.empty()) {
    json.Member("error", nullptr);
  } else {
    WriteMetric(json, "error", result.device_error, metrics);
  }
  WriteMetric(json, "bytes", bytes, metrics);
  WriteMetric(json, "steps", steps, metrics);
  json.EndObject();
}

void WriteSizes(JsonWriter& json, std::string_view key, const Sizes& n) {
  json.Member(
      key, Record("batch", n.batch, "q_len", n.query_length, "kv_len",
                  n.key_length, "heads", n.heads, "kv_heads", n.key_heads,
                  "head_dim", n.head_dim, "value_dim", n.ValueDim(), "latent",
                  Given(n.latent_rank), "rope_dim", Given(n.latent_rope_dim)));
}

void WriteCache(JsonWriter& json, const verify::TraceShape& trace) {
  json.Member("cache", Record("prefill", trace.prefill, "steps", trace.steps,
                              "slots", trace.slots, "window", trace.window,
                              "pages", trace.pages));
}

void WriteErrors(JsonWriter& json, const CaseResult& result) {
  // `device_error` is empty if the case failed before its output was compared.
  if (result.device_error.empty()) {
    for (const auto* key : {"max_abs_error", "tolerance", "unsharded_error"}) {
      json.Member(key, nullptr);
    }
    return;
  }
  json.Members("max_abs_error", result.error.max_abs, "tolerance",
               std::min(result.tolerance, result.cap), "unsharded_error",
               result.unsharded.max_abs, "relative_l2",
               result.error.relative_l2, "worst",
               Record("batch", result.error.worst[0], "token",
                      result.error.worst[1], "head", result.error.worst[2]),
               "bit_identical", result.exact && !result.failed);
}

}  // namespace

void WriteVerifyCase(JsonWriter& json, const Case& test,
                     const CaseResult& result, Metrics metrics) {
  json.BeginObject();
  json.Members("operation", test.operation->name, "mode", ModeName(test.mode),
               "layout", LayoutName(test.layout), "dtype",
               DtypeName(test.dtype), "kv_dtype",
               DtypeName(test.kv_dtype ? *test.kv_dtype : test.dtype), "mesh",
               WrittenBy(WriteMesh, JoinedMesh(test.mesh), MeshDetail::kAll));
  if (test.given_mesh) {
    json.Member("given_mesh", WrittenBy(WriteMesh, JoinedMesh(*test.given_mesh),
                                        MeshDetail::kAll));
  }
  WriteShapes(json, test);
  json.Member("features", verify::FeatureNames(test));
  if (test.trace) WriteCache(json, *test.trace);
  json.Key("settings");
  json.BeginObject();
  WriteSettingsMembers(json, test, false);
  json.EndObject();
  json.Member("status", StatusName(result.status));
  WriteErrors(json, result);
  WriteCommunication(json, "communication", result.ledger.Sent());
  if (result.given_sent) {
    WriteCommunication(json, "communication_in_full", *result.given_sent);
  }
  WriteSteps(json, result.ledger);
  if (result.status != verify::Status::kUnsupported) {
    WriteDevices(json, test, result, metrics);
  }
  json.Member("reason", TextOrNull(result.reason));
  if (!result.reason.empty()) {
    json.Members("axis", TextOrNull(result.axis), "help", result.help);
  }
  if (result.failed) json.Member("check", CheckName(*result.failed));
  json.Member("remarks", result.remarks);
  json.EndObject();
}

namespace {

void WriteProjection(JsonWriter& json, const verify::Projection& one) {
  json.BeginObject();
  json.Members("parameter", one.parameter, "count", one.count, "role",
               TextOrNull(one.role), "place", TextOrNull(one.place), "status",
               StatusName(one.status));
  json.Array("modes", one.modes,
             [&](const Mode mode) { return ModeName(mode); });
  json.Members("reason", TextOrNull(one.reason), "help", TextOrNull(one.help));
  json.EndObject();
}

}  // namespace

void WriteVerifyJson(const verify::Report& report, Metrics metrics, Sink& out) {
  WriteDocument(out, "shardc.verify/v1", [&](JsonWriter& json) {
    json.Members("seed", report.seed, "reduced", report.reduced);
    json.Key("sizes");
    json.BeginObject();
    WriteSizes(json, "given", report.given);
    WriteSizes(json, "used", report.used);
    json.EndObject();
    json.Member("remarks", report.remarks);
    json.Key("projections");
    json.BeginArray(JsonLayout::kLines);
    for (const verify::Projection& one : report.projections) {
      WriteProjection(json, one);
    }
    if (report.projections.empty()) json.Break(2);
    json.EndArray();
    json.Key("cases");
    json.BeginArray(JsonLayout::kLines);
    for (size_t i = 0; i < report.cases.size(); ++i) {
      WriteVerifyCase(json, report.cases[i], report.results[i], metrics);
    }
    if (report.cases.empty()) json.Break(2);
    json.EndArray();
    json.Member("summary",
                Record("pass", report.Count(verify::Status::kPass), "fail",
                       report.Count(verify::Status::kFail), "unsupported",
                       report.Count(verify::Status::kUnsupported)));
  });
}

// Writes the settings of a case's attention operation as JSON. A setting that
// the case does not give is written with the default that the operation uses.
// The scale is therefore always a number. An axis that is not set is written as
// null. For example, the default scale is one over the square root of the head
// dimension:
//
//   head_dim 16, scale not given  ->  "softmax_scale": 0.25

namespace {

using verify::Case;
using verify::Features;

template <class T, size_t kCount>
void WriteName(JsonWriter& json,
               const std::array<std::string_view, kCount>& names, T value) {
  json.String(names[static_cast<size_t>(value)]);
}

void WriteValue(JsonWriter& json, const Case& test, Setting setting) {
  const exec::OperationSettings& s = test.settings;
  const Features& f = test.features;
  exec::AttentionOptions options;
  options.scale = f.scale;
  switch (setting) {
    case Setting::kRuntimeDtype:
      if (s.runtime_dtype) {
        json.String(DtypeName(*s.runtime_dtype));
      } else {
        json.Null();
      }
      break;
    case Setting::kSoftmaxDtype:
      json.String(DtypeName(s.softmax_dtype));
      break;
    case Setting::kSoftmaxScale:
      json.Value(options.ScaleFor(test.sizes.head_dim));
      break;
    case Setting::kSoftCap:
      json.Value(f.soft_cap);
      break;
    case Setting::kDropout:
      json.Value(f.dropout);
      break;
    case Setting::kBlocksizeQ:
      json.Value(s.blocksize_q);
      break;
    case Setting::kBlocksizeK:
      json.Value(s.blocksize_k);
      break;
    case Setting::kBlocksizeB:
      json.Value(s.blocksize_b);
      break;
    case Setting::kPageSize:
      json.Value(s.page_size);
      break;
    case Setting::kSequenceAxis:
      if (s.sequence_axis.empty()) {
        json.Null();
      } else {
        json.String(s.sequence_axis);
      }
      break;
    case Setting::kRingAxes:
      json.Array(s.ring_axes);
      break;
    case Setting::kScanRing:
      json.Value(s.scan_ring);
      break;
    case Setting::kOrder:
      WriteName(json, kSequenceOrderNames, s.order);
      break;
    case Setting::kMerge:
      WriteName(json, kDecodeMergeNames, s.merge);
      break;
    case Setting::kBlockMask:
      WriteName(json, kBlockMaskNames, s.block_mask);
      break;
    case Setting::kGlobalBlocks:
      json.Value(s.global_blocks);
      break;
    case Setting::kDotBits:
      json.Value(s.dot_bits);
      break;
  }
}

}  // namespace

void WriteSettingsMembers(JsonWriter& json, const Case& test, bool all) {
  for (size_t i = 0; i < kSettingNames.size(); ++i) {
    const auto setting = static_cast<Setting>(i);
    if (!all && !test.operation->Takes(setting)) continue;
    json.Member(kSettingNames[i], WrittenBy(WriteValue, test, setting));
  }
}

namespace {

// The verdict on a user's program. What the proof does not cover is part of
// both forms: the text's last line is never just "equal" if an op ran as a
// stand-in.
//
//   model.py:41  forward  dot  all_reduce tp  x 2  3 KiB
//   equal: 812 values, 2 results

using verify::ProgramProof;

std::string ShortNumber(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

std::string ShownLine(const std::string& line) {
  return line.empty() ? "an unknown line" : line;
}

std::string_view StatusOf(const ProgramProof& proof) {
  if (proof.unproved) return "not proved";
  return proof.failure ? "differs" : "equal";
}

// Returns "`fft` at model.py:4 and `random numbers` at model.py:5".
std::string StandInsText(const ProgramProof& proof) {
  std::string out;
  const size_t count = proof.stand_ins.size();
  for (size_t i = 0; i < count; ++i) {
    const verify::ProgramStandIn& one = proof.stand_ins[i];
    if (i > 0) out += i + 1 == count ? " and " : ", ";
    out += "`" + Printable(one.what) + "` at " + Printable(ShownLine(one.line));
  }
  return out;
}

// Returns a line with the sizes that differ from those of the trace, and one
// with the large sizes that an op keeps.
std::string SizesText(const ProgramProof& proof) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, int> reduced;
  std::string kept;
  for (const verify::ProofSize& one : proof.sizes) {
    if (one.run < one.traced) {
      ++reduced[{one.traced, one.run, one.again}];
    } else {
      kept += (kept.empty() ? "" : ", ") + std::to_string(one.traced) +
              " for `" + Printable(one.kept_by) + "` at " +
              Printable(ShownLine(one.line));
    }
  }
  std::string out;
  for (const auto& [sizes, count] : reduced) {
    const auto [traced, ran, again] = sizes;
    out += (out.empty() ? "" : ", ") + std::to_string(traced) + " as " +
           std::to_string(ran) +
           (again != 0 ? " and " + std::to_string(again) : "") +
           (count > 1 ? " (" + std::to_string(count) + " factors)" : "");
  }
  out = "reduced sizes: " + out + "; --full proves those of the trace\n";
  return kept.empty() ? out : out + "kept sizes: " + kept + "\n";
}

}  // namespace

std::string ProgramProofText(const ProofTexts& texts,
                             const ProgramProof& proof) {
  std::string out =
      Printable(texts.function) + " on " + texts.mesh + ", in float64\n";
  for (const std::string& note : texts.notes) out += "note: " + note + "\n";
  if (proof.reduced) out += SizesText(proof);
  if (proof.ops_run < proof.ops) {
    out += "folded: " + std::to_string(proof.ops_run) + " of " +
           std::to_string(proof.ops) +
           " ops run; each other one has the operation, line, sizes and "
           "sharding of one that does\n";
  }
  int64_t bytes = 0;
  for (const verify::ProgramRow& row : proof.rows) {
    bytes += row.bytes;
    out += Printable(ShownLine(row.line)) + "  " +
           std::string(PhaseName(row.phase)) + "  " + Printable(row.op) + "  " +
           std::string(CollectiveName(row.kind)) + " " + Join(row.axes, "+") +
           "  x " + std::to_string(row.count) + "  " + BytesText(row.bytes) +
           "\n";
  }
  out += "sent by the busiest device, by collective, at the traced sizes: " +
         BytesText(bytes) + "\n";
  for (const verify::ProgramGather& one : proof.gathers) {
    if (!one.needed) continue;
    out += "gathered at " + Printable(ShownLine(one.line)) + ": `" +
           Printable(one.op) + "` needs all of dimension " +
           std::to_string(one.dim) + " of operand " +
           std::to_string(one.operand) + ", which was sharded over " +
           Join(one.axes, "+") +
           (one.count > 1 ? " (" + std::to_string(one.count) + " times)" : "") +
           "\n";
  }
  for (const verify::ProgramStandIn& one : proof.stand_ins) {
    out += "not proved at " + Printable(ShownLine(one.line)) + ": " +
           (one.drawn
                ? Printable(one.what) +
                      (one.what.starts_with("constant")
                           ? " is not in the program; drawn "
                             "numbers replace it"
                           : " are not in the program; drawn "
                             "numbers replace them") +
                      " on all devices"
                : "nothing is known of `" + Printable(one.what) +
                      (one.region ? "`; a stand-in runs on each device's shards"
                                  : "`; its operands are gathered, and a "
                                    "stand-in runs in its place")) +
           (one.count > 1 ? " (" + Counted(one.count, "op") + ")" : "") + "\n";
  }
  if (proof.failure) {
    return out + std::string(StatusOf(proof)) + " at " +
           Printable(ShownLine(proof.failure->line)) + ": " +
           Printable(proof.failure->message) + "\n";
  }
  double worst = 0;
  for (const verify::ProgramResult& one : proof.results) {
    if (one.allowed > 0) worst = std::max(worst, one.difference / one.allowed);
  }
  const bool complete = proof.stand_ins.empty();
  return out + (complete ? "equal: " : "equal but for stand-ins: ") +
         Counted(proof.values, "value") + " and " +
         Counted(static_cast<int64_t>(proof.results.size()), "result") +
         " of the sharded run are those of the dense one; the largest error of "
         "a result is " +
         ShortNumber(worst) + " of what is allowed" +
         (complete ? "" : "; not proved: " + StandInsText(proof)) + "\n";
}

void WriteProgramProofJson(const ProofTexts& texts, const ProgramProof& proof,
                           Sink& out) {
  WriteDocument(out, "shardc.program-proof/v1", [&](JsonWriter& json) {
    json.Members("function", texts.function, "mesh", texts.mesh, "status",
                 StatusOf(proof), "complete", proof.stand_ins.empty(), "values",
                 proof.values, "manual_regions", proof.manual, "notes",
                 texts.notes);
    json.Key("failure");
    if (proof.failure) {
      json.Object("line", TextOrNull(proof.failure->line), "message",
                  proof.failure->message);
    } else {
      json.Null();
    }
    json.Member("reduced", proof.reduced);
    json.Rows("sizes", proof.sizes, [&](const verify::ProofSize& one) {
      json.Members("traced", one.traced, "run", one.run, "again",
                   one.again == 0 ? std::nullopt : std::optional(one.again),
                   "where", TextOrNull(one.where), "kept_by",
                   TextOrNull(one.kept_by), "line", TextOrNull(one.line));
    });
    json.Members("ops", proof.ops, "ops_run", proof.ops_run);
    json.Rows("not_proved", proof.stand_ins,
              [&](const verify::ProgramStandIn& one) {
                json.Members("line", TextOrNull(one.line), "what", one.what,
                             "drawn", one.drawn, "count", one.count);
              });
    json.Key("inputs");
    json.BeginArray(JsonLayout::kLines);
    for (size_t i = 0; i < proof.bounds.size(); ++i) {
      json.Object(
          "name", texts.inputs[i], "below",
          proof.bounds[i] > 0 ? std::optional(proof.bounds[i]) : std::nullopt);
    }
    json.EndArray();
    json.Rows("results", proof.results, [&](const verify::ProgramResult& one) {
      json.Members("shape", one.shape, "difference", one.difference, "allowed",
                   one.allowed, "largest", one.largest, "sum", one.sum,
                   "sum_of_squares", one.squares);
    });
    json.Rows("collectives", proof.rows, [&](const verify::ProgramRow& row) {
      json.Members("line", TextOrNull(row.line), "phase", PhaseName(row.phase),
                   "op", row.op, "collective", CollectiveName(row.kind), "axes",
                   row.axes, "count", row.count, "bytes_per_device", row.bytes);
    });
    json.Rows("gathered", proof.gathers, [&](const verify::ProgramGather& one) {
      json.Members("line", TextOrNull(one.line), "op", one.op, "operand",
                   static_cast<int64_t>(one.operand), "dim",
                   static_cast<int64_t>(one.dim), "axes", one.axes, "needed",
                   one.needed, "count", one.count);
    });
  });
}

}  // namespace shardc
