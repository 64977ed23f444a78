// The verdict on a user's program. What the proof does not cover is part of
// both forms: the text's last line is never just "equal" if an op ran as a
// stand-in.
//
//   model.py:41  forward  dot  all_reduce tp  x 2  3 KiB
//   equal: 812 values, 2 results
#include "emit/verify/program_proof.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "comm/collective.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using verify::ProgramProof;

std::string_view PassName(program::Phase phase) {
  switch (phase) {
    case program::Phase::kForward:
      return "forward";
    case program::Phase::kBackward:
      return "backward";
    case program::Phase::kOptimizer:
      return "optimizer";
  }
  return "";
}

std::string JoinedAxes(const AxisGroup& axes) {
  std::string out;
  for (const std::string& axis : axes) out += (out.empty() ? "" : "+") + axis;
  return out;
}

std::string ShortNumber(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

std::string ShownLine(const std::string& line) {
  return line.empty() ? "an unknown line" : line;
}

std::string_view VerdictOf(const ProgramProof& proof) {
  if (proof.failure) return "differs";
  return proof.stand_ins.empty() ? "equal" : "equal but for stand-ins";
}

}  // namespace

std::string ProgramProofText(const ProofTexts& texts,
                             const ProgramProof& proof) {
  std::string out =
      Printable(texts.function) + " on " + texts.mesh + ", in float64\n";
  for (const std::string& note : texts.notes) out += "note: " + note + "\n";
  int64_t bytes = 0;
  for (const verify::ProgramRow& row : proof.rows) {
    bytes += row.bytes;
    out += Printable(ShownLine(row.line)) + "  " +
           std::string(PassName(row.phase)) + "  " + Printable(row.op) + "  " +
           std::string(CollectiveName(row.kind)) + " " + JoinedAxes(row.axes) +
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
           JoinedAxes(one.axes) +
           (one.count > 1 ? " (" + std::to_string(one.count) + " times)" : "") +
           "\n";
  }
  for (const verify::ProgramStandIn& one : proof.stand_ins) {
    out += "not proved at " + Printable(ShownLine(one.line)) + ": " +
           (one.drawn ? Printable(one.what) +
                            " are not in the program; drawn numbers replace "
                            "them on all devices"
                      : "nothing is known of `" + Printable(one.what) +
                            "`; its operands are gathered, and a stand-in runs "
                            "in its place") +
           (one.count > 1 ? " (" + Counted(one.count, "op") + ")" : "") + "\n";
  }
  if (proof.failure) {
    return out + "differs at " + Printable(ShownLine(proof.failure->line)) +
           ": " + Printable(proof.failure->message) + "\n";
  }
  double worst = 0;
  for (const verify::ProgramResult& one : proof.results) {
    if (one.allowed > 0) worst = std::max(worst, one.difference / one.allowed);
  }
  return out + std::string(VerdictOf(proof)) + ": " +
         Counted(proof.values, "value") + " and " +
         Counted(static_cast<int64_t>(proof.results.size()), "result") +
         " of the sharded run are those of the dense one; the largest error of "
         "a result is " +
         ShortNumber(worst) + " of what is allowed\n";
}

void WriteProgramProofJson(const ProofTexts& texts, const ProgramProof& proof,
                           Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("schema", "shardc.program-proof/v1");
  json.Member("function", texts.function);
  json.Member("mesh", texts.mesh);
  json.Member("status", proof.failure ? "differs" : "equal");
  json.Member("complete", proof.stand_ins.empty());
  json.Member("values", proof.values);
  json.Member("manual_regions", proof.manual);
  json.Key("notes");
  json.Array(texts.notes);
  json.Key("failure");
  if (proof.failure) {
    json.BeginObject();
    json.TextOrNull("line", proof.failure->line);
    json.Member("message", proof.failure->message);
    json.EndObject();
  } else {
    json.Null();
  }
  json.Key("not_proved");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::ProgramStandIn& one : proof.stand_ins) {
    json.BeginObject();
    json.TextOrNull("line", one.line);
    json.Member("what", one.what);
    json.Member("drawn", one.drawn);
    json.Member("count", one.count);
    json.EndObject();
  }
  json.EndArray();
  json.Key("inputs");
  json.BeginArray(JsonLayout::kLines);
  for (size_t i = 0; i < proof.bounds.size(); ++i) {
    json.BeginObject();
    json.Member("name", texts.inputs[i]);
    json.Member("below", proof.bounds[i] > 0 ? std::optional(proof.bounds[i])
                                             : std::nullopt);
    json.EndObject();
  }
  json.EndArray();
  json.Key("results");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::ProgramResult& one : proof.results) {
    json.BeginObject();
    json.Key("shape");
    json.Array(one.shape);
    json.Member("difference", one.difference);
    json.Member("allowed", one.allowed);
    json.Member("largest", one.largest);
    json.Member("sum", one.sum);
    json.Member("sum_of_squares", one.squares);
    json.EndObject();
  }
  json.EndArray();
  json.Key("collectives");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::ProgramRow& row : proof.rows) {
    json.BeginObject();
    json.TextOrNull("line", row.line);
    json.Member("phase", PassName(row.phase));
    json.Member("op", row.op);
    json.Member("collective", CollectiveName(row.kind));
    json.Key("axes");
    json.Array(row.axes);
    json.Member("count", row.count);
    json.Member("bytes_per_device", row.bytes);
    json.EndObject();
  }
  json.EndArray();
  json.Key("gathered");
  json.BeginArray(JsonLayout::kLines);
  for (const verify::ProgramGather& one : proof.gathers) {
    json.BeginObject();
    json.TextOrNull("line", one.line);
    json.Member("op", one.op);
    json.Member("operand", static_cast<int64_t>(one.operand));
    json.Member("dim", static_cast<int64_t>(one.dim));
    json.Key("axes");
    json.Array(one.axes);
    json.Member("needed", one.needed);
    json.Member("count", one.count);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out.Append("\n");
}

}  // namespace shardc
