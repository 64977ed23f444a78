// Sources of the factors: comm/collective.h. With S the bytes of a weight as a
// device uses it, g its parts over data axes and t over tensor parallelism:
//
//   gathered twice, gradients scattered   3 S (g - 1) / g
//   gradients summed, where g is 1        2 S (n - 1) / n over n data shards
//   an output or down projection by row   2 T d (t - 1) / t forward, and as
//                                         much backward where heads or
//                                         columns leave
//   slices, gathered before use           3 S (t - 1) / t
//   experts over n                        4 T k d (n - 1) / n
#include "suggest/objective.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace shardc::suggest {
namespace {

constexpr double kStateBytes = 16;

// Of `whole` bytes, what leaves each of n devices that gather them.
double Gathered(double whole, double n) { return whole * (n - 1) / n; }

class Counter {
 public:
  Counter(const Tree& tree, const Readings& readings, const MeshAxes& mesh,
          const Assumed& assumed)
      : tree_(tree),
        readings_(readings.kinds),
        mesh_(mesh),
        assumed_(assumed) {}

  Costs Count(std::span<const Piece> pieces) {
    for (const Piece& piece : pieces) {
      const Reading& reading = readings_[piece.kind];
      if (IsAttention(reading.part) && InnerParts(piece) > 1) {
        split_families_.insert(reading.name.family);
      }
    }
    for (const Piece& piece : pieces) Add(piece);
    return out_;
  }

 private:
  int64_t InnerParts(const Piece& piece) const {
    const int inner = readings_[piece.kind].inner;
    return inner < 0 ? 1 : piece.dims[static_cast<size_t>(inner)].tensor;
  }

  void Add(const Piece& piece) {
    const Reading& reading = readings_[piece.kind];
    const Kind& kind = tree_.kinds[piece.kind];
    double data = 1, slices = 1, experts = static_cast<double>(piece.placed);
    for (size_t i = 0; i < piece.dims.size(); ++i) {
      const PieceDim& dim = piece.dims[i];
      data *= static_cast<double>(dim.data);
      experts *= static_cast<double>(dim.expert);
      if (static_cast<int>(i) == reading.experts) {
        experts *= static_cast<double>(dim.tensor);
      } else if (static_cast<int>(i) != reading.inner) {
        slices *= static_cast<double>(dim.tensor);
      }
    }
    const auto inner = static_cast<double>(InnerParts(piece));
    const double bytes =
        static_cast<double>(kind.bytes) * static_cast<double>(piece.count);
    const double parts = data * slices * experts * inner;
    const double elements =
        static_cast<double>(kind.elements) * static_cast<double>(piece.count);
    out_.memory += bytes / parts;
    out_.state += elements * kStateBytes / parts;
    const double used = bytes / (experts * inner);
    AddWeights(reading, piece, used, data, slices);
    out_.replicas +=
        2 * Gathered(used / (data * slices), static_cast<double>(mesh_.dp));
    AddActivations(reading, piece, inner, used);
    if (reading.IsMatrix() && reading.part != Part::kEmbedding) {
      double share = 1;
      if (const int64_t count = ExpertsOf(reading)) {
        share = std::min(1.0, static_cast<double>(assumed_.experts_per_token) /
                                  static_cast<double>(count));
        // Tokens come from every coordinate, and go to few experts.
        share *= ExpertShards(piece, reading);
      }
      out_.flops += 6 * share * elements / (experts * inner) *
                    static_cast<double>(assumed_.tokens);
    }
  }

  static int64_t ExpertsOf(const Reading& reading) {
    if (reading.experts >= 0) {
      return reading.dims[static_cast<size_t>(reading.experts)].size;
    }
    return reading.expert_count > 1 ? reading.expert_count : 0;
  }

  // Over how many shards of tokens experts are spread.
  double ExpertShards(const Piece& piece, const Reading& reading) const {
    double out = piece.placed_tensor ? 1 : static_cast<double>(piece.placed);
    if (reading.experts >= 0) {
      const PieceDim& dim = piece.dims[static_cast<size_t>(reading.experts)];
      out *= static_cast<double>(dim.expert);
    }
    return out;
  }

  void AddWeights(const Reading& reading, const Piece& piece, double used,
                  double data, double slices) {
    // The expert axis shares tokens too, but not the same expert's.
    double shards = static_cast<double>(mesh_.fsdp * mesh_.sp);
    if (ExpertShards(piece, reading) <= 1) {
      shards *= static_cast<double>(mesh_.ep);
    }
    const double stored = used / slices;
    if (data > 1) out_.data += 3 * Gathered(stored, data);
    const double copies = std::max(1.0, shards / data);
    out_.data += 2 * Gathered(stored / data, copies);
    out_.tensor += 3 * Gathered(used, slices);
  }

  // One layer's activations, all of them.
  double Activations(const Reading& reading) const {
    return static_cast<double>(assumed_.tokens * assumed_.activation_bytes) *
           static_cast<double>(reading.width_size);
  }

  void AddActivations(const Reading& reading, const Piece& piece, double inner,
                      double used) {
    const auto t = static_cast<double>(mesh_.tp);
    const bool by_tensor =
        inner > 1 || piece.placed_tensor ||
        (reading.experts >= 0 &&
         piece.dims[static_cast<size_t>(reading.experts)].tensor > 1);
    double layers = static_cast<double>(piece.count);
    if (reading.expert_count > 1) {
      layers /= static_cast<double>(reading.expert_count);
    }
    const double sum = 2 * layers * Gathered(Activations(reading), t);
    switch (reading.part) {
      case Part::kOutput:
      case Part::kDown:
        if (by_tensor) out_.tensor += sum;
        break;
      case Part::kEmbedding:
      case Part::kHead:
      case Part::kInner:
        if (inner > 1) out_.tensor += sum;
        break;
      case Part::kQuery:
      case Part::kQkv:
      case Part::kLatentUp:
      case Part::kUp:
      case Part::kGateUp:
        // Backward, once for all that read the same activations.
        if (by_tensor && Fresh(reading, layers)) out_.tensor += sum;
        break;
      case Part::kKey:
      case Part::kValue:
      case Part::kKeyValue:
        if (inner <= 1 && split_families_.contains(reading.name.family)) {
          out_.tensor += 2 * Gathered(used, t);
        }
        break;
      default:
        break;
    }
    AddStraddling(reading, layers, inner);
    const double shards = ExpertShards(piece, reading);
    if (reading.part == Part::kDown && shards > 1) {
      out_.experts += 4 * layers *
                      static_cast<double>(assumed_.experts_per_token) *
                      Gathered(Activations(reading), shards);
    }
  }

  bool Fresh(const Reading& reading, double layers) {
    return read_.insert({reading.name.family, IsMlp(reading.part), layers})
        .second;
  }

  // A cut inside of heads or parts: what leaves is moved to where it belongs.
  void AddStraddling(const Reading& reading, double layers, double inner) {
    if (inner <= 1 || !(IsAttention(reading.part) || IsMlp(reading.part))) {
      return;
    }
    const bool whole = std::all_of(
        reading.units.begin(), reading.units.end(), [&](int64_t units) {
          return units % static_cast<int64_t>(inner) == 0;
        });
    if (whole) return;
    const double leaving =
        static_cast<double>(assumed_.tokens * assumed_.activation_bytes) *
        static_cast<double>(reading.inner_size);
    out_.tensor += 2 * layers * Gathered(leaving, inner);
  }

  const Tree& tree_;
  const std::vector<Reading>& readings_;
  const MeshAxes& mesh_;
  const Assumed& assumed_;
  std::set<std::string> split_families_;
  std::set<std::tuple<std::string, bool, double>> read_;
  Costs out_;
};

}  // namespace

Piece PieceOf(const Tree& tree, size_t kind, const Choice& choice) {
  Piece out;
  out.kind = kind;
  out.count = tree.kinds[kind].count();
  out.dims.resize(tree.kinds[kind].shape.size());
  for (size_t i = 0; i < choice.spec.size(); ++i) {
    for (const Cut& cut : choice.spec[i]) {
      const bool data =
          cut.token == "FSDP" || cut.token == "SP" || cut.token == "EP";
      int64_t& parts = data                    ? out.dims[i].data
                       : cut.token == "EXPERT" ? out.dims[i].expert
                                               : out.dims[i].tensor;
      parts *= cut.size;
    }
  }
  out.placed = choice.place_size;
  out.placed_tensor = choice.place_axis == "TP";
  return out;
}

std::vector<Piece> PiecesOf(const Tree& tree, const Choices& choices) {
  std::vector<Piece> out;
  for (size_t k = 0; k < tree.kinds.size(); ++k) {
    out.push_back(PieceOf(tree, k, choices.kinds[k]));
  }
  return out;
}

std::vector<Piece> PiecesOf(const Tree& tree, const Readings& readings,
                            const AxisRules& axes, const Plan& plan) {
  const auto names = [&](AxisRule rule) { return axes.Value(rule).axes; };
  const AxisGroup tensor = names(AxisRule::kTensorParallel);
  const AxisGroup expert = names(AxisRule::kExpertParallel);
  const auto holds = [](const AxisGroup& group, const std::string& axis) {
    return std::find(group.begin(), group.end(), axis) != group.end();
  };
  std::map<std::tuple<size_t, uint32_t, bool>, int64_t> counts;
  for (size_t k = 0; k < tree.kinds.size(); ++k) {
    for (const uint32_t member : tree.Members(tree.kinds[k])) {
      const PlannedParam& param = plan.params[member];
      ++counts[{k, param.layout, param.coordinate.has_value()}];
    }
  }
  std::vector<Piece> out;
  for (const auto& [key, count] : counts) {
    const auto& [kind, layout, placed] = key;
    Piece piece;
    piece.kind = kind;
    piece.count = count;
    piece.dims.resize(tree.kinds[kind].shape.size());
    const ParamLayout& of = plan.layouts[layout];
    const Spec& spec = of.modes.front().spec;
    for (size_t i = 0; i < spec.size() && i < piece.dims.size(); ++i) {
      for (const std::string& axis : spec[i]) {
        const bool experts =
            holds(expert, axis) &&
            static_cast<int>(i) == readings.kinds[kind].experts;
        int64_t& parts = holds(tensor, axis) ? piece.dims[i].tensor
                         : experts           ? piece.dims[i].expert
                                             : piece.dims[i].data;
        parts *= plan.mesh.SizeOf(axis);
      }
    }
    if (placed && of.rule >= 0) {
      const std::string& axis =
          plan.placement_axes[static_cast<size_t>(of.rule)];
      piece.placed = plan.mesh.SizeOf(axis);
      piece.placed_tensor = holds(tensor, axis);
    }
    out.push_back(std::move(piece));
  }
  return out;
}

double Costs::Seconds(const Assumed& assumed) const {
  const double computing = flops / assumed.flops;
  const double meanwhile =
      data / assumed.data_link + replicas / assumed.replica_link;
  return std::max(computing, meanwhile) + tensor / assumed.tensor_link +
         experts / assumed.data_link;
}

Costs CostOf(const Tree& tree, const Readings& readings, const MeshAxes& mesh,
             std::span<const Piece> pieces, const Assumed& assumed) {
  return Counter(tree, readings, mesh, assumed).Count(pieces);
}

}  // namespace shardc::suggest
