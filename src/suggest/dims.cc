// Every weight has a side that is the model's width and one that is inside: a
// feed-forward width, heads, a vocabulary. Sizes tell which, and where both
// are alike, the orientation that lints read as well:
//
//   q_proj [4096, 4096]  ->  orientation: [out, in], so inside is dimension 0
//   gate_up_proj_blocks [128, 5760, 90, 16]  ->  experts, inside, width / 32,
//                                                bytes of a block
#include "suggest/dims.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "model/block_types.h"
#include "suggest/heads.h"

namespace shardc::suggest {
namespace {

// Fewer rows than these are no vocabulary.
constexpr int64_t kLeastVocabulary = 1000;
// Numbers in a packed block's last dimension hold two values each.
constexpr int64_t kPackedPerByte = 2;
constexpr std::array<std::string_view, 7> kStackWords = {
    "layers", "blocks", "h", "block", "layer", "decoder_layers", "stack"};

// A kind as a matrix: the dimensions that are its two sides.
struct Matrix {
  int first = -1;
  int last = -1;
  Shape sides;  // their sizes, whole heads and blocks unfolded
  bool valid() const { return first >= 0 && last >= 0; }
};

bool Packs(const Kind& kind) { return kind.dtype && MayPack(*kind.dtype); }

class Reader {
 public:
  Reader(const Tree& tree, const ModelConfig* model, int64_t tensor_parts)
      : tree_(tree), model_(model), tensor_parts_(tensor_parts) {}

  Readings Read() {
    ReadNames();
    FindLayers();
    FindExperts();
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      matrices_.push_back(MatrixOf(k));
    }
    Orient();
    Unfold();
    FindVocabularies();
    FindBiases();
    for (size_t k = 0; k < tree_.kinds.size(); ++k) FindSides(k);
    FindWeights();
    FindBlocks();
    ReadHeads(tree_, model_, tensor_parts_, out_);
    FillFacts();
    return std::move(out_);
  }

 private:
  void ReadNames() {
    out_.facts.opaque = true;
    for (const Kind& kind : tree_.kinds) {
      Reading reading;
      reading.name = ReadName(kind, tree_.separator);
      reading.part = reading.name.part;
      for (const int64_t size : kind.shape)
        reading.dims.push_back({.size = size});
      if (reading.name.known) out_.facts.opaque = false;
      out_.kinds.push_back(std::move(reading));
    }
  }

  // Stacks for a scan: no counter in the name, and one size that all that
  // stands below has.
  void FindLayers() {
    std::map<std::string, std::vector<size_t>> stacks;
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      const Kind& kind = tree_.kinds[k];
      if (!kind.stack().empty() || kind.rank() == 0) continue;
      std::string path;
      for (size_t i = 0; i + 1 < kind.parts.size(); ++i) {
        path += std::string(kind.parts[i]) + tree_.separator;
        if (std::find(kStackWords.begin(), kStackWords.end(), kind.parts[i]) !=
            kStackWords.end()) {
          stacks[path].push_back(k);
          break;
        }
      }
    }
    for (const auto& [path, kinds] : stacks) {
      if (const int64_t layers = LayersOf(kinds)) TakeLayers(kinds, layers);
    }
  }

  int64_t LayersOf(const std::vector<size_t>& kinds) const {
    bool matrix = false;
    std::map<int64_t, size_t> met;
    for (const size_t k : kinds) {
      const Shape& shape = tree_.kinds[k].shape;
      matrix = matrix || shape.size() >= 3;
      for (const int64_t size : std::set<int64_t>(shape.begin(), shape.end())) {
        ++met[size];
      }
    }
    if (!matrix || kinds.size() < 3) return 0;
    // Vectors are [layers, n]: what all kinds share. Of several the config's,
    // or the least.
    for (const auto& [size, count] : met) {
      if (count != kinds.size() || size < 2) continue;
      if (model_ != nullptr && model_->layers && *model_->layers != size &&
          met.contains(*model_->layers) &&
          met.at(*model_->layers) == kinds.size()) {
        continue;
      }
      return size;
    }
    return 0;
  }

  void TakeLayers(const std::vector<size_t>& kinds, int64_t layers) {
    for (const size_t k : kinds) {
      for (Dim& dim : out_.kinds[k].dims) {
        if (dim.size != layers) continue;
        dim.use = Use::kLayers;
        break;
      }
    }
  }

  // Dimensions that are neither layers nor of size 1.
  std::vector<int> Rest(size_t k) const {
    std::vector<int> out;
    const auto& dims = out_.kinds[k].dims;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i].use != Use::kLayers) out.push_back(static_cast<int>(i));
    }
    return out;
  }

  void FindExperts() {
    std::map<std::string_view, int64_t> largest;
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      Reading& reading = out_.kinds[k];
      const auto rest = Rest(k);
      if (reading.name.counted_experts) {
        reading.expert_count = CountExperts(tree_.kinds[k]);
      } else if (reading.name.below_experts && rest.size() >= 2) {
        TakeExperts(reading, rest.front());
      }
    }
    // Of unknown names: several kinds share a leading size.
    std::map<std::pair<std::string_view, int64_t>, int> shared;
    const auto leads = [&](size_t k) {
      const Kind& kind = tree_.kinds[k];
      const auto rest = Rest(k);
      return rest.size() == 3 && out_.kinds[k].experts < 0 &&
             !out_.kinds[k].name.below_experts && !kind.stack().empty() &&
             !out_.kinds[k].name.role.attention &&
             kind.shape[static_cast<size_t>(rest[1])] > 16 &&
             kind.shape[static_cast<size_t>(rest[2])] > 16;
    };
    const auto key = [&](size_t k) {
      const Kind& kind = tree_.kinds[k];
      return std::pair(kind.stack(),
                       kind.shape[static_cast<size_t>(Rest(k).front())]);
    };
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      if (leads(k)) ++shared[key(k)];
    }
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      if (leads(k) && shared[key(k)] >= 2) {
        TakeExperts(out_.kinds[k], Rest(k).front());
      }
    }
  }

  static void TakeExperts(Reading& reading, int dim) {
    reading.experts = dim;
    reading.dims[static_cast<size_t>(dim)].use = Use::kExperts;
  }

  // Of single tensors: the largest number behind `experts`, and one.
  int64_t CountExperts(const Kind& kind) const {
    const size_t at =
        kind.name.find("experts" + std::string(1, tree_.separator));
    const auto before = static_cast<size_t>(std::count(
        kind.name.begin(),
        kind.name.begin() + static_cast<long>(std::min(at, kind.name.size())),
        '*'));
    int64_t most = -1;
    for (const uint32_t member : tree_.Members(kind)) {
      const auto counters = CountersOf(tree_.NameOf(member), kind.name);
      if (before >= counters.size() || counters[before].size() > 9) continue;
      int64_t number = 0;
      for (const char c : counters[before]) number = number * 10 + (c - '0');
      most = std::max(most, number);
    }
    return most + 1;
  }

  Matrix MatrixOf(size_t k) {
    const Kind& kind = tree_.kinds[k];
    Reading& reading = out_.kinds[k];
    std::vector<int> sides;
    for (const int dim : Rest(k)) {
      if (dim != reading.experts) sides.push_back(dim);
    }
    const auto size = [&](int dim) {
      return kind.shape[static_cast<size_t>(dim)];
    };
    Matrix out;
    if (reading.name.blocks && sides.size() == 3) {
      // Packed: the last two are one dimension of the weight.
      reading.dims[static_cast<size_t>(sides[2])].use = Use::kWhole;
      out = {
          sides[0],
          sides[1],
          {size(sides[0]), size(sides[1]) * size(sides[2]) * kPackedPerByte}};
      return out;
    }
    const bool heads = IsAttention(reading.part) && reading.experts < 0;
    if (heads && sides.size() >= 3 && size(sides.back()) > 1) {
      return HeadsMatrix(reading, sides, size);
    }
    // What is joined at the front, such as a gate and an up.
    if (IsMlp(reading.part) && sides.size() == 3 && size(sides[0]) == 2) {
      reading.dims[static_cast<size_t>(sides[0])].use = Use::kWhole;
      sides.erase(sides.begin());
      reading.part = Part::kUp;
    }
    while (sides.size() > 2 && size(sides.back()) == 1) sides.pop_back();
    if (sides.size() == 2) {
      out = {sides[0], sides[1], {size(sides[0]), size(sides[1])}};
    } else if (sides.size() > 2) {
      if (reading.part != Part::kPosition) reading.part = Part::kConvolution;
    }
    return out;
  }

  // [width, heads, columns] or [heads, columns, width], or with the width in
  // the middle; what is joined stands in front.
  template <class Size>
  Matrix HeadsMatrix(Reading& reading, std::vector<int> sides,
                     const Size& size) {
    while (sides.size() > 3 && size(sides.front()) <= 3) {
      reading.dims[static_cast<size_t>(sides.front())].use = Use::kWhole;
      sides.erase(sides.begin());
    }
    Matrix out;
    if (sides.size() != 3) {
      reading.part = Part::kConvolution;
      return out;
    }
    // The columns of a head are few; the width is the largest of the others.
    const bool leaves = reading.part == Part::kOutput;
    int width = leaves ? sides[2] : sides[0];
    if (!leaves && size(sides[1]) > size(width) &&
        size(sides[1]) > size(sides[2])) {
      width = sides[1];
    }
    std::erase(sides, width);
    reading.dims[static_cast<size_t>(sides[1])].use = Use::kWhole;
    const int64_t inner = size(sides[0]) * size(sides[1]);
    reading.units = {size(sides[0])};
    out.first = leaves ? sides[0] : width;
    out.last = leaves ? width : sides[0];
    out.sides = leaves ? Shape{inner, size(width)} : Shape{size(width), inner};
    return out;
  }

  void Orient() {
    std::vector<Shape> shapes(tree_.kinds.size());
    std::vector<GroupRole> roles(tree_.kinds.size());
    std::vector<TreeEntry> entries;
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      const Kind& kind = tree_.kinds[k];
      shapes[k] = matrices_[k].valid() ? matrices_[k].sides : kind.shape;
      if (out_.kinds[k].experts >= 0 && matrices_[k].valid()) {
        shapes[k].insert(shapes[k].begin(), 1);
      }
      roles[k] = out_.kinds[k].name.role;
      const bool unknown = !out_.kinds[k].name.known;
      if (unknown && matrices_[k].valid() && roles[k].leaf == Leaf::kOther) {
        roles[k].leaf = Leaf::kWeight;
      }
      entries.push_back(
          {.name = kind.name,
           .role = &roles[k],
           .shape = &shapes[k],
           .count = kind.count(),
           .packed = Packs(kind) || (kind.rank() > 1 && !Votes(k))});
    }
    widths_ =
        Widths(entries, model_ == nullptr ? std::nullopt : model_->hidden);
    in_first_ = OrientationsOf(entries, widths_);
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      if (out_.kinds[k].name.blocks) {
        in_first_[k] = false;
      } else if (!in_first_[k]) {
        in_first_[k] = roles[k].in_first;
      }
    }
  }

  // Parts of a mixer have widths of their own.
  bool Votes(size_t k) const {
    return matrices_[k].valid() && out_.kinds[k].part != Part::kMixer;
  }

  // Several weights in one number: the sides as they are without, where the
  // scales of their groups tell.
  void Unfold() {
    std::map<std::string_view, const Shape*> scales;
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      const Named& name = out_.kinds[k].name;
      if (name.role.leaf == Leaf::kScale && tree_.kinds[k].rank() == 2) {
        scales.try_emplace(name.stem, &tree_.kinds[k].shape);
      }
    }
    unfolded_.assign(tree_.kinds.size(), false);
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      const auto at = scales.find(out_.kinds[k].name.stem);
      if (!Packs(tree_.kinds[k]) || out_.kinds[k].name.blocks ||
          !matrices_[k].valid() || at == scales.end() ||
          out_.kinds[k].part == Part::kScale) {
        continue;
      }
      Shape& sides = matrices_[k].sides;
      const Shape& scale = *at->second;
      const int64_t before = DtypeBits(*tree_.kinds[k].dtype) / 4;
      if (scale[1] != sides[1] && scale[1] % sides[1] == 0) {
        sides[1] = scale[1];
      } else if (scale[0] == sides[0]) {
        sides[1] *= Factor(tree_.kinds[k], sides[1], before);
      } else if (scale[1] == sides[1]) {
        sides[0] *= Factor(tree_.kinds[k], sides[0], before);
      } else {
        continue;
      }
      unfolded_[k] = true;
    }
  }

  // What makes a width of a side; else as many as four bits each make.
  int64_t Factor(const Kind& kind, int64_t side, int64_t usual) const {
    const auto at = widths_.by_stack().find(kind.stack());
    for (const int64_t factor : {usual, usual / 2, usual * 2}) {
      if (at != widths_.by_stack().end() && factor > 0 &&
          side * factor == at->second) {
        return factor;
      }
    }
    return std::max<int64_t>(1, usual);
  }

  // 0 where sizes mislead: several weights in one number, not unfolded.
  int64_t WidthOf(size_t k) const {
    const Matrix& matrix = matrices_[k];
    if (!matrix.valid()) return 0;
    if (Packs(tree_.kinds[k]) && !out_.kinds[k].name.blocks && !unfolded_[k]) {
      return 0;
    }
    return widths_.Of(tree_.kinds[k].name, matrix.sides[0], matrix.sides[1]);
  }

  // Few tensors with one long side and a width: rows for tokens.
  void FindVocabularies() {
    std::map<int64_t, int64_t> votes;
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      const Matrix& matrix = matrices_[k];
      const Part part = out_.kinds[k].part;
      if (!matrix.valid() || tree_.kinds[k].count() > 2 ||
          out_.kinds[k].experts >= 0 || IsAttention(part) || IsMlp(part) ||
          part == Part::kPosition) {
        continue;
      }
      const int64_t width = WidthOf(k);
      const int64_t other = OtherSide(matrix, width);
      if (width == 0 || other < kLeastVocabulary || other < 4 * width) continue;
      ++votes[other];
    }
    for (const auto& [size, count] : votes) vocabularies_.insert(size);
    if (model_ != nullptr && model_->vocab)
      vocabularies_.insert(*model_->vocab);
  }

  static int64_t OtherSide(const Matrix& matrix, int64_t width) {
    return matrix.sides[0] == width ? matrix.sides[1] : matrix.sides[0];
  }

  // A bias is as long as what leaves its weight.
  void FindBiases() {
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      const Shape& shape = tree_.kinds[k].shape;
      if (out_.kinds[k].part != Part::kBias || shape.empty()) continue;
      biases_.try_emplace(
          std::pair(out_.kinds[k].name.stem, tree_.kinds[k].count()),
          shape.back());
    }
  }

  std::optional<bool> InFirstByBias(size_t k) const {
    const Shape& sides = matrices_[k].sides;
    const auto at = biases_.find(
        std::pair(out_.kinds[k].name.stem, tree_.kinds[k].count()));
    if (at == biases_.end() || sides[0] == sides[1]) return std::nullopt;
    if (at->second == sides[1]) return true;
    if (at->second == sides[0]) return false;
    return std::nullopt;
  }

  // Whether the first side is the one inside; nothing where neither is.
  std::optional<bool> InnerIsFirst(size_t k, int64_t width) {
    const Matrix& matrix = matrices_[k];
    Reading& reading = out_.kinds[k];
    const int64_t first = matrix.sides[0];
    const int64_t last = matrix.sides[1];
    const bool rectangle = width != 0 && first != last;
    const bool enters =
        reading.part == Part::kOutput || reading.part == Part::kDown;
    const auto oriented = [&]() -> std::optional<bool> {
      if (!in_first_[k]) return std::nullopt;
      return *in_first_[k] == enters;
    };
    const auto by_bias = InFirstByBias(k);
    switch (reading.part) {
      case Part::kEmbedding:
      case Part::kHead: {
        for (const bool is_first : {true, false}) {
          const int64_t rows = is_first ? first : last;
          const int64_t columns = is_first ? last : first;
          if (rows != columns && vocabularies_.contains(rows)) return is_first;
        }
        if (rectangle) return first != width;
        if (reading.part == Part::kHead) return oriented();
        return in_first_[k].value_or(true);
      }
      case Part::kLatent:
        // The latent is the side that is not the width, and shorter.
        if (rectangle) return first != width;
        return first < last;
      case Part::kRouter:
        return first < last;
      case Part::kQuery:
      case Part::kKey:
      case Part::kValue:
      case Part::kKeyValue:
      case Part::kQkv:
      case Part::kOutput:
      case Part::kLatentUp:
      case Part::kUp:
      case Part::kGateUp:
      case Part::kDown:
        if (by_bias) return *by_bias == enters;
        if (rectangle) return first != width;
        if (first == last && !in_first_[k]) return std::nullopt;
        if (const auto found = oriented()) return found;
        if (reading.part == Part::kLatentUp) return first > last;
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  // A router is small; a gate of that name may be none.
  void Correct(size_t k, int64_t width) {
    Reading& reading = out_.kinds[k];
    const Matrix& matrix = matrices_[k];
    const int64_t least = std::min(matrix.sides[0], matrix.sides[1]);
    const int64_t most = std::max(matrix.sides[0], matrix.sides[1]);
    if (reading.part == Part::kRouter && (least > 1024 || 4 * least > most)) {
      reading.part = width != 0 ? Part::kUp : Part::kOther;
    }
    const bool table =
        reading.part == Part::kEmbedding || reading.part == Part::kHead;
    if (table && least == most) reading.part = Part::kOther;
    if (reading.part != Part::kOther || width == 0 || least == most) return;
    const Kind& kind = tree_.kinds[k];
    const int64_t other = OtherSide(matrix, width);
    if (vocabularies_.contains(other) && kind.count() <= 2) {
      reading.part = Part::kEmbedding;
    } else if (!kind.stack().empty() || out_.facts.opaque) {
      reading.part = Part::kInner;
    }
  }

  void FindSides(size_t k) {
    Reading& reading = out_.kinds[k];
    const Matrix& matrix = matrices_[k];
    if (!matrix.valid()) {
      for (Dim& dim : reading.dims) {
        if (dim.size == 1) dim.use = Use::kWhole;
      }
      return;
    }
    const int64_t width = WidthOf(k);
    if (reading.part != Part::kBias && reading.part != Part::kScale) {
      Correct(k, width);
    }
    auto first = InnerIsFirst(k, width);
    const bool by_width =
        reading.part == Part::kInner || reading.part == Part::kMixer;
    if (!first && by_width && width != 0) first = matrix.sides[0] != width;
    if (!first) {
      if (IsAttention(reading.part) || IsMlp(reading.part)) {
        reading.part = Part::kOther;
      }
      return;
    }
    reading.inner = *first ? matrix.first : matrix.last;
    reading.width = *first ? matrix.last : matrix.first;
    reading.inner_size = matrix.sides[*first ? 0 : 1];
    reading.width_size = matrix.sides[*first ? 1 : 0];
    reading.dims[static_cast<size_t>(reading.inner)].use = Use::kInner;
    reading.dims[static_cast<size_t>(reading.width)].use = Use::kWidth;
    reading.column =
        IsAttention(reading.part)
            ? reading.part != Part::kOutput
            : reading.part == Part::kUp || reading.part == Part::kGateUp;
  }

  // The weight of each bias and scale: of one path, the largest.
  void FindWeights() {
    std::map<std::string_view, size_t> weights;
    const auto is_weight = [&](size_t k) {
      const Part part = out_.kinds[k].part;
      return part != Part::kBias && part != Part::kScale &&
             tree_.kinds[k].rank() >= 2;
    };
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      if (!is_weight(k)) continue;
      const auto [at, fresh] = weights.try_emplace(out_.kinds[k].name.stem, k);
      if (!fresh && tree_.kinds[k].count() > tree_.kinds[at->second].count()) {
        at->second = k;
      }
    }
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      if (is_weight(k)) continue;
      const auto at = weights.find(out_.kinds[k].name.stem);
      if (at != weights.end())
        out_.kinds[k].weight = static_cast<int>(at->second);
    }
  }

  // What one scale stands for may not be parted, nor what is stored together.
  void FindBlocks() {
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      auto& dims = out_.kinds[k].dims;
      const auto dtype = tree_.kinds[k].dtype;
      if (!dims.empty() && dtype) dims.back().block = BlockElements(*dtype);
    }
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      const Reading& scale = out_.kinds[k];
      if (scale.part != Part::kScale || scale.weight < 0) continue;
      const auto weight = static_cast<size_t>(scale.weight);
      auto& dims = out_.kinds[weight].dims;
      const bool same = scale.dims.size() == dims.size();
      if (!same && !(out_.kinds[weight].name.blocks &&
                     scale.dims.size() + 1 == dims.size())) {
        continue;
      }
      for (size_t i = 0; i < scale.dims.size(); ++i) {
        const int64_t scales = scale.dims[i].size;
        if (scales <= 1) continue;
        dims[i].block = std::max(dims[i].block, BlockOf(dims[i].size, scales));
      }
    }
    if (model_ == nullptr || !model_->quant_group) return;
    const bool shown =
        std::any_of(out_.kinds.begin(), out_.kinds.end(),
                    [](const Reading& r) { return r.part == Part::kScale; });
    if (shown) return;
    // As lints do where no scale shows which weights have one.
    for (size_t k = 0; k < tree_.kinds.size(); ++k) {
      Reading& reading = out_.kinds[k];
      if (!reading.IsMatrix() || Packs(tree_.kinds[k]) ||
          !(IsAttention(reading.part) || IsMlp(reading.part))) {
        continue;
      }
      const int in = reading.column ? reading.width : reading.inner;
      reading.dims[static_cast<size_t>(in)].block = *model_->quant_group;
    }
  }

  void FillFacts() {
    std::set<int64_t> widths;
    for (const auto& [stack, width] : widths_.by_stack()) {
      if (width > 0 && !stack.empty()) widths.insert(width);
    }
    out_.facts.widths.assign(widths.rbegin(), widths.rend());
    std::set<int64_t> vocabularies;
    for (const Reading& reading : out_.kinds) {
      if (reading.part == Part::kEmbedding || reading.part == Part::kHead) {
        if (reading.inner >= 0) vocabularies.insert(reading.inner_size);
      }
      int64_t experts = reading.expert_count;
      if (reading.experts >= 0) {
        experts = reading.dims[static_cast<size_t>(reading.experts)].size;
      }
      out_.facts.experts = std::max(out_.facts.experts, experts);
    }
    out_.facts.vocabularies.assign(vocabularies.rbegin(), vocabularies.rend());
  }

  const Tree& tree_;
  const ModelConfig* model_;
  int64_t tensor_parts_;
  Readings out_;
  std::vector<Matrix> matrices_;
  std::vector<bool> unfolded_;
  Widths widths_;
  std::vector<std::optional<bool>> in_first_;
  std::set<int64_t> vocabularies_;
  std::map<std::pair<std::string, int64_t>, int64_t> biases_;
};

}  // namespace

Readings ReadDims(const Tree& tree, const ModelConfig* model,
                  int64_t tensor_parts) {
  return Reader(tree, model, tensor_parts).Read();
}

}  // namespace shardc::suggest
