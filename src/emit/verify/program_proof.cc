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
#include "source/join.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

using verify::ProgramProof;

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
                      " are not in the program; drawn numbers replace "
                      "them on all devices"
                : "nothing is known of `" + Printable(one.what) +
                      (one.region ? "`; a stand-in runs on each device's shards"
                                  : "`; its operands are gathered, and a "
                                    "stand-in runs in its place")) +
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
  WriteDocument(out, "shardc.program-proof/v1", [&](JsonWriter& json) {
    json.Members("function", texts.function, "mesh", texts.mesh, "status",
                 proof.failure ? "differs" : "equal", "complete",
                 proof.stand_ins.empty(), "values", proof.values,
                 "manual_regions", proof.manual, "notes", texts.notes);
    json.Key("failure");
    if (proof.failure) {
      json.Object("line", TextOrNull(proof.failure->line), "message",
                  proof.failure->message);
    } else {
      json.Null();
    }
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
