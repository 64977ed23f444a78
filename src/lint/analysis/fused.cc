// Finds matrices that hold several parts. Each part must be sharded separately,
// so that each device has its share of each part.
//
// Names and the model's configuration show many of them. Where they do not, the
// shapes of the other parameters of the block do. A block has a width W. Some
// of its matrices read activations of the width, [F, W], and some write them,
// [W, I]. The inner size I of a matrix that writes is the output size of one
// that reads, unless that one holds several parts:
//
//   [8192, 2048], [2048, 8192]   ->  one part
//   [12288, 2048], [2048, 6144]  ->  12288 = 2 * 6144: several parts
//   [6144, 4096], [4096, 4096]   ->  6144 = 4096 + 2 * 1024: queries, keys and
//                                    values
//   [18432, 3072]                ->  18432 = 6 * 3072: six modulations
//   [8192, 4096], [4096, 4096] twice
//                                ->  8192 = 2 * 4096: keys and values, next to
//                                    the queries that the output reads
//   [2048, 300], [2048, 512] in one module
//                                ->  2048 = 4 * 512: the gates of an LSTM
//
// The block of a matrix is the innermost path of its name that holds a matrix
// which writes, at most its layer.
#include "lint/analysis/fused.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lint/analysis/groups.h"
#include "lint/analysis/heads.h"
#include "lint/analysis/phrase.h"
#include "model/name.h"
#include "program/facts.h"
#include "roles/classify.h"
#include "roles/role.h"
#include "source/list.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

// The number of parts of a modulation whose name does not show what it is. With
// kFewModulations or fewer parts, a bias is needed, because other matrices have
// such shapes too. With a name, any number up to kMostModulations is accepted.
constexpr int64_t kModulations[] = {2, 3, 6, 9};
constexpr int64_t kFewModulations = 3;
constexpr int64_t kMostModulations = 12;
constexpr int64_t kLeastWidth = 16;
constexpr std::string_view kLatentName = "wkv";

bool NamesMlp(std::string_view part) {
  return part == "ff" || Contains(part, "mlp") || Contains(part, "ffn") ||
         Contains(part, "feed_forward") || Contains(part, "expert");
}

bool NamesModulation(std::string_view part) {
  return NamesNorm(part) || Contains(part, "modulation") ||
         Contains(part, "adaLN");
}

// A matrix [W, I] of a block that writes activations of the width W.
struct Writer {
  const Matrix* matrix = nullptr;
  int64_t inner = 0;
};

// The other matrices of a block, as seen from a matrix [F, W].
struct Others {
  std::vector<Writer> writers;
  std::vector<int64_t> readers;  // output sizes of those that read the width
  bool latent = false;           // whether some matrix lacks the width
};

enum class Use : uint8_t { kUnknown, kAttention, kMlp };

class FusedReader {
 public:
  FusedReader(const Facts& facts, const Blocks& blocks)
      : facts_(facts), blocks_(blocks) {
    for (const ParameterGroup& group : facts.groups()) {
      if (group.role.role != Role::kOutput) continue;
      outputs_[group.role.block_path].push_back(&group);
    }
  }

  std::optional<Fused> Of(const ParameterGroup& group) const {
    auto out = ByName(group);
    if (!out) out = ByShape(group);
    const program::ParamFacts* const described = facts_.Described(group);
    return described == nullptr ? out : Stated(*described, std::move(out));
  }

 private:
  bool HasPart(const ParameterGroup& group,
               bool (*names)(std::string_view)) const {
    const auto parts = SplitName(group.name, facts_.separator());
    return std::any_of(parts.begin(), parts.end(), names);
  }

  // Returns the parts that the description of the family states, with the names
  // of those that were inferred if they are as large.
  std::optional<Fused> Stated(const program::ParamFacts& described,
                              std::optional<Fused> inferred) const {
    const program::Facts& all = *facts_.described();
    for (size_t d = 0; d < described.dims.size(); ++d) {
      const program::FactorList& dim = described.dims[d];
      if (dim.empty() || all.factors[dim[0]].parts.empty()) continue;
      Fused out{.dim = static_cast<int>(d)};
      for (const program::FactorList& part : all.factors[dim[0]].parts) {
        const auto role = part.empty() ? program::FactorRole::kParts
                                       : all.factors[part[0]].role;
        out.parts.push_back(
            {std::string(program::RoleName(role)), all.SizeOf(part)});
      }
      if (inferred && inferred->dim == out.dim && Agree(*inferred, out)) {
        inferred->evidence.clear();
        return inferred;
      }
      return out;
    }
    return std::nullopt;
  }

  // Returns whether inferred parts, of which one may stand for several of equal
  // size, are those of the description.
  static bool Agree(const Fused& inferred, const Fused& stated) {
    return std::ranges::all_of(stated.parts, [&](const FusedPart& part) {
      return std::ranges::any_of(inferred.parts, [&](const FusedPart& own) {
        return own.size == part.size;
      });
    });
  }

  // Returns the input size of the output projection of the same attention
  // block, which equals the size of the block's queries. Returns 0 if the block
  // has no such projection.
  int64_t QueriesOf(const ParameterGroup& group) const {
    const auto of_block = outputs_.find(group.role.block_path);
    if (of_block == outputs_.end()) return 0;
    for (const ParameterGroup* const output : of_block->second) {
      if (!blocks_.Meet(group, *output)) continue;
      const auto dims = MatrixDimsOf(facts_, facts_.stacks(), *output);
      const int side = InDim(output->role, 2);
      if (!dims || side < 0) continue;
      return (*facts_.TypeOf(*output).shape)[AsIndex((*dims)[AsIndex(side)])];
    }
    return 0;
  }

  std::vector<FusedPart> QkvParts(const ParameterGroup& group, int64_t size,
                                  int64_t other) const {
    const auto grouped = [](int64_t queries, int64_t keys) {
      return std::vector<FusedPart>{
          {"queries", queries}, {"keys", keys}, {"values", keys}};
    };
    if (facts_.model() != nullptr) {
      const auto heads = HeadsOf(*facts_.model());
      if (heads &&
          size == (heads->heads + 2 * heads->kv_heads) * heads->head_dim) {
        return grouped(heads->heads * heads->head_dim,
                       heads->kv_heads * heads->head_dim);
      }
    }
    // If there are as many KV heads as query heads, and queries are as wide as
    // the model, each of the three parts has the size of the input.
    if (size == 3 * other) return {{"queries, keys and values each", other}};
    // With grouped queries, the columns after the queries are half keys and
    // half values.
    const int64_t queries = QueriesOf(group);
    const int64_t rest = size - queries;
    if (queries > 0 && rest > 0 && rest % 2 == 0 && rest / 2 <= queries) {
      return grouped(queries, rest / 2);
    }
    return {};
  }

  // Returns the dimension that holds the two halves of a fused gate and up
  // projection, or -1 if the dimension is unknown.
  int GateUpDim(const ParameterGroup& group) const {
    const int rank = facts_.Rank(group);
    const int known = OutDim(group.role, rank);
    if (known >= 0 || facts_.model() == nullptr) return known;
    const ModelConfig& model = *facts_.model();
    for (int dim = rank - 1; dim >= 0 && dim >= rank - 2; --dim) {
      const int64_t size = (*facts_.TypeOf(group).shape)[AsIndex(dim)];
      if (model.hidden && size == *model.hidden) continue;
      if ((model.moe_intermediate && size == 2 * *model.moe_intermediate) ||
          (model.intermediate && size == 2 * *model.intermediate)) {
        return dim;
      }
    }
    return -1;
  }

  // Finds the parts of a matrix whose name shows that it holds several.
  std::optional<Fused> ByName(const ParameterGroup& group) const {
    const int rank = facts_.Rank(group);
    if (rank < 2) return std::nullopt;
    const Shape& shape = *facts_.TypeOf(group).shape;
    Fused out;
    if (group.role.module_role == Role::kFusedGateUp &&
        group.role.leaf != Leaf::kBias) {
      out.dim = GateUpDim(group);
      if (out.dim < 0) return std::nullopt;
      out.parts = {{"gate and up each", shape[AsIndex(out.dim)] / 2}};
    } else if (group.role.module_role == Role::kFusedQkv) {
      const auto dims = MatrixDimsOf(facts_, facts_.stacks(), group);
      const int side = OutDim(group.role, 2);
      if (!dims || side < 0) return std::nullopt;
      out.dim = (*dims)[AsIndex(side)];
      out.parts = QkvParts(group, shape[AsIndex(out.dim)],
                           shape[AsIndex((*dims)[AsIndex(1 - side)])]);
    }
    if (out.parts.empty()) return std::nullopt;
    return out;
  }

  Others OthersOf(const Block& block, const Matrix& matrix, size_t out) const {
    Others others;
    const int64_t width = matrix.sizes[1 - out];
    std::vector<const Matrix*> squares;
    const bool gives = std::any_of(
        block.matrices.begin(), block.matrices.end(), [](const Matrix& one) {
          return GivesWidth(one.group->role.module_role);
        });
    for (const Matrix& other : block.matrices) {
      if (other.group == matrix.group || other.lead != matrix.lead ||
          !blocks_.Meet(*matrix.group, *other.group)) {
        continue;
      }
      // A modulation of the block is none of the parts of attention.
      if (Modulation(other, out, HasPart(*other.group, NamesModulation))) {
        continue;
      }
      // After `w12`, the matrix `w3` is not an up projection.
      const bool last = other.group->role.module_role == Role::kUp && !gives;
      const Role role = last ? Role::kOther : other.group->role.module_role;
      const bool reads = other.sizes[1 - out] == width;
      const bool writes = other.sizes[out] == width;
      if (reads && writes) {
        squares.push_back(&other);
      } else if (reads) {
        others.readers.push_back(other.sizes[out]);
      } else if (writes && !TakesWidth(role) && role != Role::kLatentDown &&
                 role != Role::kLatentUp) {
        others.writers.push_back({&other, other.sizes[1 - out]});
      } else {
        others.latent = true;
      }
    }
    // Of several square matrices, one may read what another writes.
    const bool unnamed =
        std::all_of(squares.begin(), squares.end(), [](const Matrix* square) {
          return square->group->role.module_role == Role::kOther;
        });
    for (const Matrix* square : squares) {
      const Role role = square->group->role.module_role;
      const bool any = squares.size() == 1 || unnamed;
      if (any ? !TakesWidth(role) && square == squares.back()
              : GivesWidth(role)) {
        others.writers.push_back({square, width});
      } else {
        others.readers.push_back(width);
      }
    }
    return others;
  }

  // Returns whether attention with fewer KV heads than heads has the sizes of a
  // matrix that holds queries, keys and values.
  static bool Grouped(int64_t size, int64_t inner) {
    const int64_t rest = size - inner;
    return rest > 0 && rest % 2 == 0 && rest / 2 < inner &&
           inner % (rest / 2) == 0;
  }

  // Returns whether attention next to an MLP with or without a gate, whose
  // results enter one matrix, has the sizes of a matrix that holds the queries,
  // keys and values of the width, and the MLP's parts.
  static bool Parallel(int64_t size, int64_t inner, int64_t width) {
    return inner > width &&
           (size == inner + 2 * width || size == 2 * inner + width);
  }

  static bool Related(int64_t size, int64_t inner, int64_t width) {
    return size == 2 * inner || size == 3 * inner || Grouped(size, inner) ||
           Parallel(size, inner, width);
  }

  // Returns whether the names of a matrix and of the one that reads its output,
  // or the model's configuration, show attention or a feed-forward block.
  Use UseOf(const Matrix& matrix, int64_t size, const Writer& writer) const {
    const ParameterGroup& group = *matrix.group;
    bool attention = group.role.attention, mlp = HasPart(group, NamesMlp);
    for (const ParameterGroup* one : {&group, writer.matrix->group}) {
      const Role role = facts_.Known(*one).role().module_role;
      attention |= IsAttention(role);
      mlp |= IsMlp(role);
    }
    if (!attention && !mlp && facts_.model() != nullptr) {
      const ModelConfig& model = *facts_.model();
      const auto heads = HeadsOf(model);
      attention = heads && size == (heads->heads + 2 * heads->kv_heads) *
                                       heads->head_dim;
      mlp =
          size == 2 * writer.inner && (model.intermediate == writer.inner ||
                                       model.moe_intermediate == writer.inner);
    }
    if (attention == mlp) return Use::kUnknown;
    return attention ? Use::kAttention : Use::kMlp;
  }

  // Returns the parts of a matrix whose output another matrix reads. Empty if
  // several lists of parts have these sizes.
  std::vector<FusedPart> PartsOf(const Matrix& matrix, size_t out,
                                 const Writer& writer) const {
    const int64_t size = matrix.sizes[out], width = matrix.sizes[1 - out];
    const int64_t inner = writer.inner;
    const Use use = UseOf(matrix, size, writer);
    if (size == 3 * inner) {
      const bool attends = use == Use::kAttention;
      return {
          {attends ? "queries, keys and values each" : "3 equal parts, each",
           inner}};
    }
    if (size == 2 * inner && use == Use::kMlp) {
      return {{"gate and up each", inner}};
    }
    const bool grouped = Grouped(size, inner) && use != Use::kMlp;
    const bool parallel = Parallel(size, inner, width);
    if (grouped == parallel) return {};
    if (parallel) {
      const bool gated = size == 2 * inner + width;
      return {{"queries, keys and values each", width},
              {gated ? "gate and up each" : "up", inner - width}};
    }
    // Half of the matrix may be a gate instead of keys and values.
    if (size == 2 * inner && use != Use::kAttention) return {};
    const int64_t keys = (size - inner) / 2;
    return {{"queries", inner}, {"keys", keys}, {"values", keys}};
  }

  // Returns whether other matrices that read the width show that this one does
  // not hold all parts: the keys and values of separate queries, or a latent.
  static bool OthersHoldParts(const Others& others, int64_t size,
                              const Writer& open, int64_t width) {
    std::vector<int64_t> small;
    for (const int64_t other : others.readers) {
      const bool read = std::any_of(
          others.writers.begin(), others.writers.end(),
          [&](const Writer& writer) { return writer.inner == other; });
      if (read) continue;
      if (other > open.inner && Related(other, open.inner, width)) return true;
      if (other < open.inner) small.push_back(other);
    }
    std::sort(small.begin(), small.end());
    return others.latent || (!small.empty() && size % open.inner != 0) ||
           std::adjacent_find(small.begin(), small.end()) != small.end();
  }

  // Returns whether the matrix, in the other orientation, writes what another
  // matrix of the block reads in one, two or three parts.
  bool Writes(const Block& block, const Matrix& matrix, size_t out) const {
    const int64_t inner = matrix.sizes[out], width = matrix.sizes[1 - out];
    return std::any_of(
        block.matrices.begin(), block.matrices.end(), [&](const Matrix& other) {
          const int64_t size = other.sizes[1 - out];
          return other.group != matrix.group && other.lead == matrix.lead &&
                 other.sizes[out] == width && size % inner == 0 &&
                 size <= 3 * inner && blocks_.Meet(*matrix.group, *other.group);
        });
  }

  // Returns whether the name suggests that the matrix holds keys and values.
  // The latent of some models has the name `wkv`.
  bool NamesKeyValue(const ParameterGroup& group) const {
    return facts_.Known(group).role().module_role == Role::kFusedKeyValue &&
           !shardc::HasPart(group.name, facts_.separator(),
                            std::array{kLatentName});
  }

  // Finds keys and values next to separate queries, which the output projection
  // reads. Without such a name, they are as large as the queries, and no matrix
  // of the block reads both.
  std::optional<Fused> KeyValue(const Matrix& matrix, size_t out,
                                const Others& others, bool named) const {
    const int64_t size = matrix.sizes[out];
    for (const Writer& writer : others.writers) {
      const bool queries = IsAmong(writer.inner, others.readers);
      const bool grouped =
          named && size % 2 == 0 && writer.inner % (size / 2) == 0;
      if (!queries || (!grouped && size != 2 * writer.inner) || others.latent) {
        continue;
      }
      return Fused{
          matrix.dims[out],
          {{named ? "keys and values each" : "2 equal parts, each", size / 2}},
          ReadsText(facts_, *writer.matrix->group, writer.inner)};
    }
    return std::nullopt;
  }

  // Finds the gates of a recurrent cell, which is a module with one matrix for
  // its state, [4h, h] or [3h, h], and one for its input, [4h, x].
  std::optional<Fused> Cell(const Matrix& matrix, size_t out) const {
    const auto paths = blocks_.PathsOf(matrix.group->name);
    const Block& module = blocks_.At(paths.front());
    const int64_t size = matrix.sizes[out];
    int64_t state = 0;
    bool input = false;
    for (const Matrix& one : module.matrices) {
      if (one.sizes[out] != size || !one.lead.empty() ||
          blocks_.PathsOf(one.group->name).front() != paths.front()) {
        return std::nullopt;
      }
      const int64_t in = one.sizes[1 - out];
      if (in * 4 == size || in * 3 == size) {
        state = in;
      } else {
        input = true;
      }
    }
    if (state == 0 || !input) return std::nullopt;
    return Fused{matrix.dims[out],
                 {{std::to_string(size / state) + " equal parts, each", state}},
                 "its module has the state " + std::to_string(state)};
  }

  std::optional<Fused> ByShape(const ParameterGroup& group) const {
    const Role role = group.role.module_role;
    const Matrix* const matrix = blocks_.MatrixOf(group);
    const bool open = role == Role::kOther || role == Role::kNorm ||
                      role == Role::kUp || role == Role::kGate ||
                      role == Role::kFusedQkv || role == Role::kFusedGateUp ||
                      role == Role::kFusedKeyValue;
    if (!open || matrix == nullptr) return std::nullopt;
    for (const size_t out : {size_t{0}, size_t{1}}) {
      if (!matrix->MayBe(out) || !ShowsOutput(*matrix, out)) continue;
      if (auto cell = Cell(*matrix, out)) return cell;
      if (auto found = BySize(*matrix, out)) return found;
    }
    return std::nullopt;
  }

  // Returns whether it is known that side `out` of a matrix may be its output.
  // A square matrix needs a known orientation and a name that shows keys and
  // values, or gate and up of an inner size that is half of the width. Square
  // matrices of experts are gate and up if the one other matrix of the experts
  // reads half of the width, and they are oriented as that one.
  bool ShowsOutput(const Matrix& matrix, size_t out) const {
    const Role role = matrix.group->role.module_role;
    if (matrix.sizes[0] != matrix.sizes[1] || NamesKeyValue(*matrix.group) ||
        (matrix.group->role.in_first &&
         (role == Role::kUp || role == Role::kFusedGateUp))) {
      return true;
    }
    if (matrix.lead.empty()) return false;
    const Matrix* other = nullptr;
    const auto path = blocks_.PathsOf(matrix.group->name).front();
    for (const Matrix& one : blocks_.At(path).matrices) {
      if (one.group == matrix.group || one.lead != matrix.lead) continue;
      if (other != nullptr) return false;
      other = &one;
    }
    return other != nullptr && other->sizes[out] == matrix.sizes[0] &&
           matrix.sizes[0] % 2 == 0 &&
           other->sizes[1 - out] == matrix.sizes[0] / 2;
  }

  // Finds the parts of a matrix whose output dimension is `matrix.dims[out]`.
  std::optional<Fused> BySize(const Matrix& matrix, size_t out) const {
    const int64_t size = matrix.sizes[out], width = matrix.sizes[1 - out];
    const bool modulates = HasPart(*matrix.group, NamesModulation);
    const bool named = NamesKeyValue(*matrix.group);
    for (const std::string_view path : blocks_.PathsOf(matrix.group->name)) {
      const Block& block = blocks_.At(path);
      if (modulates || !block.IsOne()) break;
      if (!matrix.group->role.in_first && Writes(block, matrix, out)) break;
      const Others others = OthersOf(block, matrix, out);
      bool related = false;
      std::vector<Writer> unread;
      for (const Writer& writer : others.writers) {
        if (writer.inner == size && !named) return std::nullopt;
        if (!Related(size, writer.inner, width)) continue;
        related = true;
        if (!IsAmong(writer.inner, others.readers)) {
          unread.push_back(writer);
        }
      }
      if (named || (related && unread.empty())) {
        if (auto found = KeyValue(matrix, out, others, named)) return found;
      }
      if (!related) continue;
      if (unread.empty()) break;
      if (unread.size() > 1 ||
          OthersHoldParts(others, size, unread[0], width)) {
        return std::nullopt;
      }
      return Fused{
          matrix.dims[out], PartsOf(matrix, out, unread[0]),
          ReadsText(facts_, *unread[0].matrix->group, unread[0].inner)};
    }
    const Role role = matrix.group->role.module_role;
    if (role != Role::kOther && role != Role::kNorm) return std::nullopt;
    return Modulation(matrix, out, modulates);
  }

  // Finds a modulation, which is a matrix such as [6 * width, width]. Its parts
  // are shifts, scales and gates of the width.
  std::optional<Fused> Modulation(const Matrix& matrix, size_t out,
                                  bool named) const {
    const int64_t size = matrix.sizes[out], width = matrix.sizes[1 - out];
    const int64_t times = size / width;
    if (!matrix.group->role.in_first || !matrix.lead.empty() ||
        width < kLeastWidth || size % width != 0 || times < 2 ||
        times > kMostModulations) {
      return std::nullopt;
    }
    if (!named && !ShowsModulation(matrix, size, width)) return std::nullopt;
    return Fused{matrix.dims[out],
                 {{std::to_string(times) + " equal parts, each", width}},
                 "its input is " + std::to_string(width)};
  }

  // Returns whether a matrix [size, width] without a known name is a
  // modulation: it is in a layer, most of whose other matrices have the width
  // on a side, has a bias if there are none, and no matrix of its module has
  // its sizes, as that of another expert may have.
  bool ShowsModulation(const Matrix& matrix, int64_t size,
                       int64_t width) const {
    const auto paths = blocks_.PathsOf(matrix.group->name);
    const Block& module = blocks_.At(paths.front());
    const bool bias =
        std::any_of(module.vectors.begin(), module.vectors.end(),
                    [&](const Sized& one) { return one.size == size; });
    const Block& layer = blocks_.At(paths.back());
    if (paths.back().empty() || !layer.IsOne() ||
        std::find(std::begin(kModulations), std::end(kModulations),
                  size / width) == std::end(kModulations) ||
        (size / width <= kFewModulations && !bias)) {
      return false;
    }
    int64_t with = 0;
    for (const Matrix& other : layer.matrices) {
      if (other.group == matrix.group) continue;
      with += other.sizes[0] == width || other.sizes[1] == width ? 1 : -1;
    }
    return with >= (bias ? 0 : 1) &&
           std::count_if(module.matrices.begin(), module.matrices.end(),
                         [&](const Matrix& other) {
                           return other.sizes == matrix.sizes;
                         }) == 1;
  }

  const Facts& facts_;
  const Blocks& blocks_;
  // The output projections of attention, by the path of their block.
  std::unordered_map<std::string_view, std::vector<const ParameterGroup*>>
      outputs_;
};

}  // namespace

const Fused* BlockFacts::Of(const ParameterGroup& group) const {
  const auto at = fused.find(&group);
  return at == fused.end() ? nullptr : &at->second;
}

const Mixer* BlockFacts::MixerOf(const ParameterGroup& group) const {
  const auto at = mixer_of.find(&group);
  return at == mixer_of.end() ? nullptr : &mixers[at->second];
}

BlockFacts BlockFactsOf(const Facts& facts) {
  const Blocks blocks(facts);
  BlockFacts out;
  AddMixers(facts, blocks, out);
  for (size_t i = 0; i < out.mixers.size(); ++i) {
    for (const Sized& input : out.mixers[i].inputs) {
      out.mixer_of.emplace(input.group, i);
    }
  }
  const FusedReader reader(facts, blocks);
  for (const ParameterGroup& group : facts.groups()) {
    if (out.fused.contains(&group) || out.MixerOf(group) != nullptr) continue;
    if (auto fused = reader.Of(group)) out.fused[&group] = *std::move(fused);
  }
  return out;
}

bool IsGathered(const Facts& facts, const ParameterGroup& group) {
  const Mixer* const mixer = facts.blocks().MixerOf(group);
  return mixer != nullptr && facts.Judged(*mixer->output.group) &&
         facts.TensorParts(
             facts.AxesAt(*mixer->output.group, mixer->output.dim)) <= 1;
}

std::string PartsText(const Fused& fused) {
  const std::string out = ListInWords(fused.parts, [](const auto& part) {
    return part.name + " " + std::to_string(part.size);
  });
  return out.empty() ? "of unknown sizes" : out;
}

std::string ReadsText(const Facts& facts, const ParameterGroup& group,
                      int64_t size) {
  return Quoted(GroupName(facts, group)) + " reads " + std::to_string(size);
}

// Finds the matrices, vectors and convolutions below each path of the names. A
// group of parameters is in the blocks of all paths around it, up to its layer:
//
//   layers.*.mlp.up.weight  ->  blocks `layers.*.mlp.up.`, `layers.*.mlp.` and
//                               `layers.*.`
//
// Two groups of a block may be in different layers, which Meet() compares by
// the numbers of their layers. A convolution has one kernel for each channel,
// so its shape has a dimension of 1 and a small one: [8192, 1, 4]. One whose
// kernel has one number is a matrix: [2048, 1024, 1].

namespace {

// The largest kernel of a convolution, and its fewest channels.
constexpr int64_t kLargestKernel = 8;
constexpr int64_t kFewestChannels = 16;
// Parameters with a larger dimension are omitted, so that sums of sizes fit in
// 64 bits.
constexpr int64_t kLargestSize = int64_t{1} << 40;

std::vector<int64_t> LayersOf(const Facts& facts, const ParameterGroup& group) {
  std::vector<int64_t> out;
  const size_t at = group.name.find('*');
  if (at == std::string::npos) return out;
  for (const uint32_t param : facts.Members(group)) {
    const std::string_view name = facts.plan().names[param];
    const char* const end = name.data() + name.size();
    int64_t layer = 0;
    std::from_chars(std::min(name.data() + at, end), end, layer);
    if (out.empty() || out.back() != layer) out.push_back(layer);
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool IsOmitted(const Facts& facts, const ParameterGroup& group) {
  const TensorType& type = facts.TypeOf(group);
  const ParameterRole& role = group.role;
  return !type.shape || (type.dtype && MayPack(*type.dtype)) ||
         role.leaf == Leaf::kScale || role.leaf == Leaf::kZeroPoint ||
         IsAdapter(role.role) || role.role == Role::kPosition ||
         role.module_role == Role::kEmbedding ||
         role.module_role == Role::kHead;
}

}  // namespace

bool Matrix::MayBe(size_t out) const {
  return !group->role.in_first || *group->role.in_first == (out == 1);
}

Blocks::Blocks(const Facts& facts)
    : first_(facts.groups().data()), separator_(facts.separator()) {
  layers_.reserve(facts.groups().size());
  blocks_.reserve(facts.groups().size());
  for (const ParameterGroup& group : facts.groups()) {
    layers_.push_back(LayersOf(facts, group));
    if (!IsOmitted(facts, group)) Add(facts, group);
  }
}

std::vector<std::string_view> Blocks::PathsOf(std::string_view name) const {
  std::vector<std::string_view> out;
  const size_t layer = name.find('*');
  const bool counted = layer != std::string_view::npos;
  for (size_t end = name.size(); end > (counted ? layer : 0); --end) {
    if (name[end - 1] == separator_) out.push_back(name.substr(0, end));
  }
  if (!counted || out.empty()) out.emplace_back();
  return out;
}

const Block& Blocks::At(std::string_view path) const {
  static const Block kNone;
  const auto at = blocks_.find(path);
  return at == blocks_.end() ? kNone : at->second;
}

const Matrix* Blocks::MatrixOf(const ParameterGroup& group) const {
  const Block& block = At(PathsOf(group.name).front());
  if (!block.IsOne()) return nullptr;
  for (const Matrix& matrix : block.matrices) {
    if (matrix.group == &group) return &matrix;
  }
  return nullptr;
}

bool Blocks::Meet(const ParameterGroup& a, const ParameterGroup& b) const {
  const auto& layers = layers_[AsIndex(&a - first_)];
  const auto& others = layers_[AsIndex(&b - first_)];
  return layers.empty() ||
         std::binary_search(others.begin(), others.end(), layers.front());
}

void Blocks::Add(const Facts& facts, const ParameterGroup& group) {
  const Shape& shape = *facts.TypeOf(group).shape;
  std::vector<int> dims = {0, 1};
  if (shape.size() != 2) dims = UnscannedDims(facts, facts.stacks(), group);
  if (shape.size() == 1) dims = {0};
  std::vector<int> wide;  // dimensions larger than 1
  for (const int dim : dims) {
    if (shape[AsIndex(dim)] > kLargestSize) return;
    if (shape[AsIndex(dim)] > 1) wide.push_back(dim);
  }
  const auto sized = [&](int dim) {
    return Sized{&group, dim, shape[AsIndex(dim)]};
  };
  Block one;
  const bool by_channel = wide.size() == 2 && dims.size() == 3;
  if (dims.size() == 1) {
    one.vectors.push_back(sized(dims[0]));
  } else if (wide.size() == 1 && dims.size() > 2) {
    // A vector that is stored for broadcasting: [1, 1, heads, 1].
    one.vectors.push_back(sized(wide[0]));
  } else if (by_channel || (wide.size() == 2 && Contains(group.name, "conv"))) {
    const bool first = shape[AsIndex(wide[0])] > shape[AsIndex(wide[1])];
    const Sized channels = sized(wide[first ? 0 : 1]);
    if (channels.size >= kFewestChannels &&
        shape[AsIndex(wide[first ? 1 : 0])] <= kLargestKernel) {
      one.convolutions.push_back(channels);
    }
  }
  // A convolution with a kernel of one number is a matrix.
  if (by_channel && one.convolutions.empty() && wide[1] - wide[0] == 1) {
    dims = wide;
  }
  if (dims.size() >= 2 && wide.size() == dims.size() &&
      one.convolutions.empty() && group.role.leaf != Leaf::kBias) {
    Matrix matrix{.group = &group};
    for (const int dim : dims) matrix.lead.push_back(shape[AsIndex(dim)]);
    for (const size_t i : {size_t{0}, size_t{1}}) {
      matrix.dims[i] = dims[dims.size() - 2 + i];
      matrix.sizes[i] = shape[AsIndex(matrix.dims[i])];
      matrix.lead.pop_back();
    }
    one.matrices.push_back(std::move(matrix));
  }
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const std::string_view path : PathsOf(group.name)) {
    Block& block = blocks_[path];
    // Nothing reads more of a block than that it is not one.
    if (!block.IsOne()) continue;
    append(block.matrices, one.matrices);
    append(block.vectors, one.vectors);
    append(block.convolutions, one.convolutions);
  }
}

}  // namespace shardc
