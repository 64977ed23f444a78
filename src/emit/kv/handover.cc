// The verdict on a handover. The sizes of the run and the layers that were not
// run are part of both forms. For example, the last lines of the text:
//
//   prefill  is that of one cache to 1e-12
//   copied   1,280 rows of a token and head, in 16 pairs of devices
//   decode   is that of one cache to 1e-12
//   equal
#include "emit/kv/handover.h"

#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

#include "emit/columns.h"
#include "emit/emit.h"
#include "source/join.h"
#include "source/json_writer.h"
#include "source/wording.h"

namespace shardc {
namespace {

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
