// Exports a plan as a table for pull requests. Parameters whose names differ
// only in numbers share a row if they have the same type and specs. The table
// is collapsed below its summary.
#include <algorithm>

#include "emit/exports/exporter.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

std::string SpecCell(const ReadPlan& plan, const ReadParam& param) {
  std::string out = CodeCell(ShortSpec(param.spec));
  for (const Mode mode : plan.modes) {
    if (param.SpecOf(mode) == param.spec) continue;
    out += "<br>" + std::string(ModeName(mode)) + " " +
           CodeCell(ShortSpec(param.SpecOf(mode)));
  }
  out += InPartsText(param.parts);
  if (param.placement) out += "<br>by " + CodeCell(param.placement->axis);
  if (plan.stages) out += "<br>by " + CodeCell(plan.stages->axis);
  return out;
}

// Returns the bytes of all parameters on one device in train mode. In a plan
// with pipeline stages, the device is one of the fullest rank. Returns nullopt
// if the bytes are unknown. Also returns nullopt if only the devices at one
// coordinate of an axis hold a parameter, because devices then hold different
// bytes.
std::optional<int64_t> TotalPerDevice(const ReadPlan& plan) {
  if (plan.stages) {
    BytesByRank bytes(*plan.stages);
    for (const ReadParam& param : plan.params) {
      const auto held = ShardBytes(plan.mesh, param.spec, param.type);
      bytes.Add(param.stages, param.placement ? std::nullopt : held, 1);
    }
    return MostOf(bytes.Fullest());
  }
  std::optional<int64_t> sum = 0;
  for (const ReadParam& param : plan.params) {
    const auto bytes = ShardBytes(plan.mesh, param.spec, param.type);
    sum = sum && bytes && !param.placement ? CheckedAdd(*sum, *bytes)
                                           : std::nullopt;
  }
  return sum;
}

// Returns the bytes of one parameter on a device that holds it. If the
// parameter has the layers of several stages, the device is one of the rank
// with the most layers.
std::optional<int64_t> EachPerDevice(const ReadPlan& plan,
                                     const ReadParam& param) {
  const auto bytes = ShardBytes(plan.mesh, param.spec, param.type);
  if (!plan.stages || !param.stages.dim) return bytes;
  BytesByRank ranks(*plan.stages);
  ranks.Add(param.stages, bytes, 1);
  return MostOf(ranks.Fullest());
}

void WriteMarkdown(const Request& request, Sink& out, Findings&) {
  const ReadPlan& plan = request.plan;
  const auto total = TotalPerDevice(plan);
  out.Append("<details>\n<summary>Sharding of " +
             Counted(static_cast<int64_t>(plan.params.size()), "parameter") +
             " over " + Printable(MeshText(plan.mesh)) +
             (total ? ": " + BytesText(*total) + " per device" : "") +
             "</summary>\n\n| parameters | | shape | sharded over | per device "
             "|\n|---|--:|---|---|--:|\n");
  for (const Fold& fold : Folded(plan, SeparatorOf(plan))) {
    const ReadParam& param = *fold.first;
    const auto bytes = EachPerDevice(plan, param);
    out.Append("| " + CodeCell(fold.name) + " | " +
               (fold.count > 1 ? CountText(fold.count) : "") + " | " +
               (param.type.shape ? ShapeText(*param.type.shape) : "unknown") +
               (param.type.dtype
                    ? " " + std::string(DtypeName(*param.type.dtype))
                    : "") +
               " | " + SpecCell(plan, param) + " | " +
               (bytes ? BytesText(*bytes) : "") + " |\n");
  }
  out.Append("\n</details>\n");
}

}  // namespace

constexpr Exporter kMarkdown{
    "markdown",
    "a collapsed table for pull requests, one row per group of equal layers",
    "text",
    "",
    WriteMarkdown,
    /*of_stage=*/false,
    /*lists_ranks=*/true,
    /*for_people=*/true};

}  // namespace shardc::exports
