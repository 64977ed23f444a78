// Compares the collectives of a compiled program with the collectives of a
// plan's step program. On each side, the runs of collectives are counted by
// kind, axes and bytes. Runs that only one side has are reported. For example,
// the program gathers the weight `up` a second time:
//
//   plan     all_gather over fsdp, 8 KiB each: up 4 times, down 4 times
//   program  all_gather over fsdp, 8 KiB each: up 4 times (once in a loop over
//            4 layers), down 4 times, up 4 times again in the backward pass
//   ->       extra: up, 4 times, 32 KiB
//
// Then a reason is searched for each difference: for example a finding at the
// same source line, an argument whose sharding differs from the plan, or a
// collective over other axes that only the other side runs.
#include "audit/difference.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "audit/audit.h"
#include "comm/collective.h"
#include "source/json.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::audit {
namespace {

// An operand of at most this many bytes is treated as a single number, such as
// the loss, and is not compared.
constexpr int64_t kNumberBytes = 8;

using RouteKey = std::pair<Collective, std::string>;

// The runs of the collectives that move one tensor, either in the plan's step
// or in the program. Each run sends equally many bytes over the same axes.
struct Piece {
  Phase phase = Phase::kNone;
  // The number of runs that no run of the other side matches yet.
  int64_t count = 0;
  const PlannedSend* planned = nullptr;
  const Sending* sending = nullptr;
};

// All runs of one kind of collective over the same axes, in the plan's step and
// in the program. The maps are keyed by the bytes that one run sends.
struct Sides {
  std::map<int64_t, std::vector<Piece>> planned, compiled;
};

// Returns kBackward for recomputed operations, because they run in the backward
// pass. Returns every other phase unchanged.
Phase PassOf(Phase phase) {
  return phase == Phase::kRecomputed ? Phase::kBackward : phase;
}

std::string OverOf(const Sending& one) {
  return one.named ? AxesText(one.axes) : one.from->members->text;
}

// Matches runs of the plan's step with runs of the program, and subtracts the
// matched runs from both counts. With `same_phase`, only runs of the same pass
// (PassOf) match.
void MatchPieces(std::vector<Piece>& planned, std::vector<Piece>& compiled,
                 bool same_phase) {
  // The first piece of `compiled` that may have runs left for each pass, so
  // that the time is linear in the number of pieces.
  std::map<Phase, size_t> first;
  for (Piece& one : planned) {
    const Phase pass = same_phase ? PassOf(one.phase) : Phase::kNone;
    size_t& next = first[pass];
    for (; next < compiled.size(); ++next) {
      Piece& other = compiled[next];
      if (same_phase && pass != PassOf(other.phase)) continue;
      const int64_t both = std::min(one.count, other.count);
      one.count -= both;
      other.count -= both;
      if (other.count > 0) break;
    }
  }
}

class Comparison {
 public:
  Comparison(const PlannedStep& step, const Report& report,
             const Drifts& drifts)
      : step_(step), report_(report), drifts_(drifts) {}

  Difference Run(std::span<const Sending> program) {
    for (const PlannedSend& one : step_.sends) AddPlanned(one);
    for (const Sending& one : program) AddCompiled(one);
    for (auto& [key, sides] : routes_) Compare(key, sides);
    Explain();
    const auto most_first = [](const Unmatched& a, const Unmatched& b) {
      return a.bytes > b.bytes;
    };
    std::ranges::stable_sort(out_.missing, most_first);
    std::ranges::stable_sort(out_.extra, most_first);
    return std::move(out_);
  }

 private:
  void AddPlanned(const PlannedSend& one) {
    if (one.number) {
      out_.numbers += one.layers;
      return;
    }
    if (one.bytes == 0) return;
    routes_[{one.kind, AxesText(one.axes)}].planned[one.bytes].push_back(
        {one.phase, one.layers, &one, nullptr});
  }

  // Returns the bytes that one run would send if its floating-point elements
  // had the step's dtype. Integers keep their width.
  int64_t BytesOf(const Sending& one) const {
    return one.Sent(one.integral ? one.bits : 8 * step_.element_bytes);
  }

  void AddCompiled(const Sending& one) {
    const auto held = CheckedMul(one.elements, one.bits);
    if (held && *held <= 8 * kNumberBytes) {
      out_.numbers += one.times;
      return;
    }
    const int64_t bytes = BytesOf(one);
    if (bytes == 0 || one.times == 0) return;
    if (!one.integral && one.bits != 8 * step_.element_bytes) {
      out_.other_bits = std::max(out_.other_bits, one.bits);
    }
    routes_[{one.kind, OverOf(one)}].compiled[bytes].push_back(
        {one.from->phase, one.times, nullptr, &one});
  }

  void Compare(const RouteKey& key, Sides& sides) {
    RouteCompared route;
    std::tie(route.kind, route.over) = key;
    for (const auto& [bytes, pieces] : sides.planned) {
      for (const Piece& one : pieces) {
        route.planned_count += one.count;
        route.planned_bytes += bytes * one.count;
      }
    }
    for (const auto& [bytes, pieces] : sides.compiled) {
      for (const Piece& one : pieces) {
        route.count += one.count;
        route.bytes = Sum(route.bytes, bytes, one.count);
        route.rewrites |= one.sending->rewrites;
      }
    }
    // No difference is reported for a kind of collective over a set of axes if
    // the plan and the program send the same total bytes with it. The sizes of
    // the single runs may differ, because compilers combine collectives.
    route.same = route.bytes == route.planned_bytes;
    if (!route.same) {
      for (auto& [bytes, pieces] : sides.planned) {
        const auto other = sides.compiled.find(bytes);
        if (other == sides.compiled.end()) continue;
        MatchPieces(pieces, other->second, true);
        MatchPieces(pieces, other->second, false);
      }
      Collect(key, sides);
    }
    out_.routes.push_back(std::move(route));
  }

  static int64_t Sum(int64_t sum, int64_t bytes, int64_t count) {
    const auto more = CheckedMul(bytes, count);
    const auto all = more ? CheckedAdd(sum, *more) : std::nullopt;
    return all.value_or(INT64_MAX);
  }

  void Collect(const RouteKey& key, const Sides& sides) {
    using What = std::tuple<Phase, std::string, std::string_view, int64_t>;
    const auto add = [&](std::map<What, size_t>& known,
                         std::vector<Unmatched>& to, Unmatched one) {
      const auto [at, added] = known.try_emplace(
          {one.phase, one.what, one.from == nullptr ? "" : one.from->line.file,
           one.from == nullptr ? 0 : one.from->line.line},
          to.size());
      if (added) {
        to.push_back(std::move(one));
        return;
      }
      Unmatched& all = to[at->second];
      all.count += one.count;
      all.bytes = Sum(all.bytes, one.bytes, 1);
    };
    std::map<What, size_t> planned, compiled;
    for (const auto& [bytes, pieces] : sides.planned) {
      for (const Piece& one : pieces) {
        if (one.count == 0) continue;
        add(planned, out_.missing,
            {key.first,
             key.second,
             one.phase,
             one.count,
             Sum(0, bytes, one.count),
             one.planned->op + " of " + one.planned->part,
             nullptr,
             {}});
      }
    }
    for (const auto& [bytes, pieces] : sides.compiled) {
      for (const Piece& one : pieces) {
        if (one.count == 0) continue;
        const Traffic& from = *one.sending->from;
        add(compiled, out_.extra,
            {key.first,
             key.second,
             one.phase,
             one.count,
             Sum(0, bytes, one.count),
             MovedText(from.moved) + " " + from.moved.shape,
             &from,
             {}});
      }
    }
  }

  void Explain() {
    for (Unmatched& one : out_.extra) one.reason = ReasonOfExtra(one);
    for (Unmatched& one : out_.missing) one.reason = ReasonOfMissing(one);
  }

  const Unmatched* FindOther(const std::vector<Unmatched>& among,
                             const Unmatched& one, Collective kind,
                             bool same_axes) const {
    for (const Unmatched& other : among) {
      // A collective over other axes may move the same value as `one`. This is
      // assumed only if both run equally often. Gathers of different
      // activations may run equally often by chance, so gathers must also move
      // a weight.
      const Traffic* from = one.from == nullptr ? other.from : one.from;
      const bool same_value =
          same_axes || (other.count == one.count &&
                        (kind != Collective::kAllGather || from == nullptr ||
                         from->moved.what == What::kParameter));
      if (other.kind == kind && (other.over == one.over) == same_axes &&
          same_value && PassOf(other.phase) == PassOf(one.phase)) {
        return &other;
      }
    }
    return nullptr;
  }

  bool IsPlanned(Collective kind, const std::string& over) const {
    const auto found = routes_.find({kind, over});
    return found != routes_.end() && !found->second.planned.empty();
  }

  std::string ReasonOfExtra(const Unmatched& one) const {
    for (const Drift& drift : drifts_.all) {
      if (drift.argument != one.from->moved.name) continue;
      return "the program shards this argument as " +
             (drift.actual ? SpecText(*drift.actual) : drift.sharding) +
             ", the plan as " + SpecText(drift.planned);
    }
    for (const Flaw& flaw : report_.flaws) {
      if (flaw.line.file.empty() || flaw.line != one.from->line) continue;
      return std::string(flaw.code->name) + " at this line";
    }
    if (one.kind == Collective::kAllReduce &&
        FindOther(out_.missing, one, Collective::kReduceScatter, true)) {
      return "planned as a reduce_scatter: devices keep the complete sum";
    }
    if (one.kind == Collective::kAllGather &&
        one.from->moved.what == What::kParameter) {
      if (PassOf(one.phase) == Phase::kBackward && step_.keep_gathered) {
        return "gathered again for the backward pass, which the step keeps "
               "gathered (`--keep-gathered`)";
      }
      if (IsPlanned(one.kind, one.over)) {
        return "gathered more often than planned";
      }
    }
    const Unmatched* other = FindOther(out_.missing, one, one.kind, false);
    if (other != nullptr) return "planned over " + other->over;
    if (!IsPlanned(one.kind, one.over)) {
      return "the plan has no " + std::string(CollectiveName(one.kind)) +
             " over " + one.over;
    }
    return {};
  }

  std::string ReasonOfMissing(const Unmatched& one) const {
    if (one.kind == Collective::kReduceScatter &&
        FindOther(out_.extra, one, Collective::kAllReduce, true)) {
      return "the program all-reduces, and devices keep the complete sum";
    }
    if (one.kind == Collective::kAllGather && !step_.keep_gathered &&
        PassOf(one.phase) == Phase::kBackward) {
      return "the program keeps what the forward pass gathered (plan it with "
             "`--keep-gathered`)";
    }
    const Unmatched* other = FindOther(out_.extra, one, one.kind, false);
    if (other != nullptr) return "the program does it over " + other->over;
    if (!drifts_.all.empty()) {
      return "arguments are sharded in another way than planned";
    }
    return {};
  }

  const PlannedStep& step_;
  const Report& report_;
  const Drifts& drifts_;
  std::map<RouteKey, Sides> routes_;
  Difference out_;
};

}  // namespace

Difference DifferenceOf(const PlannedStep& step,
                        std::span<const Sending> program, const Report& report,
                        const Drifts& drifts) {
  return Comparison(step, report, drifts).Run(program);
}

// Reads the collectives of a step program from the report of `verify step`.
// These members of each op that is a collective are read:
//
//   {"part": "layer 0-31", "layers": 32, "phase": "backward", "op": "linear q",
//    "result": "[n,h]", "collective": "reduce_scatter", "axes": ["fsdp"],
//    "bytes_per_device": 131072}
//
// This op represents 32 reduce_scatters, one in each layer. The result `[]` is
// a scalar.

namespace {

constexpr std::string_view kHow =
    "write it with `shardc verify step --format json`";

class PlannedStepReader {
 public:
  explicit PlannedStepReader(Findings& findings) : findings_(findings) {}

  std::optional<PlannedStep> Read(const JsonDocument& document,
                                  std::string_view mode) {
    const JsonValue root = document.root();
    const auto steps =
        root.IsObject() ? root.Find("steps") : std::optional<JsonValue>();
    if (SchemaOf(root) != "shardc.step/v1" || !steps || !steps->IsArray()) {
      return saved_.Refuse(root,
                           "this is no report of a step (`shardc.step/v1`)");
    }
    for (const JsonValue step : steps->items()) {
      if (Text(step, "mode") == mode) return ReadStep(step);
      if (saved_.refused()) return std::nullopt;
    }
    findings_.Add(code::kMissing, root.place(),
                  "these steps lack the mode " + ShortQuote(mode),
                  "run `shardc verify step` with `--mode " + std::string(mode) +
                      "`, or give the audit another `--mode`");
    return std::nullopt;
  }

 private:
  std::optional<PlannedStep> ReadStep(const JsonValue& step) {
    if (Text(step, "status") == "unsupported") {
      return saved_.Refuse(step,
                           "this step is not supported, so it has no program");
    }
    PlannedStep out;
    out.mode = Text(step, "mode");
    out.batch = Number(step, "batch");
    out.length = Number(step, "length");
    out.element_bytes = Number(step, "element_bytes");
    out.keep_gathered = saved_.Truth(step, "keep_gathered").value_or(false);
    const auto mesh = step.Find("mesh");
    if (!mesh || !ReadMesh(*mesh, out.mesh)) {
      return saved_.Refuse(step, "the step's `mesh` is missing or wrong");
    }
    const auto ops = step.Find("ops");
    if (!ops || !ops->IsArray()) {
      return saved_.Refuse(step, "the step's list `ops` is missing");
    }
    for (const JsonValue op : ops->items()) {
      if (!op.IsObject()) return saved_.Refuse(op, "an op is an object");
      const auto kind = op.Find("collective");
      if (!kind || kind->IsNull()) continue;
      auto send = ReadSend(op, *kind, out.mesh);
      if (!send) return std::nullopt;
      out.sends.push_back(std::move(*send));
    }
    if (saved_.refused()) return std::nullopt;
    return out;
  }

  std::optional<PlannedSend> ReadSend(const JsonValue& op,
                                      const JsonValue& kind, const Mesh& mesh) {
    PlannedSend out;
    const std::string name = kind.IsString() ? std::string(kind.string()) : "";
    const auto collective = FindCollective(name);
    if (!collective) return saved_.Refuse(kind, "no collective has this name");
    out.kind = *collective;
    const auto axes = op.Find("axes");
    if (!axes || !axes->IsArray()) {
      return saved_.Refuse(op, "the list `axes` of this op is missing");
    }
    std::vector<std::string_view> names;
    for (const JsonValue axis : axes->items()) {
      if (!axis.IsString() || !mesh.Find(axis.string())) {
        return saved_.Refuse(axis, "this is no axis of the step's mesh");
      }
      names.push_back(axis.string());
    }
    for (const MeshAxis& axis : mesh.axes) {
      if (std::ranges::find(names, axis.name) != names.end()) {
        out.axes.push_back(axis.name);
      }
    }
    const std::string phase = Text(op, "phase");
    out.phase = phase == "forward"    ? Phase::kForward
                : phase == "backward" ? Phase::kBackward
                                      : Phase::kNone;
    out.part = Text(op, "part");
    out.op = Text(op, "op");
    out.number = Text(op, "result") == "[]";
    out.layers = Number(op, "layers");
    out.bytes = Number(op, "bytes_per_device");
    const auto all = CheckedMul(out.bytes, out.layers);
    total_ = all && total_ ? CheckedAdd(*total_, *all) : std::nullopt;
    if (!total_)
      return saved_.Refuse(op, "the bytes up to here do not fit in 64 bits");
    if (saved_.refused()) return std::nullopt;
    return out;
  }

  bool ReadMesh(const JsonValue& mesh, Mesh& out) {
    const auto axes =
        mesh.IsObject() ? mesh.Find("axes") : std::optional<JsonValue>();
    if (!axes || !axes->IsArray()) return false;
    for (const JsonValue axis : axes->items()) {
      MeshAxis one;
      one.name = Text(axis, "name");
      one.size = Number(axis, "size");
      const auto devices = CheckedMul(out.devices, one.size);
      if (saved_.refused() || one.size < 1 || !devices) return false;
      out.devices = *devices;
      out.axes.push_back(std::move(one));
    }
    return !saved_.refused();
  }

  int64_t Number(const JsonValue& object, std::string_view key) {
    return saved_.Number(object, key).value_or(0);
  }
  std::string Text(const JsonValue& object, std::string_view key) {
    return saved_.Text(object, key).value_or("");
  }

  Findings& findings_;
  SavedJson saved_{findings_, kHow};
  std::optional<int64_t> total_ = 0;
};

}  // namespace

std::optional<PlannedStep> ReadPlannedStep(const JsonDocument& document,
                                           std::string_view mode,
                                           Findings& findings) {
  return PlannedStepReader(findings).Read(document, mode);
}

namespace {

std::optional<JsonValue> Member(const JsonValue& object, std::string_view key) {
  return object.IsObject() ? object.Find(key) : std::optional<JsonValue>();
}

}  // namespace

std::nullopt_t SavedJson::Refuse(const JsonValue& at, std::string message) {
  if (!refused_) {
    findings_.Add(code::kSchema, at.place(), std::move(message),
                  std::string(how_));
  }
  refused_ = true;
  return std::nullopt;
}

std::optional<int64_t> SavedJson::Number(const JsonValue& object,
                                         std::string_view key) {
  const auto value = Member(object, key);
  if (value && value->kind() == JsonKind::kInteger && value->integer() >= 0) {
    return value->integer();
  }
  return Refuse(value.value_or(object),
                "`" + std::string(key) + "` is a whole number from 0 on");
}

std::optional<std::string> SavedJson::Text(const JsonValue& object,
                                           std::string_view key) {
  const auto value = Member(object, key);
  if (value && value->IsString()) return std::string(value->string());
  return Refuse(value.value_or(object), "`" + std::string(key) + "` is a text");
}

std::optional<bool> SavedJson::Truth(const JsonValue& object,
                                     std::string_view key) {
  const auto value = Member(object, key);
  if (value && value->kind() == JsonKind::kBool) return value->boolean();
  return Refuse(value.value_or(object),
                "`" + std::string(key) + "` is true or false");
}

namespace {

// A traced program has the paths of files as the tracer saw them, often from
// the working directory, and a compiled program the paths of another machine.
// Two paths are of one file if one of them ends with the other:
//
//   models/block.py:41  and  /home/me/run/models/block.py:41

bool EndsWithPath(std::string_view path, std::string_view end) {
  return path.ends_with(end) && (path.size() == end.size() ||
                                 path[path.size() - end.size() - 1] == '/');
}

class ByLines {
 public:
  explicit ByLines(const Report& report) : report_(report) {}

  std::vector<LineNeeds> Run(std::span<const cost::ProgramTransfer> needs) {
    for (const cost::ProgramTransfer& one : needs) {
      files_.insert(one.line.substr(0, one.line.rfind(':')));
    }
    for (const cost::ProgramTransfer& one : needs) {
      LineNeeds& row = RowOf(one.line, one.kind, Named(one.axes));
      row.needed = (Size(row.needed) + one.sent).value();
      if (row.ops.find(one.op) == std::string::npos) {
        row.ops += (row.ops.empty() ? "" : ", ") + one.op;
      }
    }
    for (const Traffic& one : report_.traffic) {
      const std::string axes =
          one.members->named ? Named(one.members->axes) : one.members->text;
      LineNeeds& row = RowOf(LineOf(one), one.kind, axes);
      row.sent = (Size(row.sent) + one.sent).value();
    }
    std::vector<LineNeeds> out;
    for (auto& [key, row] : rows_) {
      if (row.needed != 0 || row.sent != 0) out.push_back(std::move(row));
    }
    std::ranges::stable_sort(out, [](const LineNeeds& a, const LineNeeds& b) {
      return std::abs(a.sent - a.needed) > std::abs(b.sent - b.needed);
    });
    return out;
  }

 private:
  // Returns the axes in the mesh's order.
  std::string Named(const AxisGroup& axes) const {
    AxisGroup out = axes;
    std::ranges::sort(out, {}, [&](const std::string& axis) {
      return report_.mesh->Find(axis).value_or(0);
    });
    return AxesText(out);
  }

  LineNeeds& RowOf(const std::string& line, Collective kind,
                   const std::string& axes) {
    LineNeeds& row = rows_[{line, kind, axes}];
    row.line = line;
    row.kind = kind;
    row.axes = axes;
    return row;
  }

  std::string LineOf(const Traffic& traffic) const {
    std::vector<hlo::SourceLine> stack{traffic.line};
    if (report_.frames != nullptr) {
      for (const hlo::SourceLine& line :
           report_.frames->StackOf(traffic.metadata)) {
        stack.push_back(line);
      }
    }
    for (const hlo::SourceLine& line : stack) {
      for (const std::string& file : files_) {
        if (file.empty() || line.file.empty()) continue;
        if (EndsWithPath(line.file, file) || EndsWithPath(file, line.file)) {
          return file + ":" + std::to_string(line.line);
        }
      }
    }
    return traffic.line.file.empty() ? ""
                                     : std::string(traffic.line.file) + ":" +
                                           std::to_string(traffic.line.line);
  }

  const Report& report_;
  std::set<std::string> files_;
  std::map<std::tuple<std::string, Collective, std::string>, LineNeeds> rows_;
};

}  // namespace

std::vector<LineNeeds> CompareWithNeeds(
    const Report& report, std::span<const cost::ProgramTransfer> needs) {
  return ByLines(report).Run(needs);
}

}  // namespace shardc::audit
