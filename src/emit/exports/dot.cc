// Exports a plan as a graph for Graphviz. The mesh's axes are on one side and
// the parameters are on the other. An edge joins an axis and a parameter if the
// axis shards a dimension of the parameter. The edge's label is the index of
// the dimension. If the spec of a mode differs from that of train, the label
// begins with the mode (`decode 1`). If only the devices at one coordinate of
// an axis hold the parameter, an edge to this axis has the label `place`.
// Parameters whose names differ only in numbers share a node if they have the
// same type and specs.
#include "emit/exports/exporter.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

void WriteParam(const ReadPlan& plan, const Fold& fold, size_t number,
                Sink& out) {
  const ReadParam& param = *fold.first;
  const std::string id = "p" + std::to_string(number);
  out.Append(
      "  " + id + " [label=" +
      Quoted(fold.name + (fold.count > 1 ? " x" + CountText(fold.count) : "") +
             (param.type.shape ? " " + ShapeText(*param.type.shape) : "")) +
      "];\n");
  const auto edge = [&](const std::string& axis, std::string_view label) {
    out.Append("  " + Quoted("axis " + axis) + " -> " + id +
               " [label=" + Quoted(label) + "];\n");
  };
  const auto edges = [&](const Spec& spec, const std::string& mode) {
    for (size_t d = 0; d < spec.size(); ++d) {
      for (const std::string& axis : spec[d]) {
        const PartsOfDim& parts = PartsAt(param.parts, d);
        std::string label = mode + std::to_string(d);
        if (!parts.sizes.empty()) {
          label += " of parts " + PartsText(parts);
        } else if (parts.several()) {
          label += " of " + std::to_string(parts.count) + " parts";
        }
        edge(axis, label);
      }
    }
  };
  edges(param.spec, "");
  for (const Mode mode : plan.modes) {
    const Spec& spec = param.SpecOf(mode);
    if (spec != param.spec) edges(spec, std::string(ModeName(mode)) + " ");
  }
  if (param.placement) edge(param.placement->axis, "place");
}

void WriteDot(const Request& request, Sink& out, Findings&) {
  const ReadPlan& plan = request.plan;
  out.Append("digraph plan {\n  rankdir=LR;\n  node [shape=box];\n");
  for (const MeshAxis& axis : plan.mesh.axes) {
    out.Append("  " + Quoted("axis " + axis.name) + " [shape=ellipse, label=" +
               Quoted(axis.name + "=" + std::to_string(axis.size)) + "];\n");
  }
  size_t number = 0;
  for (const Fold& fold : Folded(plan, SeparatorOf(plan))) {
    WriteParam(plan, fold, number++, out);
  }
  out.Append("}\n");
}

}  // namespace

constexpr Exporter kDot{"dot",
                        "a graph of axes and parameters for Graphviz",
                        "text",
                        "",
                        WriteDot,
                        /*of_stage=*/false,
                        /*lists_ranks=*/false,
                        /*for_people=*/true};

}  // namespace shardc::exports
