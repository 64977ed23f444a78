// Exports a plan as a drawing of the parameter tree with the axes that shard
// each leaf. Parameters whose names differ only in numbers share a leaf if they
// have the same type and specs. A leaf shows the specs of train. It also shows
// the specs of a mode in which they differ. If only the devices at one
// coordinate of an axis hold the leaf, it shows this axis. For example:
//
//   fsdp=2 tp=4
//   └── model
//       └── layers
//           └── *
//               └── up  [4096, 11008]  fsdp, tp  x32
#include <map>

#include "emit/exports/exporter.h"
#include "model/name.h"
#include "source/wording.h"

namespace shardc::exports {
namespace {

struct NamedNode;

struct Node {
  std::vector<NamedNode> children;  // in plan order
  std::map<std::string, size_t> by_name;
  std::vector<const Fold*> leaves;  // parameter groups at this node

  Node& Child(const std::string& name);
};

struct NamedNode {
  std::string name;
  Node node;
};

Node& Node::Child(const std::string& name) {
  const auto [at, inserted] = by_name.try_emplace(name, children.size());
  if (inserted) children.push_back({name, Node()});
  return children[at->second].node;
}

std::string LeafText(const ReadPlan& plan, const Fold& fold) {
  const ReadParam& param = *fold.first;
  std::string out =
      (param.type.shape ? "  " + ShapeText(*param.type.shape) : "") + "  " +
      Printable(ShortSpec(param.spec));
  for (const Mode mode : plan.modes) {
    if (param.SpecOf(mode) == param.spec) continue;
    out += "  " + std::string(ModeName(mode)) + " " +
           Printable(ShortSpec(param.SpecOf(mode)));
  }
  out += InPartsText(param.parts);
  if (param.placement) out += "  by " + Printable(param.placement->axis);
  return out + (fold.count > 1 ? "  x" + CountText(fold.count) : "");
}

void WriteNode(const ReadPlan& plan, const Node& node,
               const std::string& indent, Sink& out) {
  for (size_t i = 0; i < node.children.size(); ++i) {
    const auto& [name, child] = node.children[i];
    const bool last = i + 1 == node.children.size();
    const std::string head = indent + (last ? "└── " : "├── ");
    if (child.leaves.empty()) out.Append(head + Printable(name) + "\n");
    for (const Fold* fold : child.leaves) {
      out.Append(head + Printable(name) + LeafText(plan, *fold) + "\n");
    }
    WriteNode(plan, child, indent + (last ? "    " : "│   "), out);
  }
}

void WriteTree(const Request& request, Sink& out, Findings&) {
  const char separator = SeparatorOf(request.plan);
  const std::vector<Fold> folds = Folded(request.plan, separator);
  Node root;
  for (const Fold& fold : folds) {
    Node* node = &root;
    for (const std::string_view part : SplitName(fold.name, separator)) {
      node = &node->Child(std::string(part));
    }
    node->leaves.push_back(&fold);
  }
  out.Append(Printable(MeshText(request.plan.mesh)) + "\n");
  WriteNode(request.plan, root, "", out);
}

}  // namespace

constexpr Exporter kTree{"tree",
                         "the parameter tree with its specs",
                         "text",
                         "",
                         WriteTree,
                         /*of_stage=*/false,
                         /*lists_ranks=*/false,
                         /*for_people=*/true};

}  // namespace shardc::exports
